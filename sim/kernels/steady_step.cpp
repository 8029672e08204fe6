#include "sim/kernels/steady_step.h"

#include <utility>

namespace shardscope {

void rewrite_steady_step(Schedule& schedule, const PutAction& put) {
  std::vector<HostAction>& actions = schedule.program.actions;
  const IndexRange steady = schedule.steps.back().actions;
  std::vector<HostAction> changed(actions.begin(), actions.begin() + steady.begin);
  for (std::uint32_t i = steady.begin; i < steady.end; ++i) put(i, changed);
  const auto end = static_cast<std::uint32_t>(changed.size());
  changed.insert(changed.end(), actions.begin() + steady.end, actions.end());
  actions = std::move(changed);
  schedule.steps.back().actions.end = end;
  schedule.steps.back().operations.end = static_cast<std::uint32_t>(schedule.operations.size());
}

}  // namespace shardscope
