// Where the pixels of a picture lie on a side's clock.
#pragma once

#include <cstdint>
#include <vector>

#include "gui/data/time_map.h"
#include "gui/data/time_range.h"

namespace shardscope::gui {

/// The edges of `pixels` pixels of equal width over the range, in whole nanoseconds of the
/// clock, never falling; one more than pixels.
std::vector<std::int64_t> pixel_edges(TimeRange range, int pixels, const TimeMap& map);

}  // namespace shardscope::gui
