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

/// The ranks that are played in turn until none has to be played again.
class RanksInTurn {
 public:
  RanksInTurn(std::span<const Schedule> schedules, std::span<const StepCosts> costs,
              std::vector<RankMeeting> meetings)
      : schedules_(schedules),
        costs_(costs),
        meetings_(std::move(meetings)),
        meetings_of_(schedules.size()),
        last_steps_(schedules.size()) {
    for (const Schedule& schedule : schedules) {
      peers_.emplace_back(schedule.operations.size(), meets_nobody);
      arrivals_.emplace_back(schedule.operations.size());
      is_due_.push_back(!schedule.steps.empty());
    }
    for (std::size_t meeting = 0; meeting < meetings_.size(); ++meeting)
      for (const RankOperation& own : meetings_[meeting].present) {
        peers_[own.place][own.operation] = {};
        meetings_of_[own.place].push_back(meeting);
      }
  }

  /// Whether any rank was due. Sweeps go up and down in turn, as activations and gradients do.
  bool sweep(bool up) {
    bool played = false;
    for (std::size_t i = 0; i < schedules_.size(); ++i) {
      const std::size_t place = up ? i : schedules_.size() - 1 - i;
      if (!is_due_[place]) continue;
      is_due_[place] = false;
      played = true;
      RankPlay play = play_rank(schedules_[place], costs_[place], peers_[place]);
      arrivals_[place] = std::move(play.arrivals);
      last_steps_[place] = play.last_step;
      tell_peers(place);
    }
    return played;
  }

  std::size_t meetings() const { return meetings_.size(); }
  PlayedTogether result() && {
    return {.ranks = {.arrivals = std::move(peers_), .endless_wait = {}},
            .last_steps = std::move(last_steps_)};
  }

 private:
  /// Those for which the rank's arrivals mean anything new are due.
  void tell_peers(std::size_t place) {
    for (const std::size_t index : meetings_of_[place]) {
      const RankMeeting& meeting = meetings_[index];
      for (const RankOperation& own : meeting.present) {
        Duration last;
        for (const RankOperation& other : meeting.present)
          if (other.place != own.place)
            last = std::max(last, arrivals_[other.place][other.operation]);
        Duration& known = peers_[own.place][own.operation];
        if (known == last) continue;
        known = last;
        is_due_[own.place] = true;
      }
    }
  }

  std::span<const Schedule> schedules_;
  std::span<const StepCosts> costs_;
  std::vector<RankMeeting> meetings_;
  std::vector<std::vector<std::size_t>> meetings_of_;  ///< by schedule
  std::vector<PeerArrivals> peers_;
  std::vector<std::vector<Duration>> arrivals_;
  std::vector<Duration> last_steps_;
  std::vector<bool> is_due_;
};

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
  std::vector<RankMeeting> meetings = meetings_in_steps(schedules);
  if (auto circle = endless_wait(schedules, meetings))
    return {.ranks = {.arrivals = {}, .endless_wait = std::move(*circle)}, .last_steps = {}};
  RanksInTurn ranks(schedules, costs, std::move(meetings));
  // Each sweep settles at least the next meeting of those that are left.
  for (std::size_t sweep = 0; sweep <= ranks.meetings() + 1; ++sweep) {
    const bool played = ranks.sweep(sweep % 2 == 0);
    if (on_sweep) on_sweep(sweep + 1);
    if (!played) return std::move(ranks).result();
  }
  // By their programs alone all ranks end. They wait because a channel runs its collectives in
  // turn.
  return {.ranks = {.arrivals = {},
                    .endless_wait = "they issue collectives of one channel in different orders"},
          .last_steps = {}};
}

}  // namespace shardscope
