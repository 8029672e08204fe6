// Brings the clocks of a job's ranks together.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "backend/profile/clock_offset.h"
#include "backend/rendezvous/environment.h"
#include "backend/rendezvous/tcp_store.h"

namespace shardscope {

/// The time that all ranks of a job go by: Unix time = monotonic_ns() + offset.
struct CommonClock {
  ClockOffset unix_minus_monotonic;
  std::string method;  ///< in words
};

/// One agreement about the clock, of several that follow each other.
struct ClockMeeting {
  std::int64_t number = 0;             ///< one more than that of the one before
  std::chrono::milliseconds deadline;  ///< longest wait for another rank
};

/// Collective, where `store` is not null. The ranks of a host have one monotonic clock and take one
/// offset for it, which its first rank finds; where there are several hosts, by round trips to the
/// store.
CommonClock common_clock(const Environment& environment, TcpStore* store,
                         const ClockMeeting& meeting);

}  // namespace shardscope
