#include "tests/sim/program_by_hand.h"

#include <utility>

namespace shardscope::testing {

ProgramByHand::ProgramByHand() {
  schedule_.memory = MemorySource::caching_allocator;
  schedule_.names.emplace_back("operation");
  schedule_.program.lanes.push_back({.name = "compute", .stream = Stream::compute});
  schedule_.groups = {{"shard", {0, 1}}, {"replicate", {0, 2}}};
  for (const std::uint32_t group : {0U, 1U})
    schedule_.collectives.push_back({.group = GroupId{group}});
}

std::uint8_t ProgramByHand::lane(const std::string& name, Stream stream) {
  auto& lanes = schedule_.program.lanes;
  lanes.push_back(
      {.name = name, .stream = stream, .pool_place = static_cast<std::int32_t>(lanes.size()) - 1});
  return static_cast<std::uint8_t>(lanes.size() - 1);
}

void ProgramByHand::add(HostActionKind kind, std::uint8_t lane, std::uint32_t subject) {
  schedule_.program.actions.push_back({kind, lane, subject});
}

OperationId ProgramByHand::launch(std::uint8_t lane, std::int64_t ns, OperationKind kind) {
  const OperationId id = OperationId::of(schedule_.operations.size());
  Operation operation{.kind = kind,
                      .stream = schedule_.program.lanes[lane].stream,
                      .step = static_cast<std::int32_t>(schedule_.steps.size()) - 1,
                      .detail = is_collective(kind) ? 0 : Operation::no_kernel,
                      .bytes = {ns}};
  if (schedule_.steps.empty()) operation.phase = Phase::init;
  schedule_.operations.push_back(operation);
  add(HostActionKind::launch, lane, id.value);
  return id;
}

OperationId ProgramByHand::launch_in(std::uint8_t lane, std::int64_t ns, OperationKind kind,
                                     std::uint32_t group) {
  const OperationId id = launch(lane, ns, kind);
  schedule_.operations[id.value].detail = group;
  return id;
}

BufferId ProgramByHand::allocate(std::uint8_t lane, Bytes bytes, MemoryCategory category) {
  const BufferId id = BufferId::of(schedule_.buffers.size());
  schedule_.buffers.push_back(
      {.category = category, .lane = lane, .bytes = bytes * times_, .copies = times_});
  add(HostActionKind::allocate, lane, id.value);
  return id;
}

void ProgramByHand::repeat(std::uint32_t times) {
  times_ = times;
  add(HostActionKind::repeat, 0, times);
}

void ProgramByHand::again() {
  times_ = 1;
  add(HostActionKind::again, 0, 0);
}

std::uint32_t ProgramByHand::record(std::uint8_t lane) {
  add(HostActionKind::record_event, lane, schedule_.program.events);
  return schedule_.program.events++;
}

void ProgramByHand::begin_step(const std::string& label) {
  end_step();
  const auto operation = static_cast<std::uint32_t>(schedule_.operations.size());
  const auto action = static_cast<std::uint32_t>(schedule_.program.actions.size());
  schedule_.steps.push_back(
      {.label = label, .operations = {operation, operation}, .actions = {action, action}});
}

void ProgramByHand::end_step() {
  if (schedule_.steps.empty()) return;
  Step& step = schedule_.steps.back();
  step.operations.end = static_cast<std::uint32_t>(schedule_.operations.size());
  step.actions.end = static_cast<std::uint32_t>(schedule_.program.actions.size());
}

Schedule ProgramByHand::finish() {
  end_step();
  return std::move(schedule_);
}

}  // namespace shardscope::testing
