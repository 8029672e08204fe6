#include "gui/data/round_ticks.h"

#include <cmath>

namespace shardscope::gui {

std::vector<double> round_ticks(double from, double to, int count) {
  std::vector<double> ticks;
  const double apart = (to - from) / count;
  if (!(apart > 0) || !std::isfinite(apart)) return ticks;
  const double power = std::pow(10, std::floor(std::log10(apart)));
  const double share = apart / power;
  const double step = power * (share <= 1.5 ? 1 : share <= 3.5 ? 2 : share <= 7.5 ? 5 : 10);
  for (double n = std::ceil(from / step); n * step <= to; ++n) ticks.push_back(n * step);
  return ticks;
}

}  // namespace shardscope::gui
