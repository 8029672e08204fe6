// What a communicator has queued on a device's streams, as a watchdog sees it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "backend/comm/collective_call.h"

namespace shardscope {

/// A collective that was queued.
struct QueuedCollective {
  std::uint64_t number = 0;  ///< in the order of the whole tree, the same on all ranks
  CollectiveCall call;
  std::vector<int> ranks;  ///< of its group, as numbered at the start
  std::chrono::steady_clock::time_point queued_at;
};

/// Of one communicator and all that were split off it, in the order in which they were called. Any
/// thread may ask while another one queues; nothing here waits for the device or for a peer.
class QueuedCollectives {
 public:
  virtual ~QueuedCollectives() = default;

  /// Those that have not ended, oldest first. What a graph replays is not among them.
  virtual std::vector<QueuedCollective> pending() = 0;
  /// Numbers below this one were queued.
  virtual std::uint64_t queued_count() = 0;
  /// What the library found out by itself ("unhandled system error: connection reset"), or why it
  /// was aborted; empty: nothing is wrong.
  virtual std::string failure() = 0;
  /// Ends everything that is queued without the peers, so that who waits for the device goes on.
  /// The communicators are of no use after that: each call of theirs throws Error
  /// (ExitCode::rank_lost) with `why`.
  virtual void abort(const std::string& why) = 0;
};

}  // namespace shardscope
