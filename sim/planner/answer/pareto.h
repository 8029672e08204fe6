// The front of step time and memory as points of a picture.
#pragma once

#include <vector>

#include "sim/planner/answer/answer.h"
#include "traces/figure.h"

namespace shardscope::planner {

/// For `pareto_figure`: the candidates, and the given run where it fits.
std::vector<ParetoPoint> pareto_points(const Answer& answer);

}  // namespace shardscope::planner
