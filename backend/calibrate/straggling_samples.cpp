#include "backend/calibrate/straggling_samples.h"

#include <algorithm>
#include <functional>

#include "core/base/median.h"

namespace shardscope {

StragglingSample straggling_of(std::span<const double> seconds, std::size_t parts) {
  double means = 0;
  std::vector<Duration> waits;
  const std::size_t ranks = seconds.size() / parts;
  for (std::size_t part = 0; part < parts; ++part) {
    double sum = 0;
    double last = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      sum += seconds[rank * parts + part];
      last = std::max(last, seconds[rank * parts + part]);
    }
    means += sum / static_cast<double>(ranks);
    waits.push_back(Duration::from_seconds(last - sum / static_cast<double>(ranks)));
  }
  return {.compute = Duration::from_seconds(means / static_cast<double>(parts)),
          .wait = median(waits)};
}

std::vector<StragglingSample> pooled(std::vector<StragglingSample> samples) {
  constexpr std::int64_t factor = 4;
  std::ranges::sort(samples, std::ranges::greater(), &StragglingSample::compute);
  std::vector<StragglingSample> result;
  for (auto first = samples.begin(); first != samples.end();) {
    const auto last = std::find_if(first, samples.end(), [&](const StragglingSample& one) {
      return one.compute.ns * factor < first->compute.ns;
    });
    std::vector<Duration> computes, waits;
    for (const StragglingSample& one : std::span(first, last)) {
      computes.push_back(one.compute);
      waits.push_back(one.wait);
    }
    result.push_back({median(computes), median(waits)});
    first = last;
  }
  std::ranges::reverse(result);
  return result;
}

}  // namespace shardscope
