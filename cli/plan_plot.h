// The front of step time and memory as a picture in letters.
#pragma once

#include <string>
#include <vector>

#include "sim/planner/answer/candidate.h"

namespace shardscope {

/// Memory over step time in a grid of letters; each candidate is its place, those on the front are
/// marked. "" where there are fewer than two.
std::string pareto_plot(const std::vector<planner::Candidate>& candidates);

}  // namespace shardscope
