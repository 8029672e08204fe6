#include "sim/engine/simulate_together.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>

#include "core/base/error.h"
#include "sim/cost/cost_model.h"
#include "sim/engine/arena_memory.h"
#include "sim/engine/clock_options.h"
#include "sim/engine/meetings.h"
#include "traces/analysis.h"
#include "traces/schedule_trace.h"

namespace shardscope {
namespace {

/// Where each schedule's operations begin among those of all.
std::vector<std::uint32_t> first_subjects(std::span<const Schedule> schedules) {
  std::vector<std::uint32_t> first{0};
  for (const Schedule& schedule : schedules)
    first.push_back(first.back() + static_cast<std::uint32_t>(schedule.operations.size()));
  return first;
}

/// Issues the host program of one rank to the engine.
class RankIssuer {
 public:
  struct Setting {
    const Schedule& schedule;
    std::size_t place;
    std::uint32_t first_subject;
    const DeviceClockOptions& clock;
  };
  RankIssuer(const Setting& setting, EventEngine& engine)
      : setting_(setting),
        engine_(engine),
        events_(setting.schedule.program.events, none),
        behind_host_(setting.schedule.program.lanes.size(), 0) {
    for (std::size_t i = 0; i < setting.schedule.program.lanes.size(); ++i)
      lanes_.push_back(engine.new_lane(setting.place));
  }

  /// `arrivals`: events of the ranks that meet at an operation, this one's first.
  void act(const HostAction& action, std::span<const std::uint32_t> arrivals) {
    switch (action.kind) {
      case HostActionKind::launch:
      case HostActionKind::run:
        return issue(action, arrivals);
      case HostActionKind::record_event:
        events_[action.subject] = engine_.new_event();
        return add(action.lane, LaneItem::Kind::record, events_[action.subject]);
      case HostActionKind::wait_event:
        // What was recorded before the step has happened.
        if (events_[action.subject] != none)
          add(action.lane, LaneItem::Kind::wait, events_[action.subject]);
        return;
      default:
        return;  // the host waits at the end of the step alone
    }
  }

 private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  void add(std::uint8_t lane, LaneItem::Kind kind, std::uint32_t event) {
    engine_.issue(lanes_[lane], {.kind = kind, .subject = event}, host_ns_);
  }

  void issue(const HostAction& action, std::span<const std::uint32_t> arrivals) {
    const Operation& op = setting_.schedule.operations[action.subject];
    const bool on_host = action.kind == HostActionKind::run;
    if (!op.issued_with_graph) host_ns_ += setting_.clock.launch_ns(is_of_autograd(op));
    if (!on_host) come_after_host(action.lane);
    if (!arrivals.empty()) {
      add(action.lane, LaneItem::Kind::record, arrivals.front());
      for (const std::uint32_t other : arrivals.subspan(1))
        add(action.lane, LaneItem::Kind::wait, other);
    }
    engine_.issue(lanes_[action.lane],
                  {.share = share_of(op.kind),
                   .copies = op.kind == OperationKind::copy,
                   .on_host = on_host,
                   .subject = setting_.first_subject + action.subject,
                   .group = channel_of(setting_.schedule, op, setting_.clock.sharing)},
                  host_ns_);
    if (!on_host) return;
    ++host_runs_;
    host_lane_ = action.lane;
  }

  /// A host that computes issues to other lanes when it has ended what it ran itself.
  void come_after_host(std::uint8_t lane) {
    if (host_runs_ == behind_host_[lane]) return;
    behind_host_[lane] = host_runs_;
    const std::uint32_t event = engine_.new_event();
    add(host_lane_, LaneItem::Kind::record, event);
    add(lane, LaneItem::Kind::wait, event);
  }

  Setting setting_;
  EventEngine& engine_;
  std::vector<std::size_t> lanes_;
  std::vector<std::uint32_t> events_;
  std::vector<std::uint64_t> behind_host_;  ///< by lane: runs of the host that it is behind
  std::uint64_t host_runs_ = 0;
  std::uint8_t host_lane_ = 0;
  std::int64_t host_ns_ = 0;
};

/// For every operation of every rank, the events of those who meet there, its own first.
using Arrivals = std::vector<std::vector<std::uint32_t>>;

Arrivals find_arrivals(std::span<const Schedule> schedules, const std::vector<std::uint32_t>& first,
                       EventEngine& engine) {
  std::vector<IndexRange> steps;
  for (const Schedule& schedule : schedules) steps.push_back(schedule.steps.back().operations);
  Arrivals arrivals(first.back());
  for (const RankMeeting& meeting : find_meetings(schedules, steps)) {
    if (!meeting.is_whole())
      throw Error({.where = "simulation",
                   .what = fmt::format("{} of {} ranks of group \"{}\" come to its collective {}",
                                       meeting.present.size(), meeting.members, meeting.group,
                                       meeting.nth)});
    std::vector<std::uint32_t> events;
    for (std::size_t i = 0; i < meeting.present.size(); ++i) events.push_back(engine.new_event());
    for (std::size_t i = 0; i < meeting.present.size(); ++i) {
      const RankOperation& own = meeting.present[i];
      std::vector<std::uint32_t>& of_own = arrivals[first[own.place] + own.operation];
      of_own.push_back(events[i]);
      for (std::size_t other = 0; other < events.size(); ++other)
        if (other != i) of_own.push_back(events[other]);
    }
  }
  return arrivals;
}

void check_all_ended(std::span<const Schedule> schedules, const std::vector<std::uint32_t>& first,
                     const OperationMoments& moments) {
  constexpr std::size_t most_named = 4;
  std::vector<std::string> waiting;
  std::size_t unnamed = 0;
  for (std::size_t place = 0; place < schedules.size(); ++place) {
    const Schedule& schedule = schedules[place];
    const IndexRange step = schedule.steps.back().operations;
    for (std::uint32_t op = step.begin; op < step.end; ++op) {
      if (moments.end[first[place] + op] != OperationMoments::not_started) continue;
      if (waiting.size() < most_named)
        waiting.push_back(fmt::format("rank {} never gets through {}", schedule.rank,
                                      schedule.name(schedule.operations[op])));
      else
        ++unnamed;
      break;
    }
  }
  if (waiting.empty()) return;
  if (unnamed > 0) waiting.push_back(fmt::format("and {} more", unnamed));
  throw Error({.where = "simulation",
               .what = fmt::format("{}: ranks wait for each other", fmt::join(waiting, ", "))});
}

std::vector<bool> run_by_host(const Schedule& schedule) {
  std::vector<bool> on_host(schedule.operations.size(), false);
  for (const HostAction& action : schedule.program.actions)
    if (action.kind == HostActionKind::run) on_host[action.subject] = true;
  return on_host;
}

Trace trace_of(const Schedule& schedule, const OperationMoments& moments, std::uint32_t first) {
  Trace trace = start_trace(schedule, TraceKind::predicted);
  trace.tracks.clear();
  for (const Lane& lane : schedule.program.lanes)
    trace.tracks.push_back({.name = lane.name, .stream = lane.stream});
  const IndexRange actions = schedule.steps.back().actions;
  for (std::uint32_t i = actions.begin; i < actions.end; ++i) {
    const HostAction& action = schedule.program.actions[i];
    if (!issues_operation(action.kind)) continue;
    const Operation& op = schedule.operations[action.subject];
    const Duration start = moments.start[first + action.subject];
    trace.spans.push_back({.start = start,
                           .duration = moments.end[first + action.subject] - start,
                           .name = op.name,
                           .track = action.lane,
                           .span_class = span_class_of(op.kind),
                           .operation = OperationId{action.subject},
                           .step = op.step + 1});
  }
  return trace;
}

}  // namespace

StepCosts costs_together(std::span<const Schedule> schedules, const HardwareProfile& profile) {
  const CostModel model(profile);
  const int ranks_each = schedules.front().world / static_cast<int>(schedules.size());
  StepCosts costs{.times = {},
                  .uses = {},
                  .clock = clock_options(schedules.front(), profile),
                  .core_sharing = core_sharing_of(profile, schedules.size(), ranks_each)};
  for (const Schedule& schedule : schedules) {
    const std::vector<Duration> times = operation_times(schedule, model);
    costs.times.insert(costs.times.end(), times.begin(), times.end());
    const std::vector<LinkUse> uses = link_uses(schedule, model);
    costs.uses.insert(costs.uses.end(), uses.begin(), uses.end());
  }
  return costs;
}

OperationMoments play_together(std::span<const Schedule> schedules, const StepCosts& costs) {
  const std::vector<std::uint32_t> first = first_subjects(schedules);
  std::size_t groups = 0;
  for (const Schedule& schedule : schedules) groups = std::max(groups, schedule.groups.size());
  OperationMoments moments(first.back());
  EventEngine engine(costs, groups + 1, moments, schedules.size());
  const Arrivals arrivals = find_arrivals(schedules, first, engine);
  for (std::size_t place = 0; place < schedules.size(); ++place) {
    const Schedule& schedule = schedules[place];
    RankIssuer issuer(
        {.schedule = schedule, .place = place, .first_subject = first[place], .clock = costs.clock},
        engine);
    const IndexRange actions = schedule.steps.back().actions;
    for (std::uint32_t i = actions.begin; i < actions.end; ++i) {
      const HostAction& action = schedule.program.actions[i];
      const bool issues = issues_operation(action.kind);
      issuer.act(action, issues ? std::span(arrivals[first[place] + action.subject])
                                : std::span<const std::uint32_t>());
    }
  }
  engine.finish();
  check_all_ended(schedules, first, moments);
  return moments;
}

std::vector<Simulation> simulate_together(std::span<const Schedule> schedules,
                                          const HardwareProfile& profile) {
  const std::vector<std::uint32_t> first = first_subjects(schedules);
  const OperationMoments moments = play_together(schedules, costs_together(schedules, profile));
  const TimeWindow window{.begin = {}, .end = *std::ranges::max_element(moments.end)};
  std::vector<Simulation> simulations;
  for (std::size_t place = 0; place < schedules.size(); ++place) {
    const Schedule& schedule = schedules[place];
    Simulation& simulation = simulations.emplace_back();
    simulation.trace = trace_of(schedule, moments, first[place]);
    simulation.trace.device = fmt::format("{}: {}", profile.device, profile.name);
    const std::vector<bool> on_host = run_by_host(schedule);
    const auto reached = [&, from = first[place]](std::uint32_t op) {
      return on_host[op] ? moments.start[from + op] : moments.issued[from + op];
    };
    ArenaMemory arena = memory_of_arena(schedule, schedule.steps.back(), reached, window.end);
    simulation.trace.memory = std::move(arena.samples);
    simulation.accounting = account(simulation.trace, window);
    simulation.steps = {{.label = schedule.steps.back().label,
                         .window = window,
                         .accounting = simulation.accounting,
                         .memory = arena.memory}};
  }
  return simulations;
}

}  // namespace shardscope
