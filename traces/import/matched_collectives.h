// Collectives of several ranks' traces brought together: who came last, and who waited for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "traces/import/collectives.h"

namespace shardscope {

/// One rank's collectives, by start.
struct RankCalls {
  std::int64_t rank = 0;
  std::int64_t base_ns = 0;   ///< of the trace's clock
  bool are_transfers = true;  ///< kernels; the host's operators return before their transfer ends
  std::vector<ImportedCollective> collectives;
};

/// A rank's part in a collective. Times are on the clock that all ranks share.
struct CollectivePart {
  std::int64_t rank = 0;
  Duration start, duration;
  Duration wait;  ///< until the last rank began, at most `duration`
};

struct MatchedCollective {
  std::int64_t call = 0;              ///< among those of its group
  ImportedCollective what;            ///< as its first rank shows it
  std::vector<CollectivePart> parts;  ///< by rank
  Duration start_skew;                ///< last begin less first begin
  std::int64_t last_rank = 0;         ///< that began last
};

/// What one rank waited, and let others wait.
struct RankWaits {
  std::int64_t rank = 0;
  Duration clock_offset;  ///< that was taken from its clock
  std::int64_t collectives = 0, times_last = 0;
  Duration waited, let_others_wait;
};

struct MatchedCollectives {
  std::vector<MatchedCollective> collectives;  ///< by group as they first appear, then call
  std::vector<RankWaits> ranks;                ///< by rank
  std::vector<std::string> not_matched;        ///< what did not align, and why
};

/// Matches calls of one group (its name, and its ranks where the traces say them) by the sequence
/// number that NCCL's arguments have, else by their place among the group's calls of the rank,
/// moved by as few places as make most kinds, sizes and types agree. What differs or has no partner
/// is said in `not_matched`. Clocks of ranks are set by what their collectives have in common: an
/// all-reduce, all-gather, reduce-scatter or all-to-all ends on all ranks at once, and the median
/// difference of those ends is taken from a rank's clock (transfers only).
MatchedCollectives matched_collectives(const std::vector<RankCalls>& ranks);

}  // namespace shardscope
