#include "core/pytorch/runtimes/record/program_writer.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace shardscope {

void ProgramWriter::expect_more(std::size_t steps) {
  const auto make_room = [steps](auto& rows) { rows.reserve(rows.size() * (steps + 1)); };
  make_room(schedule_.program.actions);
  make_room(schedule_.operations);
  make_room(schedule_.after);
  make_room(schedule_.buffers);
}

void ProgramWriter::end_repeat() {
  std::vector<HostAction>& actions = schedule_.program.actions;
  if (actions.back().kind == HostActionKind::repeat)
    actions.pop_back();
  else
    add(HostActionKind::again, 0, 0);
}

ProgramWriter::LaneIndex ProgramWriter::add_lane(const Lane& lane) {
  constexpr std::size_t most = 256;
  if (lanes_.size() == most) throw Error({.where = "schedule", .what = "more than 256 streams"});
  schedule_.program.lanes.push_back(lane);
  lanes_.emplace_back();
  return static_cast<LaneIndex>(lanes_.size() - 1);
}

void ProgramWriter::raise(Before& to, const Before& other) {
  if (to.size() < other.size()) to.resize(other.size());
  for (std::size_t i = 0; i < other.size(); ++i) to[i] = std::max(to[i], other[i]);
}

OperationId ProgramWriter::issue(HostActionKind kind, LaneIndex lane, Operation operation) {
  const OperationId id = OperationId::of(schedule_.operations.size());
  LaneState& state = lanes_[lane];
  operation.after.begin = static_cast<std::uint32_t>(schedule_.after.size());
  if (std::exchange(state.waits, false)) {
    state.attached.resize(std::max(state.attached.size(), state.asked.size()));
    for (std::size_t from = 0; from < state.asked.size(); ++from)
      if (from != lane && state.asked[from] > state.attached[from])
        schedule_.after.push_back(OperationId{state.asked[from] - 1});
    raise(state.attached, state.asked);
  }
  operation.after.end = static_cast<std::uint32_t>(schedule_.after.size());
  if (state.asked.size() <= lane) state.asked.resize(lane + std::size_t{1});
  state.asked[lane] = id.value + 1;
  schedule_.operations.push_back(operation);
  add(kind, lane, id.value);
  return id;
}

std::uint32_t ProgramWriter::record_event(LaneIndex lane) {
  const std::uint32_t event = schedule_.program.events++;
  events_.push_back(lanes_[lane].asked);
  add(HostActionKind::record_event, lane, event);
  return event;
}

OperationId ProgramWriter::launch_before_event(LaneIndex lane, Operation operation) {
  const HostAction event = schedule_.program.actions.back();
  schedule_.program.actions.pop_back();
  const OperationId id = launch(lane, operation);
  events_[event.subject] = lanes_[lane].asked;
  schedule_.program.actions.push_back(event);
  return id;
}

void ProgramWriter::wait_event(LaneIndex lane, std::uint32_t event) {
  raise(lanes_[lane].asked, events_[event]);
  lanes_[lane].waits = true;
  add(HostActionKind::wait_event, lane, event);
}

}  // namespace shardscope
