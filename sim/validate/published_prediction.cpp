#include "sim/validate/published_prediction.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/pytorch/engine/kernel_scratch.h"
#include "core/pytorch/runtimes/training/recorded_schedule.h"
#include "sim/cost/cost_model.h"
#include "sim/engine/step_player.h"
#include "sim/engine/step_program.h"
#include "sim/engine/step_rows.h"
#include "sim/kernels/float8.h"
#include "sim/kernels/fusion.h"
#include "sim/prediction/band.h"
#include "sim/validate/published_collectives.h"
#include "sim/validate/published_loss.h"

namespace shardscope {
namespace {

Schedule schedule_of(const PublishedScenario& scenario, int micro_batches) {
  eager::TrainingSetup setup = scenario.setup;
  setup.loop.micro_batches = micro_batches;
  if (auto* zero = std::get_if<eager::DeepSpeedSetup>(&setup.runtime))
    zero->settings.accumulation_steps = micro_batches;
  Schedule schedule =
      eager::recorded_schedule(scenario.played.model, scenario.played.config, setup,
                               {.compute_capability = setup.session.compute_capability});
  if (scenario.owners > 0)
    broadcast_by_owner(schedule, scenario.owners, scenario.world);
  else if (scenario.world > setup.world && !scenario.update)
    reduce_over(schedule, scenario.world);
  if (scenario.tensor.ranks > 1)
    schedule = with_tensor_parallel(std::move(schedule), scenario.tensor);
  schedule = with_ring_attention(std::move(schedule), scenario.ring);
  schedule = with_kernels(std::move(schedule), scenario.kernels);
  if (scenario.unfused_loss) schedule = with_unfused_loss(std::move(schedule));
  if (scenario.experts.ranks > 1)
    schedule = with_expert_parallel(std::move(schedule), scenario.experts);
  if (scenario.tensor.divides_sequence)
    schedule = with_divided_sequence(std::move(schedule), scenario.tensor.ranks);
  return with_host_waits(with_float8(std::move(schedule), scenario.float8), scenario.waits);
}

Duration scaled(Duration time, double factor) {
  return Duration::from_seconds(time.seconds() * factor);
}

/// Steps of as many micro-batches as asked for, from one recording. Published runs fitted: no
/// allocator plays.
class Steps {
 public:
  Steps(const PublishedScenario& scenario, int most)
      : profile_(scenario.profile),
        schedule_(schedule_of(scenario, std::min(most, told_micro_batches))) {}

  const Schedule& schedule() const { return schedule_; }

  PublishedPrediction of(int micro_batches) const {
    const bool longer = micro_batches > told_micro_batches;
    const StepProgram program = step_program(schedule_, longer ? micro_batches : 0);
    const CostModel model(profile_);
    const StepCosts costs = step_costs(schedule_, program, model, profile_);
    const Accounting accounting = play(program, costs).accounting;
    const StepTimeBand band =
        step_time_band(scaled_step(schedule_, program, costs, profile_), spreads_of(profile_));
    return {.time = accounting.span,
            .low = scaled(accounting.span, band.low_factor),
            .high = scaled(accounting.span, band.high_factor),
            .accounting = accounting};
  }

 private:
  const HardwareProfile& profile_;
  Schedule schedule_;
};

Duration between(Duration shorter, Duration longer, double share) {
  return Duration::from_seconds(shorter.seconds() + share * (longer.seconds() - shorter.seconds()));
}

/// The band is that of a stage's own steps.
PublishedPrediction predicted_pipeline(const PublishedScenario& scenario) {
  const int micro_batches = std::max(1, static_cast<int>(std::lround(scenario.micro_batches)));
  // The second of three is one that neither begins a step nor ends it.
  const bool several = micro_batches > 1 || scenario.pipeline->by_deepspeed;
  const int played = several ? told_micro_batches : 1;
  const Steps stage(scenario, played);
  PublishedPrediction step = stage.of(played);
  const double low = step.low.seconds() / step.time.seconds();
  const double high = step.high.seconds() / step.time.seconds();
  std::optional<Duration> update;
  if (scenario.update) update = megatron_update_time(*scenario.update, scenario.profile);
  step.time =
      pipelined_step(*scenario.pipeline, stage.schedule(), micro_batches, scenario.profile, update);
  step.low = scaled(step.time, low);
  step.high = scaled(step.time, high);
  return step;
}

}  // namespace

PublishedPrediction predicted_step(const PublishedScenario& scenario) {
  if (scenario.pipeline) return predicted_pipeline(scenario);
  const double all = std::max(1.0, scenario.micro_batches);
  const int whole = static_cast<int>(all);
  PublishedPrediction step = Steps(scenario, whole).of(whole);
  const double rest = all - whole;
  if (rest == 0) return step;
  // The last micro-batch is smaller.
  const PublishedPrediction next = Steps(scenario, whole + 1).of(whole + 1);
  step.time = between(step.time, next.time, rest);
  step.low = between(step.low, next.low, rest);
  step.high = between(step.high, next.high, rest);
  return step;
}

}  // namespace shardscope
