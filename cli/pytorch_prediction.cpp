#include "cli/pytorch_prediction.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "cli/offload.h"
#include "core/base/error.h"
#include "core/pytorch/runtimes/training/recorded_schedule.h"

namespace shardscope {
namespace {

Dtype compute_dtype_of(const PytorchScenario& scenario) {
  return scenario.precision.starts_with("fp32") || scenario.precision.starts_with("no")
             ? Dtype::float32
             : Dtype::bfloat16;
}

}  // namespace

GpuKind gpu_of(const HardwareProfile& profile) {
  if (profile.device != "cuda")
    throw Error({.where = "--cluster",
                 .what = fmt::format("{} is no machine of GPUs, which PyTorch's runtimes are "
                                     "predicted on",
                                     profile.name),
                 .way_out = "give --cluster h100_sxm or a measured GPU's"});
  if (profile.compute_capability == 0) return {};
  return {.compute_capability = profile.compute_capability};
}

Schedule pytorch_schedule(const PytorchScenario& scenario) {
  Schedule schedule =
      eager::recorded_schedule(scenario.model, scenario.config, scenario.setup,
                               eager::kernel_device(scenario.setup.session.compute_capability));
  schedule.strategy.runtime = scenario.runtime;
  schedule.workload = {.batch = scenario.setup.loop.batch,
                       .length = scenario.setup.loop.length,
                       .micro_batches = scenario.setup.loop.micro_batches,
                       .optimizer = scenario.job.optimizer,
                       .clip = scenario.setup.loop.clips ? scenario.job.clip : 0};
  schedule.assumed = scenario.assumed;
  return schedule;
}

Prediction predict(const PytorchScenario& scenario, const HardwareProfile& profile) {
  const eager::TrainingSettings& loop = scenario.setup.loop;
  Prediction prediction =
      predict(pytorch_schedule(scenario),
              PredictedRun{.strategy = scenario.strategy,
                           .runtime = std::string(name_of(scenario.runtime)),
                           .precision = scenario.precision,
                           .compute = compute_dtype_of(scenario),
                           .tokens_per_step =
                               loop.batch * loop.length * loop.micro_batches * scenario.setup.world,
                           .compiled = scenario.setup.compiled,
                           .allocator = scenario.allocator},
              profile);
  Summary& summary = prediction.summary;
  summary.host_memory = host_states(scenario.model, scenario.setup);
  if (summary.host_memory) {
    const int on_node = profile.ranks_per_node > 0
                            ? std::min(profile.ranks_per_node, scenario.setup.world)
                            : scenario.setup.world;
    summary.host_memory_of_node = *summary.host_memory * on_node;
    summary.assumed.push_back(untimed_offload(scenario.setup));
  }
  return prediction;
}

}  // namespace shardscope
