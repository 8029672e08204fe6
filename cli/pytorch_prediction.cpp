#include "cli/pytorch_prediction.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/model_flops.h"
#include "core/runtime/recorded_schedule.h"
#include "sim/band.h"
#include "sim/collectives/collective_rows.h"
#include "sim/kernels/fusion.h"
#include "sim/outside_memory.h"
#include "sim/simulate.h"

namespace shardscope {
namespace {

MemorySummary memory_of(const Schedule& schedule, const StepMemory& memory, Bytes outside) {
  return {.peak_allocated = memory.peak_allocated,
          .peak_active = memory.peak_active,
          .peak_reserved = memory.peak_reserved,
          .outside = outside,
          .at_operation = memory.at_operation
                              ? std::string(schedule.name(schedule.at(memory.at_operation)))
                              : std::string(),
          .at_peak = memory.at_peak,
          .maximum = memory.maximum};
}

OutOfMemorySummary failure_of(const Schedule& schedule, const RunsOutOfMemory& failure,
                              Bytes device) {
  const AllocatorStatistics& at = failure.at_failure;
  OutOfMemorySummary result{.step = failure.step,
                            .operation = failure.name,
                            .requested = failure.requested,
                            .allocated = {at.allocated_bytes.current},
                            .active = {at.active_bytes.current},
                            .reserved = {at.reserved_bytes.current},
                            .message = failure.message};
  result.free = std::max(Bytes{}, device - result.reserved);
  if (!failure.operation) return result;
  const Operation& op = schedule.at(failure.operation);
  if (op.unit) result.unit = schedule.units[op.unit.value].name;
  if (op.owner) result.module = schedule.owners[op.owner.value];
  return result;
}

/// Steps that were reached. One that fails has no end.
std::vector<StepFacts> steps_of(const Schedule& schedule, const Simulation& simulation,
                                Bytes outside) {
  std::vector<StepFacts> steps;
  for (const SimulatedStep& step : simulation.steps) {
    steps.push_back({.label = step.label,
                     .window = step.window,
                     .memory = memory_of(schedule, step.memory, outside)});
    if (simulation.out_of_memory && simulation.out_of_memory->step == step.label) break;
  }
  return steps;
}

Dtype compute_dtype_of(const PytorchScenario& scenario) {
  return scenario.precision.starts_with("fp32") || scenario.precision.starts_with("no")
             ? Dtype::float32
             : Dtype::bfloat16;
}

RunFacts facts_of(const PytorchScenario& scenario, const Schedule& schedule,
                  const HardwareProfile& profile) {
  RunFacts facts;
  facts.strategy = scenario.strategy;
  facts.runtime = name_of(scenario.runtime);
  facts.precision = scenario.precision;
  if (profile.memory.count > 0) facts.device_memory = profile.memory;
  facts.assumed = schedule.assumed;
  const eager::TrainingSettings& loop = scenario.setup.loop;
  facts.tokens_per_step = loop.batch * loop.length * loop.micro_batches * scenario.setup.world;
  facts.model_flops = model_flops(schedule);
  facts.peak = peak_of(profile, compute_dtype_of(scenario));
  facts.mfu_formula = mfu_formula;
  facts.collectives = collective_rows(schedule, profile);
  facts.outside_items = outside_items(schedule, profile);
  facts.outside = outside_bytes(schedule, profile);
  return facts;
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
  Prediction result{.schedule = pytorch_schedule(scenario)};
  RunFacts facts = facts_of(scenario, result.schedule, profile);
  AllocatorChoice allocator;
  if (facts.device_memory)
    allocator.memory = DeviceCapacity{.total = *facts.device_memory, .outside = facts.outside};
  if (scenario.setup.compiled)
    result.schedule = with_kernels(std::move(result.schedule), {.fusion = KernelFusion::compiled});
  Simulation simulation = simulate(result.schedule, profile, allocator);
  facts.steps = steps_of(result.schedule, simulation, facts.outside);
  if (simulation.out_of_memory) {
    const Bytes left = facts.device_memory.value_or(Bytes{}) - facts.outside;
    facts.out_of_memory = failure_of(result.schedule, *simulation.out_of_memory, left);
    if (simulation.out_of_memory->operation)
      result.out_of_memory_at = simulation.out_of_memory->operation;
  } else {
    const StepTimeBand band = step_time_band(result.schedule, profile);
    facts.low_factor = band.low_factor;
    facts.high_factor = band.high_factor;
  }
  result.trace = std::move(simulation.trace);
  result.summary = summarize(result.trace, facts);
  return result;
}

}  // namespace shardscope
