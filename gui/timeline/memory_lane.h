// Memory over time into the lines of a picture of the timeline.
#pragma once

#include <QImage>

#include "gui/base/theme.h"
#include "gui/data/time_range.h"
#include "gui/timeline/lane_painter.h"
#include "gui/timeline/timeline_memory.h"

namespace shardscope::gui {

/// Each pixel shows the level with the highest total in it, its categories on one another: filled
/// where it was measured, pale below an outline where it was predicted. What is reserved is a line
/// above. `top`: the bytes at the band's upper edge.
void draw_memory_lane(QImage& image, const Theme& theme, LaneBand band, const MemoryTrack& track,
                      TimeRange range, Bytes top);

}  // namespace shardscope::gui
