// Round times for an axis that may begin anywhere.
#pragma once

#include <string>
#include <vector>

#include "gui/data/time_range.h"

namespace shardscope::gui {

struct TimeTicks {
  struct Tick {
    double time = 0;    ///< on the axis, nanoseconds
    std::string label;  ///< with its unit: "12.5 ms"
  };
  std::vector<Tick> ticks;
};

/// About `wanted` ticks inside `range`, at multiples of 1, 2 or 5 times a power of ten nanoseconds;
/// all labels in one unit, with as many decimals as tell neighbours apart. Example: [0, 1e6) and 5:
/// 0, 0.2, 0.4, 0.6, 0.8 ms.
TimeTicks time_ticks(TimeRange range, int wanted);

}  // namespace shardscope::gui
