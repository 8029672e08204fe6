#include "gui/data/time_map.h"

#include <algorithm>

namespace shardscope::gui {
namespace {

using Knot = TimeMap::Knot;

/// The value at `from` of the line through the knots around it, `in` being its coordinate.
double interpolated(const std::vector<Knot>& knots, double from, double Knot::*in,
                    double Knot::*out) {
  const auto after = std::upper_bound(knots.begin(), knots.end(), from,
                                      [&](double value, const Knot& k) { return value < k.*in; });
  if (after == knots.begin()) return knots.front().*out + (from - knots.front().*in);
  if (after == knots.end()) return knots.back().*out + (from - knots.back().*in);
  const Knot& before = *(after - 1);
  const double share = (from - before.*in) / ((*after).*in - before.*in);
  return before.*out + share * ((*after).*out - before.*out);
}

}  // namespace

std::string_view name_of(TimeMode mode) {
  switch (mode) {
    case TimeMode::time:
      return "time";
    case TimeMode::step:
      return "step";
    case TimeMode::unit:
      return "unit";
  }
  return "";
}

TimeMap::TimeMap(const std::vector<Knot>& knots) {
  for (const Knot& knot : knots)
    if (knots_.empty() || (knot.clock > knots_.back().clock && knot.axis > knots_.back().axis))
      knots_.push_back(knot);
  if (knots_.empty()) knots_.push_back({});
}

double TimeMap::axis_of(double clock) const {
  return interpolated(knots_, clock, &Knot::clock, &Knot::axis);
}

double TimeMap::clock_of(double axis) const {
  return interpolated(knots_, axis, &Knot::axis, &Knot::clock);
}

}  // namespace shardscope::gui
