// Times of another clock on the host's monotonic one.
#pragma once

#include <cstdint>

#include "backend/profile/clock_offset.h"
#include "core/base/quantities.h"

namespace shardscope {

/// Another clock as it was found at one moment.
struct ClockFinding {
  std::int64_t at_ns = 0;  ///< on the other clock
  ClockOffset offset;      ///< what to add to the host's
};

/// Two clocks that drift from each other evenly between two moments.
class HostClock {
 public:
  HostClock(ClockFinding start, ClockFinding end) : start_(start), end_(end) {}

  std::int64_t to_host(std::int64_t other_ns) const;
  /// Of a time between the two moments.
  Duration residual() const;
  /// How far the clocks were from each other at most: what is wrong where times are not converted.
  Duration distance() const;

 private:
  ClockFinding start_, end_;
};

}  // namespace shardscope
