#include "sim/prediction/run_facts.h"

#include <algorithm>

#include "core/schedule/host_layout.h"
#include "core/schedule/model_flops.h"
#include "sim/cost/collective_rows.h"

namespace shardscope {

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

namespace {

std::optional<ModuleHooks> hooks_of(const Schedule& schedule, const HardwareProfile& profile) {
  if (schedule.steps.empty()) return std::nullopt;
  const auto& all = schedule.program.actions;
  const IndexRange step = schedule.steps.back().actions;
  const auto times =
      std::count_if(all.begin() + step.begin, all.begin() + step.end,
                    [](const HostAction& action) { return action.kind == HostActionKind::hook; });
  if (times == 0) return std::nullopt;
  return ModuleHooks{.times = times, .time = profile.module_hook.value_or(Duration{}) * times};
}

}  // namespace

RunFacts facts_of(const Schedule& schedule, const PredictedRun& run,
                  const HardwareProfile& profile) {
  RunFacts facts;
  facts.strategy = run.strategy;
  facts.runtime = run.runtime;
  facts.precision = run.precision;
  if (profile.memory.count > 0) facts.device_memory = profile.memory;
  facts.assumed = schedule.assumed;
  facts.tokens_per_step = run.tokens_per_step;
  facts.model_flops = model_flops(schedule);
  facts.peak = peak_of(profile, run.compute);
  facts.mfu_formula = mfu_formula;
  facts.collectives = collective_rows(schedule, profile);
  facts.hooks = hooks_of(schedule, profile);
  if (facts.hooks && !profile.module_hook)
    facts.assumed.emplace_back(
        "DeepSpeed's hooks around modules take no time of the host (the profile has no "
        "module_hook)");
  return facts;
}

int ranks_of_node(const HardwareProfile& profile, int world) {
  return profile.ranks_per_node > 0 ? std::min(profile.ranks_per_node, world) : world;
}

void add_host_memory(const Schedule& schedule, const HardwareProfile& profile, Summary& summary) {
  const Bytes host = host_layout(schedule).size;
  if (host.count == 0) return;
  summary.host_memory = host;
  summary.host_memory_of_node = host * ranks_of_node(profile, schedule.world);
}

}  // namespace shardscope
