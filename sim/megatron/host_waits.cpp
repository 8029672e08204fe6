#include "sim/megatron/host_waits.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace shardscope {

Schedule with_host_waits(Schedule schedule, const HostWaits& waits) {
  if (waits == HostWaits{}) return schedule;
  std::vector<HostAction>& actions = schedule.program.actions;
  Step& steady = schedule.steps.back();
  std::vector<HostAction> changed(actions.begin(), actions.begin() + steady.actions.begin);
  std::optional<std::int32_t> micro_batch;
  for (std::uint32_t i = steady.actions.begin; i < steady.actions.end; ++i) {
    const HostAction& action = actions[i];
    const HostAction wait{.kind = HostActionKind::host_sync, .lane = action.lane};
    const bool launches = issues_operation(action.kind);
    if (launches && waits.each_micro_batch) {
      const Operation& op = schedule.operations[action.subject];
      const bool begins = op.phase == Phase::forward && micro_batch != op.micro_batch;
      if (begins) changed.push_back(wait);
      if (begins) micro_batch = op.micro_batch;
    }
    changed.push_back(action);
    if (launches && waits.each_launch) changed.push_back(wait);
  }
  steady.actions.end = static_cast<std::uint32_t>(changed.size());
  actions = std::move(changed);
  return schedule;
}

}  // namespace shardscope
