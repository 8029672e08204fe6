#include "sim/engine/step_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/base/error.h"

namespace shardscope {
namespace {

bool is_wait(HostActionKind kind) {
  return kind == HostActionKind::wait_event || kind == HostActionKind::host_wait;
}

bool keeps_time(HostActionKind kind) {
  return is_wait(kind) || issues_operation(kind) || takes_host_alone(kind) ||
         kind == HostActionKind::record_event || kind == HostActionKind::host_sync ||
         kind == HostActionKind::repeat || kind == HostActionKind::again;
}

/// A point between rows, with the events that are recorded before it.
struct Cut {
  std::size_t row = 0;
  std::uint32_t event = 0;
};

/// Before the first launch of a micro-batch.
Cut cut_before(const StepRows& step, const Schedule& schedule, int micro_batch) {
  Cut cut;
  for (; cut.row < step.rows.size(); ++cut.row) {
    const StepRow& row = step.rows[cut.row];
    if (row.kind == HostActionKind::record_event) ++cut.event;
    if (!issues_operation(row.kind)) continue;
    const Operation& op = schedule.operations[row.subject];
    const bool computes = op.phase == Phase::forward || op.phase == Phase::backward;
    if (computes && op.micro_batch == micro_batch) return cut;
  }
  throw Error({.where = "simulation",
               .what = fmt::format("the recorded step has no micro-batch {}", micro_batch + 1)});
}

/// Numbers of events when the stretch between two cuts is played `extra` times more.
struct Renumbering {
  Cut begin, end;
  std::uint32_t extra = 0;

  std::uint32_t stretch() const { return end.event - begin.event; }
  /// As seen from the stretch's copy `copy`, or with `extra` from behind it. Events of the
  /// stretch's own length before it have one in each copy that stands for them; older ones have
  /// none.
  std::uint32_t number(std::uint32_t event, std::uint32_t copy) const {
    return event + stretch() >= begin.event ? event + copy * stretch() : event;
  }
};

/// Those of one kind in a row are one row.
void add_host_time(const HostAction& action, std::vector<StepRow>& rows) {
  if (!rows.empty() && rows.back().kind == action.kind)
    ++rows.back().subject;
  else
    rows.push_back({.kind = action.kind, .lane = action.lane, .subject = 1});
}

}  // namespace

StepRows step_rows(const Schedule& schedule, const Step& step) {
  const auto& actions = schedule.program.actions;
  StepRows result;
  std::uint32_t first = std::numeric_limits<std::uint32_t>::max();
  for (std::uint32_t i = step.actions.begin; i < step.actions.end; ++i) {
    if (actions[i].kind != HostActionKind::record_event) continue;
    first = std::min(first, actions[i].subject);
    ++result.events;
  }
  result.rows.reserve(step.actions.size());
  for (std::uint32_t i = step.actions.begin; i < step.actions.end; ++i) {
    const HostAction& action = actions[i];
    if (!keeps_time(action.kind)) continue;
    if (takes_host_alone(action.kind)) {
      add_host_time(action, result.rows);
      continue;
    }
    StepRow row{.kind = action.kind, .lane = action.lane, .subject = action.subject};
    if (is_wait(action.kind) || action.kind == HostActionKind::record_event) {
      row.previous = action.subject < first;
      if (row.previous && action.subject + std::uint64_t{result.events} < first) continue;
      if (row.previous && result.events == 0) continue;
      row.subject = action.subject - first + (row.previous ? result.events : 0);
    }
    result.rows.push_back(row);
  }
  return result;
}

StepRows with_micro_batches(StepRows step, const Schedule& schedule, int micro_batches) {
  if (micro_batches <= told_micro_batches) return step;
  const Renumbering events{.begin = cut_before(step, schedule, 1),
                           .end = cut_before(step, schedule, 2),
                           .extra = static_cast<std::uint32_t>(micro_batches - told_micro_batches)};
  StepRows result{.rows = {}, .events = step.events + events.extra * events.stretch()};
  result.rows.reserve(step.rows.size() + events.extra * (events.end.row - events.begin.row));
  const auto add = [&](std::size_t begin, std::size_t end, std::uint32_t copy) {
    for (std::size_t i = begin; i < end; ++i) {
      StepRow row = step.rows[i];
      if (is_wait(row.kind) || row.kind == HostActionKind::record_event)
        row.subject = events.number(row.subject, row.previous ? events.extra : copy);
      result.rows.push_back(row);
    }
  };
  add(0, events.begin.row, 0);
  for (std::uint32_t copy = 0; copy <= events.extra; ++copy)
    add(events.begin.row, events.end.row, copy);
  add(events.end.row, step.rows.size(), events.extra);
  return result;
}

}  // namespace shardscope
