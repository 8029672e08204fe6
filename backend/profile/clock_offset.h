// How far another clock is from ours.
#pragma once

#include <cstdint>
#include <span>

#include "core/base/quantities.h"

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

}  // namespace shardscope
