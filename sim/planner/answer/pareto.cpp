#include "sim/planner/answer/pareto.h"

#include "traces/memory_fit.h"

namespace shardscope::planner {

std::vector<ParetoPoint> pareto_points(const Answer& answer) {
  std::vector<ParetoPoint> points;
  for (const Candidate& c : answer.candidates)
    points.push_back({.number = std::to_string(c.place),
                      .label = strategy_text(c.choice),
                      .detail = settings_text(c.choice),
                      .step = c.summary.step_time,
                      .low = c.summary.step_time_low,
                      .high = c.summary.step_time_high,
                      .memory = needed_memory(c.summary),
                      .on_front = c.on_front});
  if (answer.given && answer.given->refused.empty() && answer.given->summary.fits) {
    const Summary& summary = answer.given->summary;
    points.push_back({.number = "given",
                      .label = answer.given->name,
                      .detail = answer.given->strategy,
                      .step = summary.step_time,
                      .low = summary.step_time_low,
                      .high = summary.step_time_high,
                      .memory = needed_memory(summary),
                      .is_given = true});
  }
  return points;
}

}  // namespace shardscope::planner
