#include "sim/planner/trial.h"

#include <algorithm>
#include <utility>

#include "core/runtime/recorded_schedule.h"
#include "sim/allocator/block_sizes.h"
#include "sim/outside_memory.h"
#include "sim/step_player.h"
#include "sim/step_rows.h"

namespace shardscope::planner {
namespace {

Schedule recorded(const Choice& choice, const Ground& ground) {
  const eager::TrainingSetup setup = training_setup(choice, ground.model, ground.training);
  Schedule schedule = eager::recorded_schedule(
      ground.model, ground.config, setup, eager::kernel_device(setup.session.compute_capability));
  schedule.strategy.runtime = choice.runtime;
  schedule.workload = native_workload(choice, ground.training);
  return schedule;
}

Schedule native(const Choice& choice, const Ground& ground) {
  return native_schedule(ground.model, native_strategy(choice, ground.model),
                         native_workload(choice, ground.training), 0, ground.native_target);
}

/// The same with as many micro-batches as have to be recorded.
Choice told(Choice choice) {
  if (choice.runtime != Runtime::native)
    choice.micro_batches = std::min(choice.micro_batches, told_micro_batches);
  return choice;
}

Bytes outside_of(const Schedule& schedule, const Ground& ground) {
  return schedule.program.empty() ? Bytes{} : outside_bytes(schedule, ground.profile);
}

Accounting time_of(const Schedule& schedule, const Ground& ground, int micro_batches) {
  if (schedule.program.empty()) return simulate(schedule, ground.profile).accounting;
  const StepProgram program = step_program(schedule, micro_batches);
  const StepCosts costs = step_costs(schedule, program, ground.costs, ground.profile);
  return play_until_steady(program, costs).accounting;
}

Bytes highest_reserved(const Schedule& schedule, const Simulation& simulation) {
  if (schedule.program.empty()) return arena_layout(schedule).size;
  Bytes highest;
  for (const SimulatedStep& step : simulation.steps)
    highest = std::max(highest, step.memory.peak_reserved);
  return highest;
}

}  // namespace

Schedule schedule_of(const Choice& choice, const Ground& ground) {
  return choice.runtime == Runtime::native ? native(choice, ground) : recorded(choice, ground);
}

Bytes allocated_peak(const Schedule& schedule) {
  if (schedule.program.empty()) return arena_layout(schedule).size;
  Bytes live, highest;
  for (const HostAction& action : schedule.program.actions) {
    const bool allocates = action.kind == HostActionKind::allocate;
    if (!allocates && action.kind != HostActionKind::free) continue;
    const Bytes block{block_bytes(schedule.buffers[action.subject].bytes.count, {})};
    if (allocates)
      highest = std::max(highest, live += block);
    else
      live -= block;
  }
  return highest;
}

Trial try_out(const Choice& choice, const Ground& ground) {
  const Schedule schedule = schedule_of(told(choice), ground);
  return {.time = time_of(schedule, ground, choice.micro_batches),
          .allocated = allocated_peak(schedule),
          .outside = outside_of(schedule, ground)};
}

Rehearsal rehearse(const Choice& choice, const Ground& ground) {
  Rehearsal result{.schedule = schedule_of(told(choice), ground), .simulation = {}};
  result.outside = outside_of(result.schedule, ground);
  const Bytes memory = ground.profile.memory;
  AllocatorChoice allocator;
  if (memory > Bytes{}) allocator.memory = DeviceMemory{.total = memory, .outside = result.outside};
  result.simulation = simulate(result.schedule, ground.profile, allocator);
  result.reserved = highest_reserved(result.schedule, result.simulation);
  result.fits = !result.simulation.out_of_memory &&
                (memory == Bytes{} || result.reserved + result.outside <= memory);
  return result;
}

}  // namespace shardscope::planner
