#include "cli/published_prediction.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/lower/pytorch/kernel_scratch.h"
#include "core/runtime/recorded_schedule.h"
#include "sim/cost_model.h"
#include "sim/kernels/fusion.h"
#include "sim/step_player.h"
#include "sim/step_program.h"

namespace shardscope {
namespace {

/// Those of a longer step repeat: what comes before and behind them, and one between.
constexpr int most_recorded = 3;

Schedule schedule_of(const PublishedScenario& scenario, int micro_batches) {
  eager::TrainingSetup setup = scenario.setup;
  setup.loop.micro_batches = micro_batches;
  if (auto* zero = std::get_if<eager::DeepSpeedSetup>(&setup.runtime))
    zero->settings.accumulation_steps = micro_batches;
  return with_kernels(
      eager::recorded_schedule(scenario.model.model, scenario.model.config, setup,
                               {.compute_capability = setup.session.compute_capability}),
      scenario.kernels);
}

/// Published runs fitted: no allocator plays.
Duration played(const PublishedScenario& scenario, int micro_batches) {
  const Schedule schedule = schedule_of(scenario, micro_batches);
  const StepProgram program = step_program(schedule);
  const CostModel model(scenario.profile);
  return play(program, step_costs(schedule, program, model, scenario.profile)).accounting.span;
}

/// What comes out if every further micro-batch takes what the last one recorded took.
Duration longer(Duration shorter, Duration longest, double more) {
  const double each = (longest - shorter).seconds();
  return Duration::from_seconds(longest.seconds() + more * each);
}

Duration step_time(const PublishedScenario& scenario) {
  const double all = scenario.micro_batches;
  const bool whole = all == std::floor(all);
  if (whole && all < most_recorded) return played(scenario, static_cast<int>(all));
  const Duration longest = played(scenario, most_recorded);
  if (all == most_recorded) return longest;
  return longer(played(scenario, most_recorded - 1), longest, all - most_recorded);
}

}  // namespace

PredictedStep predicted_step(const PublishedScenario& scenario) {
  const Duration time = step_time(scenario);
  return {.time = time, .low = time, .high = time};
}

}  // namespace shardscope
