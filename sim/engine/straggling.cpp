#include "sim/engine/straggling.h"

#include <algorithm>
#include <cmath>

namespace shardscope {
namespace {

Duration in_proportion(const StragglingSample& sample, Duration compute) {
  return Duration::from_seconds(sample.wait.seconds() * compute.seconds() /
                                sample.compute.seconds());
}

Duration between(const StragglingSample& low, const StragglingSample& high, Duration compute) {
  if (low.wait.ns <= 0 || high.wait.ns <= 0) return in_proportion(high, compute);
  const double share = std::log(compute.seconds() / low.compute.seconds()) /
                       std::log(high.compute.seconds() / low.compute.seconds());
  return Duration::from_seconds(low.wait.seconds() *
                                std::pow(high.wait.seconds() / low.wait.seconds(), share));
}

}  // namespace

Duration Straggling::wait() const {
  if (samples_.empty() || since_they_met_.ns <= 0) return {};
  const auto above =
      std::ranges::lower_bound(samples_, since_they_met_, {}, &StragglingSample::compute);
  if (above == samples_.begin()) return in_proportion(samples_.front(), since_they_met_);
  if (above == samples_.end()) return in_proportion(samples_.back(), since_they_met_);
  return between(*(above - 1), *above, since_they_met_);
}

}  // namespace shardscope
