#include "sim/planner/pytorch_training.h"

#include <utility>

#include "sim/kernels/compiled_memory.h"
#include "sim/planner/offload.h"

namespace shardscope::planner {
namespace {

Dtype compute_dtype_of(std::string_view precision) {
  return precision.starts_with("fp32") || precision.starts_with("no") ? Dtype::float32
                                                                      : Dtype::bfloat16;
}

PredictedRun predicted_run(const PytorchTraining& training, bool with_band) {
  const eager::TrainingSettings& loop = training.setup.loop;
  return {.strategy = training.strategy,
          .runtime = std::string(name_of(training.runtime)),
          .precision = training.precision,
          .compute = compute_dtype_of(training.precision),
          .tokens_per_step = loop.sequences() * loop.length * loop.micro_batches *
                             eager::batches_of(training.setup),
          .compiled = training.setup.compiled,
          .allocator = training.allocator,
          .with_band = with_band};
}

}  // namespace

Schedule schedule_of(const PytorchTraining& training, const Model& model, const JsonValue& config,
                     const eager::RecordedSteps& steps, eager::ProgramListener* listener) {
  const eager::TrainingSetup& setup = training.setup;
  Schedule schedule = eager::recorded_schedule(
      model, config, setup, eager::kernel_device(setup.session.compute_capability), steps,
      listener);
  schedule.strategy.runtime = training.runtime;
  schedule.workload.batch = setup.loop.sequences();
  schedule.workload.length = setup.loop.length;
  schedule.workload.micro_batches = setup.loop.micro_batches;
  schedule.assumed = training.assumed;
  return schedule;
}

Prediction predict(Schedule schedule, const PytorchTraining& training, const Model& model,
                   const HardwareProfile& profile, bool with_band) {
  Prediction prediction =
      shardscope::predict(compiled(std::move(schedule), training.setup.compiled),
                          predicted_run(training, with_band), profile);
  add_offloaded(model, training.setup, profile, prediction.summary);
  return prediction;
}

}  // namespace shardscope::planner
