#include "tests/sim/repeated_step.h"

#include <algorithm>
#include <map>

#include "tests/sim/naive_device.h"
#include "traces/analysis.h"
#include "traces/schedule_trace.h"

namespace shardscope::testing {
namespace {

/// The schedule with one step more for every repetition: new operations and events, the same rows.
class Repeater {
 public:
  Repeater(const Schedule& schedule, const Step& step, const OperationCosts& costs)
      : given_(schedule), step_(step), costs_(costs) {
    repeated_.program.lanes = schedule.program.lanes;
    repeated_.groups = schedule.groups;
    repeated_.collectives = schedule.collectives;
  }

  void repeat() {
    const auto first = static_cast<std::uint32_t>(repeated_.operations.size());
    std::map<std::uint32_t, std::uint32_t> events;
    for (std::uint32_t i = step_.actions.begin; i < step_.actions.end; ++i)
      add(given_.program.actions[i], events);
    previous_ = std::move(events);
    ends_at_.push_back({first, static_cast<std::uint32_t>(repeated_.operations.size())});
  }

  const Schedule& schedule() const { return repeated_; }
  const OperationCosts& costs() const { return new_costs_; }
  const std::vector<IndexRange>& steps() const { return ends_at_; }

 private:
  void add(HostAction action, std::map<std::uint32_t, std::uint32_t>& events) {
    using enum HostActionKind;
    if (action.kind == launch) {
      repeated_.operations.push_back(given_.operations[action.subject]);
      new_costs_.times.push_back(costs_.times[action.subject]);
      new_costs_.uses.push_back(costs_.uses[action.subject]);
      action.subject = static_cast<std::uint32_t>(repeated_.operations.size() - 1);
    } else if (action.kind == record_event) {
      action.subject = events[action.subject] = repeated_.program.events++;
    } else if (action.kind == wait_event || action.kind == host_wait) {
      const auto own = events.find(action.subject);
      if (own == events.end()) return add_previous(action);
      action.subject = own->second;
    } else if (action.kind == HostActionKind::repeat) {
      repeated_from_ = repeated_.program.actions.size();
      times_ = action.subject;
      return;
    } else if (action.kind == again) {
      return write_out();
    } else if (action.kind != dispatch && action.kind != hook && action.kind != host_sync) {
      return;
    }
    repeated_.program.actions.push_back(action);
  }

  /// What the program repeats, row after row.
  void write_out() {
    std::vector<HostAction>& actions = repeated_.program.actions;
    const std::vector<HostAction> rows(
        actions.begin() + static_cast<std::ptrdiff_t>(repeated_from_), actions.end());
    for (std::uint32_t i = 1; i < times_; ++i)
      actions.insert(actions.end(), rows.begin(), rows.end());
  }

  /// Of the step before: as far from its end as it is in the schedule.
  void add_previous(HostAction action) {
    std::uint32_t events_of_step = 0;
    for (std::uint32_t i = step_.actions.begin; i < step_.actions.end; ++i)
      events_of_step += given_.program.actions[i].kind == HostActionKind::record_event;
    const auto same = previous_.find(action.subject + events_of_step);
    if (same == previous_.end()) return;
    action.subject = same->second;
    repeated_.program.actions.push_back(action);
  }

  const Schedule& given_;
  const Step& step_;
  const OperationCosts& costs_;
  Schedule repeated_;
  OperationCosts new_costs_;
  std::map<std::uint32_t, std::uint32_t> previous_;
  std::vector<IndexRange> ends_at_;
  std::size_t repeated_from_ = 0;
  std::uint32_t times_ = 1;
};

DeviceStream stream_of(const Schedule& schedule, std::uint8_t lane) {
  return device_stream(schedule.program.lanes[lane], lane);
}

void play_rows(const Schedule& schedule, NaiveDevice& device) {
  std::vector<DeviceEvent> events(schedule.program.events);
  for (const HostAction& action : schedule.program.actions) {
    const DeviceStream stream = stream_of(schedule, action.lane);
    using enum HostActionKind;
    if (action.kind == launch) device.launch(stream, OperationId{action.subject});
    if (action.kind == dispatch) device.dispatch(1);
    if (action.kind == hook) device.hook();
    if (action.kind == record_event) events[action.subject] = device.record(stream);
    if (action.kind == wait_event) device.stream_waits(stream, events[action.subject]);
    if (action.kind == host_wait) device.wait(events[action.subject]);
    if (action.kind == host_sync) device.wait(stream);
  }
  device.finish();
}

Trace trace_of(const Schedule& schedule, const NaiveDevice& device) {
  Trace trace;
  for (const Lane& lane : schedule.program.lanes)
    trace.tracks.push_back({.name = lane.name, .stream = lane.stream});
  for (const HostAction& action : schedule.program.actions)
    if (action.kind == HostActionKind::launch)
      trace.spans.push_back(
          {.start = device.starts()[action.subject],
           .duration = device.ends()[action.subject] - device.starts()[action.subject],
           .track = action.lane,
           .span_class = span_class_of(schedule.operations[action.subject].kind)});
  return trace;
}

}  // namespace

StepTimes repeated_on_device(const Schedule& schedule, const Step& step,
                             const OperationCosts& costs, const DeviceClockOptions& clock,
                             int repetitions) {
  Repeater repeater(schedule, step, costs);
  for (int i = 0; i < repetitions; ++i) repeater.repeat();
  NaiveDevice device(repeater.schedule(), repeater.costs().times, clock);
  device.share_links(repeater.costs().uses);
  play_rows(repeater.schedule(), device);
  StepTimes result;
  for (const IndexRange operations : repeater.steps())
    result.ends.push_back(*std::max_element(device.ends().begin() + operations.begin,
                                            device.ends().begin() + operations.end));
  const Duration begin = repetitions > 1 ? result.ends[result.ends.size() - 2] : Duration{};
  result.accounting =
      account(trace_of(repeater.schedule(), device), {.begin = begin, .end = result.ends.back()});
  return result;
}

}  // namespace shardscope::testing
