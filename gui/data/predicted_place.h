// Which trace of a prediction stands beside a rank.
#pragma once

#include <cstddef>

#include "gui/data/scenario.h"

namespace shardscope::gui {

/// Of the prediction's traces (there is one at least) the one that is of the rank at that place of
/// the profiled side: the only one, or of a pipeline that of the rank's stage. Without a profiled
/// side `place` is one of the prediction's own.
std::size_t predicted_place(const Scenario& scenario, std::size_t place);

}  // namespace shardscope::gui
