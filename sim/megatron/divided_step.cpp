#include "sim/megatron/divided_step.h"

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
#include "sim/megatron/reductions.h"
#include "sim/megatron/unfused_loss.h"
#include "sim/prediction/band.h"

namespace shardscope {
namespace {

Schedule schedule_of(const DividedTraining& training, int micro_batches) {
  eager::TrainingSetup setup = training.setup;
  setup.loop.micro_batches = micro_batches;
  if (auto* zero = std::get_if<eager::DeepSpeedSetup>(&setup.runtime))
    zero->settings.accumulation_steps = micro_batches;
  Schedule schedule =
      eager::recorded_schedule(training.played.model, training.played.config, setup,
                               {.compute_capability = setup.session.compute_capability});
  if (training.owners > 0)
    broadcast_by_owner(schedule, training.owners, training.world);
  else if (training.world > setup.world && !training.update)
    reduce_over(schedule, training.world);
  if (training.tensor.ranks > 1)
    schedule = with_tensor_parallel(std::move(schedule), training.tensor);
  schedule = with_ring_attention(std::move(schedule), training.ring);
  schedule = with_kernels(std::move(schedule), training.kernels);
  if (training.unfused_loss) schedule = with_unfused_loss(std::move(schedule));
  if (training.experts.ranks > 1)
    schedule = with_expert_parallel(std::move(schedule), training.experts);
  if (training.tensor.divides_sequence)
    schedule = with_divided_sequence(std::move(schedule), training.tensor.ranks);
  return with_host_waits(with_float8(std::move(schedule), training.float8), training.waits);
}

Duration scaled(Duration time, double factor) {
  return Duration::from_seconds(time.seconds() * factor);
}

/// Steps of as many micro-batches as asked for, from one recording. Published runs fitted: no
/// allocator plays.
class Steps {
 public:
  Steps(const DividedTraining& training, int most)
      : profile_(training.profile),
        schedule_(schedule_of(training, std::min(most, told_micro_batches))) {}

  const Schedule& schedule() const { return schedule_; }

  DividedStep of(int micro_batches) const {
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

int whole_micro_batches(const DividedTraining& training) {
  return std::max(1, static_cast<int>(std::lround(training.micro_batches)));
}

/// The second of three is one that neither begins a step nor ends it.
int played_micro_batches(const DividedTraining& training) {
  const bool several = whole_micro_batches(training) > 1 || training.pipeline->by_deepspeed;
  return several ? told_micro_batches : 1;
}

/// The band is that of a stage's own steps.
PlayedStep played_pipeline(const DividedTraining& training) {
  const int micro_batches = whole_micro_batches(training);
  const int played = played_micro_batches(training);
  const Steps stage(training, played);
  DividedStep step = stage.of(played);
  const double low = step.low.seconds() / step.time.seconds();
  const double high = step.high.seconds() / step.time.seconds();
  std::optional<Duration> update;
  if (training.update) update = megatron_update_time(*training.update, training.profile);
  PlayedPipeline pipeline =
      play_pipeline(*training.pipeline, stage.schedule(), micro_batches, training.profile, update);
  step.time = pipeline.step;
  step.low = scaled(step.time, low);
  step.high = scaled(step.time, high);
  return {.step = step, .pipeline = std::move(pipeline), .schedule = stage.schedule()};
}

/// All layers as the one stage of one rank.
MegatronPipeline single_stage(const DividedTraining& training) {
  const auto layers = static_cast<int>(
      training.model.model.decoder ? training.model.model.decoder->blocks.size() : 1);
  return {.layers = {layers}, .played_layers = layers};
}

}  // namespace

DividedStep predicted_step(const DividedTraining& training) {
  if (training.pipeline) return played_pipeline(training).step;
  const double all = std::max(1.0, training.micro_batches);
  const int whole = static_cast<int>(all);
  DividedStep step = Steps(training, whole).of(whole);
  const double rest = all - whole;
  if (rest == 0) return step;
  // The last micro-batch is smaller.
  const DividedStep next = Steps(training, whole + 1).of(whole + 1);
  step.time = between(step.time, next.time, rest);
  step.low = between(step.low, next.low, rest);
  step.high = between(step.high, next.high, rest);
  return step;
}

StageParts stage_parts(const DividedTraining& training) {
  return stage_parts(schedule_of(training, played_micro_batches(training)), training.profile);
}

PlayedStep played_step(const DividedTraining& training) {
  if (training.pipeline) return played_pipeline(training);
  const int micro_batches = std::max(1, static_cast<int>(training.micro_batches));
  const Steps steps(training, micro_batches);
  return {.step = predicted_step(training),
          .pipeline = play_pipeline(single_stage(training), steps.schedule(), micro_batches,
                                    training.profile),
          .schedule = steps.schedule()};
}

}  // namespace shardscope
