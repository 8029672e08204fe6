// What more ranks gain: the best choice of each number of them.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "sim/planner/answer/candidate.h"

namespace shardscope::planner {

struct CurvePoint {
  int world = 1;
  Choice choice;
  Duration step_time;
  double tokens_per_s = 0;
  double gpu_hours = 0;         ///< per 10^9 tokens
  double efficiency_share = 1;  ///< tokens a second and rank, of those on the fewest ranks
};

/// The fastest candidate on each number of ranks, ascending. Empty where there is one number.
std::vector<CurvePoint> curve_of(std::span<const Candidate> candidates);

/// Where the curve bends: the most ranks up to which each addition of ranks gains at least half of
/// what it adds. Example: 8, 16 and 32 ranks at 100, 180 and 240 tokens/s: 16 ranks, as the next 16
/// could add 180 and add 60. None of a curve without points.
std::optional<int> bend_of(std::span<const CurvePoint> curve);

}  // namespace shardscope::planner
