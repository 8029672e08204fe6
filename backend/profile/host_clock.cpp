#include "backend/profile/host_clock.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace shardscope {
namespace {

Duration distance_of(const ClockOffset& offset) {
  return Duration{std::abs(offset.offset_ns)} + offset.residual;
}

}  // namespace

/// In double: drifts are small, and their products with it are exact to far below a nanosecond.
std::int64_t HostClock::to_host(std::int64_t other_ns) const {
  const std::int64_t first_ns = start_.offset.offset_ns;
  const std::int64_t span = end_.at_ns - start_.at_ns;
  if (span <= 0) return other_ns - first_ns;
  const double share = static_cast<double>(other_ns - start_.at_ns) / static_cast<double>(span);
  const auto drift = static_cast<double>(end_.offset.offset_ns - first_ns);
  return other_ns - first_ns - std::llround(drift * share);
}

Duration HostClock::residual() const {
  return std::max(start_.offset.residual, end_.offset.residual);
}

Duration HostClock::distance() const {
  return std::max(distance_of(start_.offset), distance_of(end_.offset));
}

}  // namespace shardscope
