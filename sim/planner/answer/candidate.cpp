#include "sim/planner/answer/candidate.h"

#include <utility>

#include "sim/planner/choice_prediction.h"
#include "traces/memory_fit.h"

namespace shardscope::planner {
namespace {

double gpu_hours_of(const Summary& summary) {
  if (summary.tokens_per_s_per_device <= 0) return 0;
  constexpr double tokens = 1e9, seconds_an_hour = 3600;
  return tokens / summary.tokens_per_s_per_device / seconds_an_hour;
}

}  // namespace

Candidate candidate_of(const Choice& choice, const Basis& basis, const std::stop_token& stop) {
  ChoiceFigures figures = figures_of(choice, basis.trials, stop);
  Candidate candidate{
      .choice = choice, .summary = std::move(figures.summary), .moves = figures.moves};
  candidate.summary.margin = basis.inputs.margin;
  candidate.gpu_hours = gpu_hours_of(candidate.summary);
  return candidate;
}

bool has_small_margin(const Summary& summary) {
  const auto left = free_memory(summary);
  return left && *left < usual_margin(*summary.device_memory);
}

}  // namespace shardscope::planner
