// The picture of the timeline's rows over a stretch of the axis.
#pragma once

#include <QFont>
#include <QImage>
#include <QSize>
#include <vector>

#include "gui/base/theme.h"
#include "gui/data/time_range.h"
#include "gui/timeline/timeline_data.h"
#include "gui/timeline/timeline_rows.h"

namespace shardscope::gui {

struct FrameRequest {
  TimeRange range;
  QSize size;         ///< logical pixels, of the axis alone
  double ratio = 1;   ///< device pixels to a logical one
  double scroll = 0;  ///< of the rows below the pinned ones, logical pixels
  QFont font;
  bool operator==(const FrameRequest&) const = default;
};

/// Lanes, ribbons and the names of spans that are wide enough; only the rows that are seen are
/// looked at.
QImage draw_frame(const TimelineData& data, const TimelineRows& rows, const FrameRequest& request,
                  const Theme& theme);

}  // namespace shardscope::gui
