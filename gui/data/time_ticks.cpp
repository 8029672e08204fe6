#include "gui/data/time_ticks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace shardscope::gui {
namespace {

struct Unit {
  std::string_view name;
  double ns;
};
constexpr std::array units{Unit{"s", 1e9}, Unit{"ms", 1e6}, Unit{"us", 1e3}, Unit{"ns", 1}};

/// The largest unit in which a step is at least a hundredth, so that labels stay short.
const Unit& unit_of(double step, double largest) {
  for (const Unit& unit : units)
    if (largest >= unit.ns && step >= unit.ns / 1000) return unit;
  return units.back();
}

double round_step(double rough) {
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (power * factor >= rough) return power * factor;
  return power * 10;
}

}  // namespace

TimeTicks time_ticks(TimeRange range, int wanted) {
  TimeTicks result;
  const double step = std::max(1.0, round_step(range.length() / std::max(1, wanted)));
  const Unit& unit = unit_of(step, std::max(std::abs(range.begin), std::abs(range.end)));
  const int decimals = std::max(0, static_cast<int>(std::ceil(-std::log10(step / unit.ns) - 1e-9)));
  for (double time = std::ceil(range.begin / step) * step; time < range.end; time += step) {
    const double value = time == 0 ? 0.0 : time / unit.ns;
    result.ticks.push_back(
        {.time = time, .label = fmt::format("{:.{}f} {}", value, decimals, unit.name)});
    if (result.ticks.size() > 1000) break;
  }
  return result;
}

}  // namespace shardscope::gui
