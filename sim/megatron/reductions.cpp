#include "sim/megatron/reductions.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/base/ranks.h"

namespace shardscope {
namespace {

GroupId add_world(Schedule& schedule, int world) {
  schedule.groups.push_back({.name = "world", .ranks = Ranks::up_to(world).list()});
  return GroupId::of(schedule.groups.size() - 1);
}

/// Index of a collective of `group` with the payload of another, divided.
std::uint32_t add_collective(Schedule& schedule, std::uint32_t like, GroupId group,
                             std::int64_t parts) {
  Collective made = schedule.collectives[like];
  made.group = group;
  made.elements_in = made.elements_out =
      (std::max(made.elements_in, made.elements_out) + parts - 1) / parts;
  schedule.collectives.push_back(made);
  return static_cast<std::uint32_t>(schedule.collectives.size() - 1);
}

bool reduces(OperationKind kind) {
  return kind == OperationKind::reduce_scatter || kind == OperationKind::all_reduce ||
         kind == OperationKind::reduce;
}

}  // namespace

void reduce_over(Schedule& schedule, int world) {
  const GroupId everyone = add_world(schedule, world);
  for (Operation& op : schedule.operations) {
    if (!reduces(op.kind)) continue;
    op.kind = OperationKind::all_reduce;
    op.detail = add_collective(schedule, op.detail, everyone, 1);
  }
}

void broadcast_by_owner(Schedule& schedule, int owners, int world) {
  const GroupId everyone = add_world(schedule, world);
  for (Operation& op : schedule.operations)
    if (reduces(op.kind)) op.detail = add_collective(schedule, op.detail, everyone, 1);
  std::vector<HostAction>& actions = schedule.program.actions;
  Step& steady = schedule.steps.back();
  std::vector<HostAction> changed(actions.begin(), actions.begin() + steady.actions.begin);
  for (std::uint32_t i = steady.actions.begin; i < steady.actions.end; ++i) {
    changed.push_back(actions[i]);
    if (actions[i].kind != HostActionKind::launch) continue;
    Operation& op = schedule.operations[actions[i].subject];
    if (op.kind != OperationKind::all_gather) continue;
    op.kind = OperationKind::broadcast;
    op.detail = add_collective(schedule, op.detail, everyone, owners);
    changed.insert(changed.end(), static_cast<std::size_t>(owners - 1), actions[i]);
  }
  steady.actions.end = static_cast<std::uint32_t>(changed.size());
  actions = std::move(changed);
}

}  // namespace shardscope
