// Figures of a range as rows of text.
#pragma once

#include <vector>

#include "gui/timeline/range_figures.h"
#include "gui/timeline/text_rows_model.h"

namespace shardscope::gui {

/// Of each rank: predicted, profiled, and the difference of both where there are both.
std::vector<std::vector<TextCell>> identity_rows(const RangeFigures& figures);
std::vector<std::vector<TextCell>> operation_rows(const RangeFigures& figures);
std::vector<std::vector<TextCell>> exposed_rows(const TimelineData& data,
                                                const std::vector<ExposedStretch>& stretches);

}  // namespace shardscope::gui
