// Who held up the others, from what the ranks say of themselves.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/watch/flight_recorder.h"

namespace shardscope {

/// What one rank says of itself after trouble.
struct RankStatement {
  std::optional<FlightEntry> doing;  ///< the collective that it is in
  std::optional<FlightEntry> last;   ///< the one that it completed last
  std::vector<FlightSnapshot::Group> groups;
  bool has_left = false;  ///< in order, before the others
};
RankStatement report_of(const FlightSnapshot& snapshot);

/// late: `rank` waited longer than the deadline. queued: the library under `rank` found a failure
/// by itself. lost: the process of `rank` ended. failed: `rank` gave up with an error of its own.
/// cut_off: the store that `rank` serves does not answer, so that nobody can be asked.
enum class TroubleKind { late, queued, lost, failed, cut_off };

/// What was seen first; one for the whole job.
struct Trouble {
  TroubleKind kind = TroubleKind::late;
  int rank = 0;
  std::string text;  ///< "its process ended", the error
};
std::string to_text(const Trouble& trouble);
/// Nothing where `text` is not one that `to_text` wrote.
std::optional<Trouble> parse_trouble(std::string_view text);

struct Verdict {
  std::vector<int> late;    ///< the ranks that it comes from; empty: it is nobody's
  std::string cause;        ///< "rank 2 did not come within 10 s"
  std::string doing;        ///< "ranks 0,1 wait in all_reduce of ...; rank 2 is in no collective"
  std::vector<int> silent;  ///< ranks that were asked and said nothing
  int answered = 0;         ///< ranks that said what they are doing
};

/// `reports` by rank; nothing of those that gave no answer. Follows from the rank that waited too
/// long to a member of its group that has not made the same call, and on from there, as that one
/// may itself wait for another.
Verdict judge(const Trouble& trouble, const std::vector<std::optional<RankStatement>>& reports,
              std::chrono::milliseconds deadline);

}  // namespace shardscope
