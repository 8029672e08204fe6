#include "sim/engine/peer_arrivals.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "sim/engine/clock_options.h"
#include "sim/engine/endless_wait.h"
#include "sim/engine/meetings.h"
#include "sim/engine/program_player.h"
#include "sim/engine/timed_device.h"

namespace shardscope {
namespace {

/// Meetings to which all members come in their steps. They are counted from the start of the
/// script: a rank's first receive may come before its first forward, in its set-up.
std::vector<RankMeeting> meetings_in_steps(std::span<const Schedule> schedules) {
  std::vector<IndexRange> operations;
  for (const Schedule& schedule : schedules)
    operations.push_back({0, static_cast<std::uint32_t>(schedule.operations.size())});
  std::vector<RankMeeting> meetings = find_meetings(schedules, operations);
  const auto is_in_step = [&](const RankOperation& one) {
    const std::vector<Step>& steps = schedules[one.place].steps;
    return !steps.empty() && one.operation >= steps.front().operations.begin;
  };
  std::erase_if(meetings, [&](const RankMeeting& meeting) {
    return !meeting.is_whole() || !std::ranges::all_of(meeting.present, is_in_step);
  });
  return meetings;
}

/// When the rank comes to its meetings, by operation.
std::vector<Duration> arrivals_of(const Schedule& schedule, const StepCosts& costs,
                                  const PeerArrivals& peers) {
  TimedDevice device(schedule, costs);
  ProgramPlayer player({.schedule = schedule, .allocator = nullptr, .device = device});
  player.play_until(schedule.steps.front().actions.begin);
  const Duration origin = device.come_to_rest();
  device.meet_peers(peers, origin);
  for (const Step& step : schedule.steps) {
    device.begin_step();
    player.play_until(step.actions.end);
  }
  device.finish();
  return device.arrivals();
}

/// What one rank's arrivals mean for its peers: whether anything changed.
bool tell_peers(const std::vector<RankMeeting>& meetings,
                const std::vector<std::vector<Duration>>& arrivals,
                std::vector<PeerArrivals>& peers) {
  bool changed = false;
  for (const RankMeeting& meeting : meetings) {
    for (const RankOperation& own : meeting.present) {
      Duration last;
      for (const RankOperation& other : meeting.present)
        if (other.place != own.place) last = std::max(last, arrivals[other.place][other.operation]);
      changed |= peers[own.place][own.operation] != last;
      peers[own.place][own.operation] = last;
    }
  }
  return changed;
}

}  // namespace

RanksTogether peer_arrivals(std::span<const Schedule> schedules, const HardwareProfile& profile,
                            const std::function<void(std::size_t sweeps)>& on_sweep) {
  const std::vector<RankMeeting> meetings = meetings_in_steps(schedules);
  if (auto circle = endless_wait(schedules, meetings))
    return {.arrivals = {}, .endless_wait = std::move(*circle)};
  std::vector<StepCosts> costs;
  std::vector<PeerArrivals> peers;
  std::vector<std::vector<Duration>> arrivals;
  for (const Schedule& schedule : schedules) {
    costs.push_back(costs_of(schedule, profile));
    peers.emplace_back(schedule.operations.size(), meets_nobody);
    arrivals.emplace_back(schedule.operations.size());
  }
  for (const RankMeeting& meeting : meetings)
    for (const RankOperation& own : meeting.present) peers[own.place][own.operation] = {};

  // Each sweep settles at least the next meeting of those that are left.
  for (std::size_t sweep = 0; sweep <= meetings.size() + 1; ++sweep) {
    bool changed = false;
    for (std::size_t place = 0; place < schedules.size(); ++place) {
      if (schedules[place].steps.empty()) continue;
      arrivals[place] = arrivals_of(schedules[place], costs[place], peers[place]);
      changed |= tell_peers(meetings, arrivals, peers);
    }
    if (on_sweep) on_sweep(sweep + 1);
    if (!changed) return {.arrivals = std::move(peers), .endless_wait = {}};
  }
  // By their programs alone all ranks end. They wait because a channel runs its collectives in
  // turn.
  return {.arrivals = {},
          .endless_wait = "they issue collectives of one channel in different orders"};
}

}  // namespace shardscope
