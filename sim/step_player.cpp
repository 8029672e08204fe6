#include "sim/step_player.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "sim/simulate_program.h"

namespace shardscope {
namespace {

using Kind = LaneItem::Kind;

constexpr std::int64_t never_ns = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t nothing = ~std::size_t{0};

/// What is busy, as bits of an index into a table of times.
constexpr std::size_t compute_bit = 1, communication_bit = 2, copy_bit = 4;
using BusyNs = std::array<std::int64_t, 8>;

Accounting accounting_of(const BusyNs& at_end, const BusyNs& at_begin) {
  Accounting sum;
  for (std::size_t busy = 0; busy < at_end.size(); ++busy) {
    const Duration time{at_end[busy] - at_begin[busy]};
    sum.span += time;
    if (busy & compute_bit)
      sum.compute += time;
    else if (busy & communication_bit)
      sum.exposed_communication += time;
    else if (busy & copy_bit)
      sum.exposed_copy += time;
    else
      sum.idle += time;
    if (busy & communication_bit) sum.communication += time;
    if ((busy & compute_bit) && (busy & communication_bit)) sum.overlap += time;
  }
  return sum;
}

class Player {
 public:
  Player(const StepProgram& program, const StepCosts& costs, int repetitions)
      : program_(program),
        costs_(costs),
        repetitions_(static_cast<std::uint32_t>(repetitions)),
        sharing_(costs.clock.sharing),
        by_group_(costs.clock.sharing.communicators_apart),
        channels_(by_group_ ? program.collectives_of_group.size() : 1),
        event_ns_(std::size_t{program.events} * repetitions_, never_ns),
        ends_(repetitions_) {
    issued_from_.reserve(program.segments.size() * repetitions_);
    for (const IndexRange& items : program.lanes) add_lane(items);
  }

  StepTimes play() {
    issued_from_.push_back(0);
    issue_on();
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) pass(lane);
    while (advance()) {
    }
    check_all_ended();
    StepTimes result;
    for (const Ended& ended : ends_) result.ends.push_back({ended.ns});
    const BusyNs before = repetitions_ > 1 ? ends_[repetitions_ - 2].busy : BusyNs{};
    result.accounting = accounting_of(ends_.back().busy, before);
    return result;
  }

 private:
  enum class State : std::uint8_t { blocked, ready, runs, ended };
  struct Lane {
    IndexRange items;
    std::uint32_t at = 0;
    std::uint32_t last_operation = 0;
    std::uint32_t repetition = 0;
    State state = State::blocked;
    Share share = Share::alone;  // of the operation at hand
    bool waits_for_host = false;
    bool waits_for_turn = false;
    std::size_t waits_for = nothing;  // event
    std::int64_t free_ns = 0;         // when all before `at` has ended
    std::int64_t since_ns = 0;        // since when `left_ns` counts
    double left_ns = 0;               // at full speed
    double slowdown = 1;
  };
  struct Ended {
    std::int64_t ns = 0;
    BusyNs busy{};
  };

  void add_lane(const IndexRange& items) {
    Lane lane{.items = items, .at = items.begin, .last_operation = items.end};
    for (std::uint32_t i = items.begin; i < items.end; ++i)
      if (program_.items[i].kind == Kind::operation) lane.last_operation = i;
    lanes_.push_back(lane);
    next_ns_.push_back(never_ns);
  }

  const LaneItem& item_of(const Lane& lane) const { return program_.items[lane.at]; }

  std::int64_t time_ns(const LaneItem& item) const { return costs_.times[item.subject].ns; }

  // The host.

  std::int64_t work_ns(std::uint32_t launches, std::uint32_t dispatches) const {
    return launches * costs_.clock.launch.ns + dispatches * costs_.clock.dispatch.ns;
  }

  std::size_t segment_of(const Lane& lane, const LaneItem& item) const {
    return lane.repetition * program_.segments.size() + item.segment;
  }

  std::int64_t issued_ns(const Lane& lane, const LaneItem& item) const {
    return issued_from_[segment_of(lane, item)] + work_ns(item.launches, item.dispatches);
  }

  /// The host goes on as far as it does not have to wait.
  void issue_on() {
    const std::size_t count = program_.segments.size();
    while (issued_from_.size() < count * repetitions_) {
      const std::size_t last = issued_from_.size() - 1;
      const HostSegment& segment = program_.segments[last % count];
      std::int64_t host_ns = issued_from_.back() + work_ns(segment.launches, segment.dispatches);
      if (segment.event != HostSegment::no_event) {
        const std::size_t event = event_in(last / count, segment.event, segment.previous);
        host_waits_for_ = event != nothing && event_ns_[event] == never_ns ? event : nothing;
        if (host_waits_for_ != nothing) return;
        if (event != nothing) host_ns = std::max(host_ns, event_ns_[event]);
      }
      issued_from_.push_back(host_ns);
    }
  }

  // Events.

  /// Nothing: before the first repetition.
  std::size_t event_in(std::size_t repetition, std::uint32_t number, bool previous) const {
    if (!previous) return repetition * program_.events + number;
    return repetition == 0 ? nothing : (repetition - 1) * program_.events + number;
  }

  void record(std::size_t event, std::int64_t ns) {
    event_ns_[event] = ns;
    for (std::size_t other = 0; other < lanes_.size(); ++other)
      if (lanes_[other].waits_for == event) pass(other);
    if (host_waits_for_ != event) return;
    issue_on();
    for (std::size_t other = 0; other < lanes_.size(); ++other)
      if (lanes_[other].waits_for_host) pass(other);
  }

  // Lanes.

  /// Up to the next operation, or to what the lane has to wait for.
  void pass(std::size_t index) {
    Lane& lane = lanes_[index];
    lane.waits_for = nothing;
    lane.waits_for_host = lane.waits_for_turn = false;
    lane.state = State::blocked;
    next_ns_[index] = never_ns;
    while (true) {
      if (lane.at == lane.items.end) {
        lane.at = lane.items.begin;
        if (++lane.repetition == repetitions_) {
          lane.state = State::ended;
          return;
        }
      }
      const LaneItem& item = item_of(lane);
      lane.waits_for_host = segment_of(lane, item) >= issued_from_.size();
      if (lane.waits_for_host) return;
      if (item.kind == Kind::operation) return get_ready(index, item);
      const std::size_t event =
          event_in(lane.repetition, item.subject, item.kind == Kind::wait_previous);
      ++lane.at;
      if (item.kind == Kind::record) {
        record(event, lane.free_ns);
      } else if (event != nothing) {
        if (event_ns_[event] == never_ns) {
          --lane.at;
          lane.waits_for = event;
          return;
        }
        lane.free_ns = std::max(lane.free_ns, event_ns_[event]);
      }
    }
  }

  bool takes_turns(const LaneItem& item) const {
    return item.share == Share::collective && costs_.clock.sharing.collectives_serial;
  }

  /// Collectives that run one after the other.
  struct Channel {
    std::uint64_t turn = 0;
    std::int64_t free_ns = 0;
  };
  Channel& channel_of(const LaneItem& item) { return channels_[by_group_ ? item.group : 0]; }

  /// Counted over all repetitions.
  std::uint64_t turn_of(const Lane& lane, const LaneItem& item) const {
    return by_group_ ? lane.repetition * std::uint64_t{program_.collectives_of_group[item.group]} +
                           item.turn_in_group
                     : lane.repetition * std::uint64_t{program_.collectives} + item.turn;
  }

  LinkUse use_of(const LaneItem& item) const {
    const bool uses = item.share == Share::collective && !costs_.uses.empty();
    return uses ? costs_.uses[item.subject] : LinkUse{};
  }

  void get_ready(std::size_t index, const LaneItem& item) {
    Lane& lane = lanes_[index];
    std::int64_t ready_ns = std::max(lane.free_ns, issued_ns(lane, item));
    if (takes_turns(item)) {
      const Channel& channel = channel_of(item);
      lane.waits_for_turn = channel.turn != turn_of(lane, item);
      if (lane.waits_for_turn) return;
      ready_ns = std::max(ready_ns, channel.free_ns);
    }
    lane.state = State::ready;
    lane.share = item.share;
    next_ns_[index] = ready_ns;
  }

  void start(std::size_t index) {
    Lane& lane = lanes_[index];
    const LaneItem& item = item_of(lane);
    lane.state = State::runs;
    lane.since_ns = now_ns_;
    lane.left_ns = static_cast<double>(time_ns(item));
    sharing_.begin(lane.share, use_of(item));
    copies_ += item.copies;
    set_pace(index);
  }

  /// The end as it is when nothing else starts or ends before.
  void set_pace(std::size_t index) {
    Lane& lane = lanes_[index];
    lane.slowdown = sharing_.slowdown(lane.share);
    next_ns_[index] = lane.since_ns + remaining_ns(lane.left_ns, lane.slowdown);
  }

  void change_pace(std::size_t index) {
    Lane& lane = lanes_[index];
    lane.left_ns -= static_cast<double>(now_ns_ - lane.since_ns) / lane.slowdown;
    lane.since_ns = now_ns_;
    set_pace(index);
  }

  void end(std::size_t index) {
    Lane& lane = lanes_[index];
    const LaneItem& item = item_of(lane);
    sharing_.end(lane.share, use_of(item));
    copies_ -= item.copies;
    lane.free_ns = now_ns_;
    if (lane.at == lane.last_operation) note_end(lane.repetition);
    ++lane.at;
    const bool passes_turn = takes_turns(item);
    if (passes_turn) {
      Channel& channel = channel_of(item);
      ++channel.turn;
      channel.free_ns = now_ns_;
    }
    pass(index);
    if (!passes_turn) return;
    for (std::size_t other = 0; other < lanes_.size(); ++other)
      if (lanes_[other].waits_for_turn) pass(other);
  }

  void note_end(std::uint32_t repetition) {
    Ended& ended = ends_[repetition];
    if (now_ns_ >= ended.ns) ended = {now_ns_, busy_ns_};
  }

  // The clock.

  void go_to(std::int64_t next_ns) {
    const std::size_t busy = (sharing_.runs(Share::compute) ? compute_bit : 0) |
                             (sharing_.runs(Share::collective) ? communication_bit : 0) |
                             (copies_ > 0 ? copy_bit : 0);
    busy_ns_[busy] += next_ns - now_ns_;
    now_ns_ = next_ns;
  }

  /// While nothing else happens, operations of the first lane follow each other.
  void run_ahead(std::size_t index, std::int64_t limit_ns) {
    Lane& lane = lanes_[index];
    std::int64_t end_ns = next_ns_[index];
    while (end_ns < limit_ns && lane.at + 1 < lane.items.end) {
      const LaneItem& next = program_.items[lane.at + 1];
      const bool follows = next.kind == Kind::operation && next.share == lane.share &&
                           segment_of(lane, next) < issued_from_.size() &&
                           issued_ns(lane, next) <= end_ns;
      if (!follows) break;
      ++lane.at;
      lane.since_ns = end_ns;
      lane.left_ns = static_cast<double>(time_ns(next));
      end_ns += remaining_ns(lane.left_ns, lane.slowdown);
    }
    next_ns_[index] = end_ns;
  }

  /// To the next moment at which anything starts or ends: whether there is one.
  bool advance() {
    std::size_t first = 0;
    std::int64_t second_ns = never_ns;
    for (std::size_t lane = 1; lane < lanes_.size(); ++lane) {
      if (next_ns_[lane] < next_ns_[first]) {
        second_ns = next_ns_[first];
        first = lane;
      } else {
        second_ns = std::min(second_ns, next_ns_[lane]);
      }
    }
    if (next_ns_[first] == never_ns) return false;
    if (lanes_[first].state == State::runs && lanes_[first].share == Share::compute)
      run_ahead(first, second_ns);
    happen(std::min(next_ns_[first], second_ns));
    return true;
  }

  void happen(std::int64_t next_ns) {
    go_to(next_ns);
    const bool computed = sharing_.runs(Share::compute);
    const bool communicated = sharing_.runs(Share::collective);
    const double links = sharing_.links();
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane)
      if (lanes_[lane].state == State::runs && next_ns_[lane] == now_ns_) end(lane);
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane)
      if (lanes_[lane].state == State::ready && next_ns_[lane] <= now_ns_) start(lane);
    if (sharing_.runs(Share::compute) == computed &&
        sharing_.runs(Share::collective) == communicated && sharing_.links() == links)
      return;
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane)
      if (lanes_[lane].state == State::runs) change_pace(lane);
  }

  void check_all_ended() const {
    const bool all =
        std::ranges::all_of(lanes_, [](const Lane& lane) { return lane.state == State::ended; });
    if (!all)
      throw Error(
          {.where = "simulation", .what = "operations wait for operations that wait for them"});
  }

  const StepProgram& program_;
  const StepCosts& costs_;
  std::uint32_t repetitions_;
  Sharing sharing_;
  bool by_group_;
  std::vector<Channel> channels_;
  std::vector<Lane> lanes_;
  std::vector<std::int64_t> next_ns_;      // by lane: end of what runs, start of what is ready
  std::vector<std::int64_t> event_ns_;     // by repetition, event
  std::vector<std::int64_t> issued_from_;  // by repetition, segment of the host's work
  std::vector<Ended> ends_;                // by repetition
  std::size_t host_waits_for_ = nothing;
  std::int64_t now_ns_ = 0;
  int copies_ = 0;
  BusyNs busy_ns_{};
};

}  // namespace

StepCosts step_costs(const Schedule& schedule, const StepProgram& program, const CostModel& model,
                     const HardwareProfile& profile) {
  StepCosts costs{.times = {}, .clock = clock_options(profile)};
  costs.times.reserve(program.examples.size());
  for (const OperationId example : program.examples)
    costs.times.push_back(operation_time(schedule, schedule.at(example), model));
  const auto idle = std::ranges::count(program.collectives_of_group, 0U);
  const bool alone = std::ssize(program.collectives_of_group) - idle < 2;
  if (alone || !costs.clock.sharing.communicators_apart) return costs;
  for (const OperationId example : program.examples)
    costs.uses.push_back(link_use(schedule, schedule.at(example), model));
  return costs;
}

StepTimes play(const StepProgram& program, const StepCosts& costs, int repetitions) {
  return Player(program, costs, repetitions).play();
}

StepTimes play_until_steady(const StepProgram& program, const StepCosts& costs) {
  constexpr int most_repetitions = 24;
  for (int repetitions = steps_to_steady;; repetitions *= 2) {
    StepTimes times = play(program, costs, repetitions);
    const Duration last = times.accounting.span;
    const Duration before = times.ends.end()[-2] - times.ends.end()[-3];
    const double change = std::abs((last - before).seconds());
    if (change <= 1e-5 * last.seconds() || repetitions >= most_repetitions) return times;
  }
}

}  // namespace shardscope
