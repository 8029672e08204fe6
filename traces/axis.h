// Axes of pictures: values to pixels, and ticks at round values with one unit for all.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/quantities.h"

namespace shardscope {

struct Tick {
  std::int64_t value = 0;
  std::string label;  ///< without the unit
};

/// A linear axis from 0, in the base unit (bytes or nanoseconds).
struct Axis {
  std::int64_t end = 1;  ///< value at the far end
  double from = 0;       ///< pixel of 0
  double to = 1;         ///< pixel of `end`
  std::string unit;      ///< of the labels: "MiB", "ms"
  std::vector<Tick> ticks;

  double at(std::int64_t value) const {
    return from + (to - from) * static_cast<double>(value) / static_cast<double>(end);
  }
};

/// An axis from 0 to `end` (at least one byte or nanosecond) over the pixels [from, to], with about
/// `ticks` ticks at 1, 2 or 5 times a power of ten of a unit.  Example: 5 MiB and 5 ticks: 0 1 2 3
/// 4 5, unit MiB.
Axis byte_axis(Bytes end, double from, double to, int ticks);
Axis time_axis(Duration end, double from, double to, int ticks);

}  // namespace shardscope
