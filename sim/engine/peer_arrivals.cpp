#include "sim/engine/peer_arrivals.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "sim/engine/clock_options.h"
#include "sim/engine/endless_wait.h"
#include "sim/engine/meetings.h"
#include "sim/engine/program_player.h"
#include "sim/engine/ranks_together.h"
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

struct RankPlay {
  std::vector<Duration> arrivals;  ///< when the rank comes to its meetings, by operation
  Duration last_step;
};

/// From the end of the step before to its own.
Duration last_step_of(const Schedule& schedule, const OperationMoments& times, Duration origin) {
  Duration begin = origin, end = origin;
  for (const Step& step : schedule.steps) {
    begin = end;
    for (std::uint32_t op = step.operations.begin; op < step.operations.end; ++op)
      end = std::max(end, times.end[op]);
  }
  return end - begin;
}

RankPlay play_rank(const Schedule& schedule, const StepCosts& costs, const PeerArrivals& peers) {
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
  return {.arrivals = device.arrivals(),
          .last_step = last_step_of(schedule, device.times(), origin)};
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
  std::vector<StepCosts> costs;
  for (const Schedule& schedule : schedules) costs.push_back(costs_of(schedule, profile));
  return play_ranks_together(schedules, costs, on_sweep).ranks;
}

PlayedTogether play_ranks_together(std::span<const Schedule> schedules,
                                   std::span<const StepCosts> costs,
                                   const std::function<void(std::size_t sweeps)>& on_sweep) {
  const std::vector<RankMeeting> meetings = meetings_in_steps(schedules);
  if (auto circle = endless_wait(schedules, meetings))
    return {.ranks = {.arrivals = {}, .endless_wait = std::move(*circle)}, .last_steps = {}};
  std::vector<PeerArrivals> peers;
  std::vector<Duration> last_steps(schedules.size());
  std::vector<std::vector<Duration>> arrivals;
  for (const Schedule& schedule : schedules) {
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
      RankPlay play = play_rank(schedules[place], costs[place], peers[place]);
      arrivals[place] = std::move(play.arrivals);
      last_steps[place] = play.last_step;
      changed |= tell_peers(meetings, arrivals, peers);
    }
    if (on_sweep) on_sweep(sweep + 1);
    if (!changed)
      return {.ranks = {.arrivals = std::move(peers), .endless_wait = {}},
              .last_steps = std::move(last_steps)};
  }
  // By their programs alone all ranks end. They wait because a channel runs its collectives in
  // turn.
  return {.ranks = {.arrivals = {},
                    .endless_wait = "they issue collectives of one channel in different orders"},
          .last_steps = {}};
}

}  // namespace shardscope
