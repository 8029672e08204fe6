#include "sim/prediction/prediction.h"

#include <algorithm>
#include <future>
#include <utility>
#include <vector>

#include "core/base/in_background.h"
#include "sim/cost/cost_model.h"
#include "sim/engine/simulate.h"
#include "sim/prediction/band.h"
#include "sim/prediction/memory_allowances.h"
#include "sim/prediction/outside_memory.h"
#include "sim/prediction/rank_prediction.h"
#include "sim/prediction/run_facts.h"

namespace shardscope {
namespace {

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

Bytes most_reserved(const std::vector<StepFacts>& steps) {
  Bytes most;
  for (const StepFacts& step : steps) most = std::max(most, step.memory.peak_reserved);
  return most;
}

void set_band(const StepTimeBand& band, RunFacts& facts) {
  facts.low_factor = band.low_factor;
  facts.high_factor = band.high_factor;
}

/// One arena, whose size follows from the schedule alone.
Prediction predict_arena(Schedule schedule, const PredictedRun& run,
                         const HardwareProfile& profile) {
  RunFacts facts = facts_of(schedule, run, profile);
  for (std::string& text : assumptions(schedule, profile)) facts.assumed.push_back(std::move(text));
  facts.arena = arena_layout(schedule).size;
  facts.allowances = memory_allowances(schedule, run, profile, facts.arena);
  facts.first_step_overhead = profile.first_step_overhead;
  if (run.with_band) set_band(step_time_band(schedule, profile), facts);
  Prediction result{.schedule = std::move(schedule)};
  result.trace = simulate(result.schedule, profile).trace;
  result.summary = summarize(result.trace, facts);
  add_host_memory(result.schedule, profile, result.summary);
  return result;
}

}  // namespace

Prediction predict_rank(Schedule schedule, const PredictedRun& run, const StepOfAllRanks& step,
                        const HardwareProfile& profile) {
  RunFacts facts = facts_of(schedule, run, profile);
  facts.outside_items = outside_items(schedule, profile);
  facts.outside = outside_bytes(schedule, profile);
  AllocatorChoice allocator{.settings = run.allocator};
  if (facts.device_memory)
    allocator.memory = DeviceCapacity{.total = *facts.device_memory, .outside = facts.outside};
  Prediction result{.schedule = std::move(schedule)};
  // The band does not depend on simulated times.
  std::future<StepTimeBand> band;
  if (run.with_band && !step.band)
    band =
        in_background(WorthAThread::yes, [&] { return step_time_band(result.schedule, profile); });
  Simulation simulation = simulate(result.schedule, profile, allocator, run.peers);
  facts.steps = steps_of(result.schedule, simulation, facts.outside);
  facts.allowances = memory_allowances(result.schedule, run, profile, most_reserved(facts.steps));
  if (!simulation.out_of_memory) {
    TimeWindow& steady = facts.steps.back().window;
    steady.end = std::max(steady.end, steady.begin + step.least);
  }
  if (band.valid()) band.wait();  // it reads the schedule
  if (simulation.out_of_memory) {
    const Bytes left = facts.device_memory.value_or(Bytes{}) - facts.outside;
    facts.out_of_memory = failure_of(result.schedule, *simulation.out_of_memory, left);
    if (simulation.out_of_memory->operation)
      result.out_of_memory_at = simulation.out_of_memory->operation;
  } else if (step.band) {
    set_band(*step.band, facts);
  } else if (band.valid()) {
    set_band(band.get(), facts);
  }
  result.trace = std::move(simulation.trace);
  result.summary = summarize(result.trace, facts);
  return result;
}

PredictedRun native_run(const Schedule& schedule) {
  const Strategy& strategy = schedule.strategy;
  const Workload& workload = schedule.workload;
  return {.strategy = std::string(name_of(strategy.sharding)),
          .runtime = std::string(name_of(strategy.runtime)),
          .precision = std::string(name_of(strategy.precision)),
          .compute = dtypes_of(strategy.precision).compute,
          .tokens_per_step = workload.batch * workload.length * workload.micro_batches *
                             (schedule.world / strategy.mesh.pipeline)};
}

Prediction predict(Schedule schedule, const PredictedRun& run, const HardwareProfile& profile) {
  return schedule.memory == MemorySource::arena
             ? predict_arena(std::move(schedule), run, profile)
             : predict_rank(std::move(schedule), run, {}, profile);
}

}  // namespace shardscope
