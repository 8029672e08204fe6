// Times of another clock on the host's monotonic one.
#pragma once

#include <cstdint>
#include <span>

#include "core/quantities.h"

namespace shardscope {

/// The other clock, read between two readings of the host's.
struct ClockReading {
  std::int64_t before_ns = 0;
  std::int64_t other_ns = 0;
  std::int64_t after_ns = 0;
};

/// `other - host` from the narrowest of some readings, and how far off that may be: half of what
/// passed between the host's readings.
struct ClockOffset {
  std::int64_t at_ns = 0;  ///< on the other clock
  std::int64_t offset_ns = 0;
  std::int64_t uncertainty_ns = 0;
};
/// `readings` is not empty.
ClockOffset clock_offset(std::span<const ClockReading> readings);

/// Two clocks that drift from each other evenly between two moments.
class HostClock {
 public:
  HostClock(ClockOffset start, ClockOffset end) : start_(start), end_(end) {}

  std::int64_t to_host(std::int64_t other_ns) const;
  /// Of a time between the two moments.
  Duration residual() const;
  /// How far the clocks were from each other at most: what is wrong where times are not converted.
  Duration distance() const;

 private:
  ClockOffset start_, end_;
};

}  // namespace shardscope
