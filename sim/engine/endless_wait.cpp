#include "sim/engine/endless_wait.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <limits>
#include <vector>

namespace shardscope {
namespace {

constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

/// What a lane has still to do; operations in which nobody else takes part end at once.
struct Item {
  enum class Kind : std::uint8_t { meets, records, waits };
  Kind kind = Kind::meets;
  std::uint32_t subject = 0;  ///< the meeting, or the recording of an event
  std::uint32_t row = 0;      ///< transfers of one row begin in any order
};

struct LaneQueue {
  std::deque<Item> items;
  std::uint32_t row = 0;            ///< of the last transfer
  std::uint32_t arrived_row = 0;    ///< the last one whose first transfer is at the front, or was
  bool ends_with_transfer = false;  ///< the last item that was put here
};

struct Meeting {
  std::vector<bool> arrived;  ///< by place in RankMeeting::present
  std::size_t missing = 0;
};

class RankWalk {
 public:
  explicit RankWalk(const Schedule& schedule)
      : schedule_(schedule),
        lanes_(schedule.program.lanes.size()),
        latest_(schedule.program.events, none),
        meeting_of_(schedule.operations.size(), none),
        end_(schedule.steps.empty() ? 0 : schedule.steps.back().actions.end) {}

  const Schedule& schedule() const { return schedule_; }
  void meet_in(std::uint32_t operation, std::uint32_t meeting) { meeting_of_[operation] = meeting; }
  std::uint32_t meeting_of(std::uint32_t operation) const { return meeting_of_[operation]; }

  /// Goes on as far as it can. `arrive` is told of meetings; `is_over` says which have taken place.
  template <class Arrive, class IsOver>
  void go_on(const Arrive& arrive, const IsOver& is_over) {
    for (;;) {
      while (next_ < end_ && !is_waiting()) act(schedule_.program.actions[next_++], arrive);
      if (!drain(arrive, is_over) || (next_ >= end_ && is_idle())) return;
    }
  }

  bool has_ended() const { return next_ >= end_ && !is_waiting() && is_idle(); }

  /// The meeting that holds up a lane: that lane first in which `wanted` is.
  std::uint32_t held_up_by(std::uint32_t wanted) const {
    std::uint32_t found = none;
    for (const LaneQueue& lane : lanes_) {
      if (lane.items.empty() || lane.items.front().kind != Item::Kind::meets) continue;
      const bool holds_it = std::ranges::any_of(lane.items, [&](const Item& item) {
        return item.kind == Item::Kind::meets && item.subject == wanted;
      });
      if (found == none || holds_it) found = lane.items.front().subject;
      if (holds_it) return found;
    }
    return found;
  }

 private:
  bool is_waiting() const { return awaited_ != none && !happened_[awaited_]; }
  bool is_idle() const {
    return std::ranges::all_of(lanes_, [](const LaneQueue& lane) { return lane.items.empty(); });
  }

  /// A new recording of an event, behind what the lane has to do.
  std::uint32_t record(LaneQueue& lane) {
    const auto recording = static_cast<std::uint32_t>(happened_.size());
    happened_.push_back(lane.items.empty());
    put(lane, {.kind = Item::Kind::records, .subject = recording});
    return recording;
  }

  void put(LaneQueue& lane, Item item) {
    lane.ends_with_transfer = false;
    if (item.kind == Item::Kind::records && happened_[item.subject]) return;
    lane.items.push_back(item);
  }

  template <class Arrive>
  void put_operation(LaneQueue& lane, std::uint32_t operation, const Arrive& arrive) {
    const std::uint32_t meeting = meeting_of_[operation];
    if (meeting == none) {
      lane.ends_with_transfer = false;
      return;
    }
    const OperationKind kind = schedule_.operations[operation].kind;
    const bool is_transfer = kind == OperationKind::send || kind == OperationKind::receive;
    if (!is_transfer || !lane.ends_with_transfer) ++lane.row;
    lane.ends_with_transfer = is_transfer;
    lane.items.push_back({.kind = Item::Kind::meets, .subject = meeting, .row = lane.row});
    if (lane.row == lane.arrived_row) arrive(meeting);
  }

  template <class Arrive>
  void act(const HostAction& action, const Arrive& arrive) {
    switch (action.kind) {
      case HostActionKind::launch:
        return put_operation(lanes_[action.lane], action.subject, arrive);
      case HostActionKind::run:
        put_operation(lanes_[action.lane], action.subject, arrive);
        awaited_ = record(lanes_[action.lane]);
        return;
      case HostActionKind::record_event:
        latest_[action.subject] = record(lanes_[action.lane]);
        return;
      case HostActionKind::wait_event:
        if (const std::uint32_t event = latest_[action.subject]; event != none && !happened_[event])
          put(lanes_[action.lane], {.kind = Item::Kind::waits, .subject = event});
        else
          lanes_[action.lane].ends_with_transfer = false;
        return;
      case HostActionKind::host_wait:
        awaited_ = latest_[action.subject];
        return;
      case HostActionKind::host_sync:
        awaited_ = record(lanes_[action.lane]);
        return;
      default:
        return;  // memory, and time of the host alone
    }
  }

  /// Whether anything went on.
  template <class Arrive, class IsOver>
  bool drain(const Arrive& arrive, const IsOver& is_over) {
    bool moved = false;
    for (LaneQueue& lane : lanes_) {
      while (!lane.items.empty()) {
        const Item front = lane.items.front();
        if (front.kind == Item::Kind::waits && !happened_[front.subject]) break;
        if (front.kind == Item::Kind::records) happened_[front.subject] = true;
        if (front.kind == Item::Kind::meets && !comes_through(lane, front, arrive, is_over)) break;
        lane.items.pop_front();
        moved = true;
      }
    }
    return moved;
  }

  template <class Arrive, class IsOver>
  bool comes_through(LaneQueue& lane, const Item& front, const Arrive& arrive,
                     const IsOver& is_over) {
    if (lane.arrived_row != front.row) {
      lane.arrived_row = front.row;
      for (const Item& item : lane.items) {
        if (item.kind != Item::Kind::meets || item.row != front.row) break;
        arrive(item.subject);
      }
    }
    return is_over(front.subject);
  }

  const Schedule& schedule_;
  std::vector<LaneQueue> lanes_;
  std::vector<std::uint32_t> latest_;  ///< by event of the program: its last recording
  std::vector<bool> happened_;         ///< by recording of an event
  std::vector<std::uint32_t> meeting_of_;
  std::uint32_t awaited_ = none;  ///< recording that the host waits for, or waited for
  std::uint32_t next_ = 0, end_ = 0;
};

class JointWalk {
 public:
  JointWalk(std::span<const Schedule> schedules, std::span<const RankMeeting> meetings)
      : meetings_(meetings), states_(meetings.size()) {
    for (const Schedule& schedule : schedules) ranks_.emplace_back(schedule);
    for (std::uint32_t i = 0; i < meetings.size(); ++i) {
      states_[i] = {.arrived = std::vector<bool>(meetings[i].present.size()),
                    .missing = meetings[i].present.size()};
      for (const RankOperation& own : meetings[i].present)
        ranks_[own.place].meet_in(own.operation, i);
    }
  }

  void play() {
    std::vector<std::size_t> ready;
    for (std::size_t place = 0; place < ranks_.size(); ++place) ready.push_back(place);
    while (!ready.empty()) {
      const std::size_t place = ready.back();
      ready.pop_back();
      const auto is_over = [&](std::uint32_t meeting) { return states_[meeting].missing == 0; };
      const auto arrive = [&](std::uint32_t meeting) {
        if (!come(place, meeting)) return;
        for (const RankOperation& own : meetings_[meeting].present)
          if (own.place != place) ready.push_back(own.place);
      };
      ranks_[place].go_on(arrive, is_over);
    }
  }

  std::optional<std::string> circle() const {
    const auto stuck =
        std::ranges::find_if(ranks_, [](const RankWalk& rank) { return !rank.has_ended(); });
    if (stuck == ranks_.end()) return std::nullopt;
    std::vector<std::size_t> way;
    std::vector<std::string> texts;
    auto place = static_cast<std::size_t>(stuck - ranks_.begin());
    for (std::uint32_t wanted = none; std::ranges::find(way, place) == way.end();) {
      const std::uint32_t meeting = ranks_[place].held_up_by(wanted);
      if (meeting == none) break;
      const std::size_t other = missing_of(meeting, place);
      way.push_back(place);
      texts.push_back(told(place, meeting, other));
      wanted = meeting;
      place = other;
    }
    if (texts.empty()) return fmt::format("rank {} never ends", stuck->schedule().rank);
    const auto circle = std::ranges::find(way, place);
    const auto lead_in = circle == way.end() ? 0 : circle - way.begin();
    return fmt::format("{}", fmt::join(texts.begin() + lead_in, texts.end(), ", "));
  }

 private:
  /// Whether the meeting takes place by it.
  bool come(std::size_t place, std::uint32_t meeting) {
    const std::vector<RankOperation>& present = meetings_[meeting].present;
    const auto own = static_cast<std::size_t>(
        std::ranges::find(present, place, &RankOperation::place) - present.begin());
    Meeting& state = states_[meeting];
    if (state.arrived[own]) return false;
    state.arrived[own] = true;
    return --state.missing == 0;
  }

  std::size_t missing_of(std::uint32_t meeting, std::size_t place) const {
    const std::vector<RankOperation>& present = meetings_[meeting].present;
    for (std::size_t i = 0; i < present.size(); ++i)
      if (!states_[meeting].arrived[i]) return present[i].place;
    return place;
  }

  std::string told(std::size_t place, std::uint32_t meeting, std::size_t other) const {
    const Schedule& schedule = ranks_[place].schedule();
    const std::vector<RankOperation>& present = meetings_[meeting].present;
    const auto own = std::ranges::find(present, place, &RankOperation::place);
    const Operation& operation = schedule.operations[own->operation];
    return fmt::format("rank {} waits in {} of step {} for rank {}", schedule.rank,
                       schedule.name(operation), operation.step + 1, ranks_[other].schedule().rank);
  }

  std::span<const RankMeeting> meetings_;
  std::vector<Meeting> states_;
  std::vector<RankWalk> ranks_;
};

}  // namespace

std::optional<std::string> endless_wait(std::span<const Schedule> schedules,
                                        std::span<const RankMeeting> meetings) {
  JointWalk walk(schedules, meetings);
  walk.play();
  return walk.circle();
}

}  // namespace shardscope
