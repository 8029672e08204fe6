// The Pareto front of step time and memory as a picture, in letters and in SVG.
#pragma once

#include <string>
#include <vector>

#include "cli/plan_answer.h"
#include "traces/figure.h"

namespace shardscope {

/// A choice's settings beside its strategy's name: "batch 8 x 2, bf16_mixed".
std::string settings_text(const planner::Choice& choice);

/// Memory over step time in a grid of letters; each candidate is its place, those on the front are
/// joined. "" where there are fewer than two.
std::string pareto_plot(const std::vector<Candidate>& candidates);

/// The same for `pareto_figure`, with the given file's run where it fits.
std::vector<ParetoPoint> pareto_points(const PlanAnswer& answer);

}  // namespace shardscope
