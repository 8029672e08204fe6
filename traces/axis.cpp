#include "traces/axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

namespace shardscope {
namespace {

struct Unit {
  std::string_view name;
  double size;  ///< in the base unit
};

constexpr Unit byte_units[] = {
    {"B", 1}, {"KiB", 1024}, {"MiB", 1048576}, {"GiB", 1073741824}, {"TiB", 1099511627776}};
constexpr Unit time_units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};

/// The largest unit of which `end` has at least one.
Unit unit_for(double end, std::span<const Unit> units) {
  Unit best = units.front();
  for (const Unit& unit : units) {
    if (end >= unit.size) best = unit;
  }
  return best;
}

/// 1, 2 or 5 times a power of ten, so that `end` has at most `ticks` steps of it.
double round_step(double end, int ticks) {
  const double rough = end / ticks;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

Axis axis(std::int64_t end, double from, double to, std::span<const Unit> units, int ticks) {
  Axis result{.end = std::max<std::int64_t>(1, end), .from = from, .to = to};
  const Unit unit = unit_for(static_cast<double>(result.end), units);
  result.unit = unit.name;
  const double end_in_unit = static_cast<double>(result.end) / unit.size;
  const double step = round_step(end_in_unit, ticks);
  for (int i = 0; i * step <= end_in_unit * (1 + 1e-9); ++i) {
    result.ticks.push_back(
        {.value = std::llround(i * step * unit.size), .label = fmt::format("{:.6g}", i * step)});
  }
  return result;
}

}  // namespace

Axis byte_axis(Bytes end, double from, double to, int ticks) {
  return axis(end.count, from, to, byte_units, ticks);
}
Axis time_axis(Duration end, double from, double to, int ticks) {
  return axis(end.ns, from, to, time_units, ticks);
}

}  // namespace shardscope
