// Time to pixels and back.
#pragma once

#include "gui/data/time_range.h"

namespace shardscope::gui {

/// A time range over the pixels [left, left + width). Pixel x stands for the times
/// [time_at(x), time_at(x + 1)).
struct TimeScale {
  TimeRange range;
  double left = 0;
  double width = 1;

  double x_of(double time) const { return left + (time - range.begin) / range.length() * width; }
  double time_at(double x) const { return range.begin + (x - left) / width * range.length(); }
  double ns_per_pixel() const { return range.length() / width; }
};

}  // namespace shardscope::gui
