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

Operation bare_operation(const Schedule& schedule, const HostAction& beside) {
  Operation op = schedule.operations[beside.subject];
  op.flops = {};
  op.work = Operation::no_work;
  op.shapes = Operation::no_shapes;
  op.operands = op.slices = op.after = {};
  return op;
}

void add_launch(Schedule& schedule, const Operation& operation, std::uint8_t lane,
                std::vector<HostAction>& actions) {
  schedule.operations.push_back(operation);
  actions.push_back({.kind = HostActionKind::launch,
                     .lane = lane,
                     .subject = static_cast<std::uint32_t>(schedule.operations.size() - 1)});
}

}  // namespace shardscope
