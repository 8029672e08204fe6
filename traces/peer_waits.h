// What a trace's collectives came to: waiting for peers, and moving bytes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "core/base/quantities.h"
#include "traces/trace.h"

namespace shardscope {

/// Of the collectives whose waiting was measured (`waiting_ns`, `last_rank`).
struct PeerWaitTotals {
  std::int64_t collectives = 0;
  Duration waiting;                        ///< until the last rank of the group had begun
  Duration moving;                         ///< the rest of their spans
  Bytes bytes;                             ///< payload that was moved meanwhile
  std::map<int, std::int64_t> times_last;  ///< by rank; the others never were
  bool operator==(const PeerWaitTotals&) const = default;
};
/// None where nothing was measured.
std::optional<PeerWaitTotals> peer_wait_totals(const Trace& trace);

}  // namespace shardscope
