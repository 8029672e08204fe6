#include "sim/step_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "core/error.h"
#include "sim/distinct_operations.h"

namespace shardscope {
namespace {

using Kind = LaneItem::Kind;

constexpr std::uint32_t never = std::numeric_limits<std::uint32_t>::max();

class Builder {
 public:
  Builder(const Schedule& schedule, const Step& step)
      : schedule_(schedule),
        step_(step),
        classes_(distinct_operations(schedule, step.operations)),
        lanes_(schedule.program.lanes.size()) {
    number_events();
  }

  StepProgram build() {
    for (std::uint32_t i = step_.actions.begin; i < step_.actions.end; ++i)
      add(schedule_.program.actions[i]);
    program_.segments.push_back(segment_);
    lay_out();
    return std::move(program_);
  }

 private:
  /// An event as the step sees it.
  struct Event {
    std::uint32_t number = 0;  // in its step
    bool previous = false;
  };
  struct LaneState {
    std::vector<LaneItem> items;
    /// By lane: how far its events are waited for already, as number + 1. A lane's events happen in
    /// order.
    std::vector<std::uint32_t> reached;
  };

  /// Events are numbered in the order in which they are recorded, so that those of the step stand
  /// in one row, and those of the step before at the same distance from its end.
  void number_events() {
    for (std::uint32_t i = step_.actions.begin; i < step_.actions.end; ++i) {
      const HostAction& action = schedule_.program.actions[i];
      if (action.kind != HostActionKind::record_event) continue;
      first_event_ = std::min(first_event_, action.subject);
      ++recorded_;
    }
    lane_of_event_.assign(recorded_, never);
    for (std::uint32_t i = step_.actions.begin; i < step_.actions.end; ++i) {
      const HostAction& action = schedule_.program.actions[i];
      if (action.kind == HostActionKind::record_event)
        lane_of_event_[action.subject - first_event_] = action.lane;
    }
    program_.events = recorded_;
  }

  /// None: it happened long ago.
  std::optional<Event> event_of(std::uint32_t subject) const {
    if (recorded_ == 0) return std::nullopt;
    if (subject >= first_event_) return Event{subject - first_event_, false};
    if (subject + recorded_ < first_event_) return std::nullopt;
    return Event{subject + recorded_ - first_event_, true};
  }

  void add(const HostAction& action) {
    switch (action.kind) {
      case HostActionKind::launch:
        return launch(action);
      case HostActionKind::dispatch:
        ++segment_.dispatches;
        return;
      case HostActionKind::record_event:
        return put(action.lane, {.kind = Kind::record, .subject = action.subject - first_event_});
      case HostActionKind::wait_event:
        return wait(action);
      case HostActionKind::host_wait:
        if (const auto event = event_of(action.subject)) host_waits(*event);
        return;
      case HostActionKind::host_sync:
        put(action.lane, {.kind = Kind::record, .subject = program_.events});
        return host_waits({program_.events++, false});
      case HostActionKind::allocate:
      case HostActionKind::free:
      case HostActionKind::record_stream:
      case HostActionKind::empty_cache:
      case HostActionKind::mark:
        return;
    }
  }

  void launch(const HostAction& action) {
    ++segment_.launches;
    const OperationKind kind = schedule_.operations[action.subject].kind;
    const Share share = share_of(kind);
    put(action.lane, {.share = share,
                      .copies = kind == OperationKind::copy,
                      .subject = classes_.class_of[action.subject - step_.operations.begin],
                      .turn = share == Share::collective ? program_.collectives++ : 0});
  }

  /// Not for what the lane has behind it anyway.
  void wait(const HostAction& action) {
    const auto event = event_of(action.subject);
    if (!event) return;
    const std::uint32_t source = lane_of_event_[event->number];
    if (!event->previous) {
      if (source == action.lane) return;
      std::vector<std::uint32_t>& reached = lanes_[action.lane].reached;
      reached.resize(lanes_.size());
      if (reached[source] > event->number) return;
      reached[source] = event->number + 1;
    }
    put(action.lane,
        {.kind = event->previous ? Kind::wait_previous : Kind::wait, .subject = event->number});
  }

  void host_waits(const Event& event) {
    segment_.event = event.number;
    segment_.previous = event.previous;
    program_.segments.push_back(segment_);
    segment_ = {};
    if (program_.segments.size() > std::numeric_limits<std::uint16_t>::max())
      throw Error({.where = fmt::format("step {}", step_.label),
                   .what = "the host waits for more than 65535 events"});
  }

  void put(std::uint8_t lane, LaneItem item) {
    item.segment = static_cast<std::uint16_t>(program_.segments.size());
    item.launches = segment_.launches;
    item.dispatches = segment_.dispatches;
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
    for (const LaneState& lane : lanes_) {
      const auto begin = static_cast<std::uint32_t>(program_.items.size());
      for (const LaneItem& item : lane.items)
        if (item.kind != Kind::record || waited[item.subject]) program_.items.push_back(item);
      const auto end = static_cast<std::uint32_t>(program_.items.size());
      if (end > begin) program_.lanes.push_back({begin, end});
    }
    program_.examples = std::move(classes_.examples);
  }

  const Schedule& schedule_;
  const Step& step_;
  DistinctOperations classes_;
  StepProgram program_;
  HostSegment segment_;
  std::vector<LaneState> lanes_;
  std::vector<std::uint32_t> lane_of_event_;
  std::uint32_t first_event_ = never;
  std::uint32_t recorded_ = 0;
};

}  // namespace

std::size_t StepProgram::operations() const {
  return static_cast<std::size_t>(std::ranges::count(items, Kind::operation, &LaneItem::kind));
}

StepProgram step_program(const Schedule& schedule, const Step& step) {
  return Builder(schedule, step).build();
}

StepProgram step_program(const Schedule& schedule) {
  if (schedule.program.empty() || schedule.steps.empty())
    throw Error({.where = "simulation", .what = "the schedule has no host program with steps"});
  return step_program(schedule, schedule.steps.back());
}

}  // namespace shardscope
