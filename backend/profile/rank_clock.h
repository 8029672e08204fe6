// Brings the clocks of a job's ranks together.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>

#include "backend/launch/environment.h"
#include "backend/launch/tcp_store.h"
#include "core/quantities.h"

namespace shardscope {

/// A question to another clock: sent and received by ours, answered by the other.
struct ClockExchange {
  std::int64_t sent_ns = 0;
  std::int64_t answered_ns = 0;
  std::int64_t received_ns = 0;
};

/// What to add to our clock for the other's time, and how far off that may be.
struct ClockOffset {
  std::int64_t offset_ns = 0;
  Duration residual;
  bool operator==(const ClockOffset&) const = default;
};

/// By the shortest of the round trips, as if the answer was given in its middle (Cristian 1989;
/// NTP, RFC 5905): wrong by half of it at most. Example: sent at 100, answered at 5030, received at
/// 120 is 4920, within 10.
ClockOffset offset_of(std::span<const ClockExchange> exchanges);

/// The time that all ranks of a job go by: Unix time = monotonic_ns() + offset.
struct CommonClock {
  ClockOffset unix_minus_monotonic;
  std::string method;  ///< in words
};

/// One agreement about the clock, of several that follow each other.
struct ClockMeeting {
  std::int64_t number = 0;             ///< other than that of the one before
  std::chrono::milliseconds deadline;  ///< longest wait for another rank
};

/// Collective, where `store` is not null. The ranks of a host have one monotonic clock and take one
/// offset for it, which its first rank finds; where there are several hosts, by round trips to the
/// store.
CommonClock common_clock(const Environment& environment, TcpStore* store,
                         const ClockMeeting& meeting);

}  // namespace shardscope
