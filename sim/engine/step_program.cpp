#include "sim/engine/step_program.h"

#include <algorithm>

#include "core/base/error.h"
#include "sim/cost/distinct_operations.h"
#include "sim/engine/step_rows.h"

namespace shardscope {
namespace {

using Kind = LaneItem::Kind;

class Builder {
 public:
  Builder(const Schedule& schedule, const Step& step, const StepRows& rows)
      : schedule_(schedule),
        step_(step),
        rows_(rows),
        classes_(distinct_operations(schedule, step.operations)),
        lanes_(schedule.program.lanes.size()),
        lane_of_event_(rows.events) {
    program_.events = rows.events;
    std::vector<std::size_t> rows_of_lane(lanes_.size());
    std::size_t all = 0;
    for (const StepRow& row : rows.rows) {
      if (row.kind == HostActionKind::record_event) lane_of_event_[row.subject] = row.lane;
      if (takes_host_alone(row.kind)) continue;
      ++rows_of_lane[row.lane];
      ++all;
    }
    // The first lane, which has most, becomes the place of all.
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane)
      lanes_[lane].items.reserve(lane == 0 ? all : rows_of_lane[lane]);
  }

  StepProgram build() {
    for (const StepRow& row : rows_.rows) add(row);
    program_.segments.push_back(segment_);
    lay_out();
    return std::move(program_);
  }

 private:
  struct LaneState {
    std::vector<LaneItem> items;
    /// By lane: how far its events are waited for already, as number + 1. A lane's events happen in
    /// order.
    std::vector<std::uint32_t> reached;
  };

  void add(const StepRow& row) {
    switch (row.kind) {
      case HostActionKind::launch:
        return launch(row, false);
      case HostActionKind::run:
        launch(row, true);
        return host_waits_for_lane(row.lane);
      case HostActionKind::dispatch:
        segment_.host.dispatch(in_backward_, times_ * row.subject);
        return;
      case HostActionKind::hook:
        segment_.host.hooks += row.subject;
        return;
      case HostActionKind::repeat:
        times_ = row.subject;
        return;
      case HostActionKind::again:
        times_ = 1;
        return;
      case HostActionKind::record_event:
        return put(row.lane, {.kind = Kind::record, .subject = row.subject});
      case HostActionKind::wait_event:
        return wait(row);
      case HostActionKind::host_wait:
        return host_waits(row.subject, row.previous);
      case HostActionKind::host_sync:
        return host_waits_for_lane(row.lane);
      default:  // step_rows has no others
        return;
    }
  }

  void launch(const StepRow& row, bool on_host) {
    const Operation& op = schedule_.operations[row.subject];
    in_backward_ = is_of_autograd(op);
    if (!op.issued_with_graph) segment_.host.launch(in_backward_);
    LaneItem item{.share = share_of(op.kind),
                  .copies = op.kind == OperationKind::copy,
                  .on_host = on_host,
                  .subject = classes_.class_of[row.subject - step_.operations.begin]};
    if (item.share == Share::collective) {
      item.turn = program_.collectives++;
      item.group = schedule_.collectives[op.detail].group.value;
      std::vector<std::uint32_t>& of_group = program_.collectives_of_group;
      if (of_group.size() <= item.group) of_group.resize(item.group + 1);
      item.turn_in_group = of_group[item.group]++;
    }
    put(row.lane, item);
  }

  /// Not for what the lane has behind it anyway.
  void wait(const StepRow& row) {
    if (!row.previous) {
      const std::uint8_t source = lane_of_event_[row.subject];
      if (source == row.lane) return;
      std::vector<std::uint32_t>& reached = lanes_[row.lane].reached;
      reached.resize(lanes_.size());
      if (reached[source] > row.subject) return;
      reached[source] = row.subject + 1;
    }
    put(row.lane,
        {.kind = row.previous ? Kind::wait_previous : Kind::wait, .subject = row.subject});
  }

  void host_waits(std::uint32_t event, bool previous) {
    segment_.event = event;
    segment_.previous = previous;
    program_.segments.push_back(segment_);
    segment_ = {};
  }

  void host_waits_for_lane(std::uint8_t lane) {
    put(lane, {.kind = Kind::record, .subject = program_.events});
    host_waits(program_.events++, false);
  }

  void put(std::uint8_t lane, LaneItem item) {
    item.segment = static_cast<std::uint32_t>(program_.segments.size());
    item.host = segment_.host;
    lanes_[lane].items.push_back(item);
  }

  /// Lanes one after the other, without records that nobody waits for.
  void lay_out() {
    std::vector<bool> waited(program_.events, false);
    for (const LaneState& lane : lanes_)
      for (const LaneItem& item : lane.items)
        if (item.kind == Kind::wait || item.kind == Kind::wait_previous)
          waited[item.subject] = true;
    for (const HostSegment& segment : program_.segments)
      if (segment.event != HostSegment::no_event) waited[segment.event] = true;
    const auto is_idle = [&](const LaneItem& item) {
      return item.kind == Kind::record && !waited[item.subject];
    };
    std::vector<LaneItem>& all = program_.items;
    for (LaneState& lane : lanes_) {
      std::erase_if(lane.items, is_idle);
      if (lane.items.empty()) continue;
      const auto begin = static_cast<std::uint32_t>(all.size());
      if (all.empty())
        all = std::move(lane.items);
      else
        all.insert(all.end(), lane.items.begin(), lane.items.end());
      program_.lanes.push_back({begin, static_cast<std::uint32_t>(all.size())});
    }
    program_.examples = std::move(classes_.examples);
  }

  const Schedule& schedule_;
  const Step& step_;
  const StepRows& rows_;
  DistinctOperations classes_;
  StepProgram program_;
  HostSegment segment_;
  std::uint32_t times_ = 1;   // that dispatches are done
  bool in_backward_ = false;  // by the last launch; dispatches name no phase
  std::vector<LaneState> lanes_;
  std::vector<std::uint8_t> lane_of_event_;
};

}  // namespace

std::size_t StepProgram::operations() const {
  return static_cast<std::size_t>(std::ranges::count(items, Kind::operation, &LaneItem::kind));
}

StepProgram step_program(const Schedule& schedule, int micro_batches) {
  if (schedule.steps.empty())
    throw Error({.where = "simulation", .what = "the schedule has no steps"});
  const Step& step = schedule.steps.back();
  const StepRows rows = with_micro_batches(step_rows(schedule, step), schedule, micro_batches);
  StepProgram program = Builder(schedule, step, rows).build();
  // Steps of an arena's schedule are alike; others repeat from the third on.
  program.repetitions_to_steady = schedule.memory == MemorySource::arena ? 1 : 3;
  return program;
}

}  // namespace shardscope
