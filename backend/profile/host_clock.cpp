#include "backend/profile/host_clock.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace shardscope {

ClockOffset clock_offset(std::span<const ClockReading> readings) {
  const ClockReading& best = *std::ranges::min_element(
      readings, std::ranges::less{},
      [](const ClockReading& reading) { return reading.after_ns - reading.before_ns; });
  const std::int64_t passed = best.after_ns - best.before_ns;
  return {.at_ns = best.other_ns,
          .offset_ns = best.other_ns - (best.before_ns + passed / 2),
          .uncertainty_ns = (passed + 1) / 2};
}

/// In double: drifts are small, and their products with it are exact to far below a nanosecond.
std::int64_t HostClock::to_host(std::int64_t other_ns) const {
  const std::int64_t span = end_.at_ns - start_.at_ns;
  if (span <= 0) return other_ns - start_.offset_ns;
  const double share = static_cast<double>(other_ns - start_.at_ns) / static_cast<double>(span);
  const auto drift = static_cast<double>(end_.offset_ns - start_.offset_ns);
  return other_ns - start_.offset_ns - std::llround(drift * share);
}

Duration HostClock::residual() const {
  return {std::max(start_.uncertainty_ns, end_.uncertainty_ns)};
}

Duration HostClock::distance() const {
  return {std::max(std::abs(start_.offset_ns) + start_.uncertainty_ns,
                   std::abs(end_.offset_ns) + end_.uncertainty_ns)};
}

}  // namespace shardscope
