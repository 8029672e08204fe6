#include "backend/executor/bound_schedule.h"

#include <fmt/core.h>

#include <string>

#include "core/base/error.h"

namespace shardscope {

GroupCommunicators::GroupCommunicators(const Schedule& schedule, Communicator& world) {
  for (const Group& group : schedule.groups) {
    if (static_cast<int>(group.ranks.size()) == world.size()) {
      by_group_.push_back(&world);
      continue;
    }
    owned_.push_back(world.split(group.ranks.front()));
    by_group_.push_back(owned_.back().get());
  }
}

int BoundCollective::other_rank() const { return 1 - communicator->rank(); }

void BoundCollective::run() const {
  switch (kind) {
    case OperationKind::all_gather:
      communicator->all_gather(in, out);
      break;
    case OperationKind::reduce_scatter:
      communicator->reduce_scatter(in, out, dtype);
      break;
    case OperationKind::all_reduce:
      communicator->all_reduce(out, dtype);
      break;
    case OperationKind::send:
      communicator->send(in, other_rank());
      break;
    case OperationKind::receive:
      communicator->receive(out, other_rank());
      break;
    default:
      communicator->barrier();
  }
}

BoundSchedule::BoundSchedule(const Schedule& schedule, const GroupCommunicators& groups,
                             const std::function<std::byte*(BufferId)>& address_of)
    : schedule_(schedule), collective_of_(schedule.operations.size(), 0) {
  operands_.reserve(schedule.operands.size());
  for (const Operand& operand : schedule.operands) {
    const bool present = operand.buffer.valid();
    operands_.push_back(present ? address_of(operand.buffer) + operand.offset.count : nullptr);
  }
  for (std::size_t i = 0; i < schedule.operations.size(); ++i) {
    const Operation& operation = schedule.operations[i];
    if (!is_collective(operation.kind)) continue;
    collective_of_[i] = static_cast<std::uint32_t>(collectives_.size());
    collectives_.push_back(bind(operation, groups));
  }
}

std::span<void* const> BoundSchedule::operands(OperationId operation) const {
  const IndexRange range = schedule_.at(operation).operands;
  return {operands_.data() + range.begin, range.size()};
}

BoundCollective BoundSchedule::bind(const Operation& operation,
                                    const GroupCommunicators& groups) const {
  const OperationKind kind = operation.kind;
  const bool reduces_in_place = kind == OperationKind::all_reduce && operation.operands.size() == 1;
  const bool moves = (kind == OperationKind::all_gather || kind == OperationKind::reduce_scatter) &&
                     operation.operands.size() == 2;
  const bool transfers = (kind == OperationKind::send || kind == OperationKind::receive) &&
                         operation.operands.size() == 1;
  if (!reduces_in_place && !moves && !transfers && kind != OperationKind::barrier) {
    throw Error({.where = std::string(schedule_.name(operation)),
                 .what = fmt::format("the cpu backend cannot run {} with {} operands",
                                     name_of(kind), operation.operands.size()),
                 .way_out = "choose a strategy of the native runtime"});
  }
  const Collective& collective = schedule_.collectives[operation.detail];
  BoundCollective bound{.kind = kind,
                        .dtype = collective.dtype,
                        .communicator = &groups.at(collective.group),
                        .in = {},
                        .out = {}};
  if (kind == OperationKind::barrier) return bound;
  const auto memory = [&](std::uint32_t operand) {
    return std::span(static_cast<std::byte*>(operands_[operand]),
                     schedule_.operands[operand].bytes.count);
  };
  bound.in = memory(operation.operands.begin);
  bound.out = memory(operation.operands.end - 1);
  return bound;
}

}  // namespace shardscope
