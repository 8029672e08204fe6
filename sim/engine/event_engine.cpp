#include "sim/engine/event_engine.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace shardscope {
namespace {

using Kind = LaneItem::Kind;

constexpr std::size_t compute_bit = 1, communication_bit = 2, copy_bit = 4;

}  // namespace

DeviceClockOptions with_host_times(DeviceClockOptions clock, double factor, double of_hooks) {
  for (Duration* time :
       {&clock.launch, &clock.dispatch, &clock.backward_launch, &clock.backward_dispatch})
    *time = Duration::from_seconds(time->seconds() * factor);
  clock.hook = Duration::from_seconds(clock.hook.seconds() * of_hooks);
  return clock;
}

EventEngine::EventEngine(const StepCosts& costs, std::size_t groups, std::size_t devices)
    : costs_(costs),
      straggles_(!costs.straggling.empty()),
      notes_times_(straggles_),
      straggling_(costs.straggling),
      by_group_(costs.clock.sharing.communicators_apart),
      devices_(devices, {.sharing = Sharing(costs.clock.sharing),
                         .load = {},
                         .channels = std::vector<Channel>(by_group_ ? groups : 1)}) {
  slowed_times_.reserve(costs.times.size());
  for (const Duration time : costs.times)
    slowed_times_.push_back({slowed(time.ns, costs.clock.sharing.compute_slowdown)});
}

EventEngine::EventEngine(const StepProgram& program, const StepCosts& costs, int repetitions)
    : EventEngine(costs, program.collectives_of_group.size(), 1) {
  repetitions_ = static_cast<std::size_t>(repetitions);
  segments_ = program.segments.size();
  events_ = program.events;
  collectives_ = program.collectives;
  collectives_of_group_ = program.collectives_of_group;
  event_ns_.assign(events_ * repetitions_, never_ns);
  issued_from_.reserve(segments_ * repetitions_);
  ends_.resize(repetitions_);
  lanes_.reserve(program.lanes.size());
  next_ns_.reserve(program.lanes.size());
  for (const IndexRange& range : program.lanes)
    add_lane(std::span(program.items).subspan(range.begin, range.size()));
}

EventEngine::EventEngine(const StepCosts& costs, std::size_t groups, OperationMoments& recorded,
                         std::size_t devices)
    : EventEngine(costs, groups, devices) {
  recorded_ = &recorded;
  notes_times_ = true;
  grows_ = true;
  ends_.resize(1);
}

void EventEngine::add_lane(std::span<const LaneItem> items) {
  LaneState lane{.items = items.data(), .count = static_cast<std::uint32_t>(items.size())};
  std::uint32_t end = lane.count;
  while (end > 0 && items[end - 1].kind != Kind::operation) --end;
  lane.last_operation = end - 1;
  lanes_.push_back(lane);
  next_ns_.push_back(never_ns);
}

// The host.

void EventEngine::issue_segment(std::int64_t host_ns) {
  issued_from_.push_back(host_ns);
  if (straggles_) straggle_ns_.push_back(straggling_.wait().ns);
  settled_ = false;
}

std::size_t EventEngine::new_lane(std::size_t device) {
  add_lane({});
  lanes_.back().device = static_cast<std::uint16_t>(device);
  return lanes_.size() - 1;
}

void EventEngine::issue(std::size_t lane, LaneItem item, std::int64_t host_ns) {
  item.segment = static_cast<std::uint32_t>(issued_from_.size());
  while (lanes_.size() <= lane) add_lane({});
  if (item.share == Share::collective) item.turn_in_group = channel_of(lanes_[lane], item).issued++;
  grown_.resize(lanes_.size());
  grown_[lane].push_back(item);
  lanes_[lane].items = grown_[lane].data();
  lanes_[lane].count = static_cast<std::uint32_t>(grown_[lane].size());
  if (item.kind == Kind::operation) recorded_->issued[item.subject] = {host_ns};
  issue_segment(host_ns);
}

std::uint32_t EventEngine::new_event() {
  event_ns_.push_back(never_ns);
  return static_cast<std::uint32_t>(event_ns_.size() - 1);
}

std::uint32_t EventEngine::new_event_at(std::int64_t ns) {
  const std::uint32_t event = new_event();
  event_ns_[event] = ns;
  return event;
}

void EventEngine::settle() {
  if (std::exchange(settled_, true)) return;
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane)
    if (lanes_[lane].waits_for_host) pass(lane);
}

void EventEngine::run_until(std::int64_t limit_ns) {
  settle();
  while (advance(limit_ns)) {
  }
}

bool EventEngine::run_until_happened(std::size_t event) {
  settle();
  while (!has_happened(event))
    if (!advance(never_ns - 1)) return false;
  return true;
}

void EventEngine::finish() {
  run_until(never_ns - 1);
  const bool all =
      std::ranges::all_of(lanes_, [](const LaneState& lane) { return lane.state == State::ended; });
  if (!grows_ && !all)
    throw Error(
        {.where = "simulation", .what = "operations wait for operations that wait for them"});
}

Accounting EventEngine::accounting(std::size_t repetition) const {
  const BusyNs& at_end = ends_[repetition].busy;
  const BusyNs at_begin = repetition == 0 ? BusyNs{} : ends_[repetition - 1].busy;
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

// Lanes.

/// Up to the next operation, or to what the lane has to wait for.
void EventEngine::pass(std::size_t index) {
  LaneState& lane = lanes_[index];
  lane.waits_for = no_event;
  lane.waits_for_host = lane.waits_for_turn = false;
  lane.state = State::blocked;
  next_ns_[index] = never_ns;
  while (true) {
    if (lane.at == lane.count) {
      if (grows_) {
        lane.waits_for_host = true;
        return;
      }
      lane.at = 0;
      if (++lane.repetition == repetitions_) {
        lane.state = State::ended;
        return;
      }
    }
    const LaneItem& item = lane.items[lane.at];
    lane.waits_for_host = segment_of(lane, item) >= issued_from_.size();
    if (lane.waits_for_host) return;
    if (item.kind == Kind::operation) return get_ready(index, item);
    const bool previous = item.kind == Kind::wait_previous;
    ++lane.at;
    if (previous && lane.repetition == 0) continue;
    const std::size_t event = (lane.repetition - (previous ? 1 : 0)) * events_ + item.subject;
    if (item.kind == Kind::record) {
      record(event, lane.free_ns);
    } else {
      if (event_ns_[event] == never_ns) {
        --lane.at;
        lane.waits_for = event;
        return;
      }
      lane.free_ns = std::max(lane.free_ns, event_ns_[event]);
    }
  }
}

void EventEngine::record(std::size_t event, std::int64_t ns) {
  event_ns_[event] = ns;
  for (std::size_t other = 0; other < lanes_.size(); ++other)
    if (lanes_[other].waits_for == event) pass(other);
}

/// Counted over all repetitions.
std::uint64_t EventEngine::turn_of(const LaneState& lane, const LaneItem& item) const {
  if (grows_) return item.turn_in_group;
  return by_group_ ? lane.repetition * std::uint64_t{collectives_of_group_[item.group]} +
                         item.turn_in_group
                   : lane.repetition * std::uint64_t{collectives_} + item.turn;
}

LinkUse EventEngine::use_of(const LaneItem& item) const {
  const bool uses = item.share == Share::collective && !costs_.uses.empty();
  return uses ? costs_.uses[item.subject] : LinkUse{};
}

/// When the last rank has come to an operation.
std::int64_t EventEngine::ranks_there_ns(const LaneState& lane, const LaneItem& item) const {
  if (!straggles_ || item.share != Share::collective) return 0;
  return issued_ns(lane, item) + straggle_ns_[segment_of(lane, item)];
}

/// Whether this rank is the last to come: ranks take turns. It has computed until then, so that the
/// collective takes its core between two kernels; of other ranks it interrupts one.
bool EventEngine::comes_last(const LaneItem& item) const {
  const auto ranks = static_cast<std::uint32_t>(costs_.straggling_ranks);
  return straggles_ && ranks > 1 && item.turn % ranks == ranks - 1;
}

void EventEngine::get_ready(std::size_t index, const LaneItem& item) {
  LaneState& lane = lanes_[index];
  const std::int64_t issued = issued_ns(lane, item);
  std::int64_t ready_ns = std::max(lane.free_ns, issued);
  if (takes_turns(item)) {
    const Channel& channel = channel_of(lane, item);
    lane.waits_for_turn = channel.turn != turn_of(lane, item);
    if (lane.waits_for_turn) return;
    ready_ns = std::max(ready_ns, channel.free_ns);
  }
  // Ranks meet where the thread that computes has to wait for a collective.
  if (straggles_ && item.on_host && lane.free_ns > issued) straggling_.meet();
  lane.state = State::ready;
  lane.share = item.share;
  next_ns_[index] = ready_ns;
}

bool EventEngine::core_is_taken(const LaneState& lane) {
  return costs_.clock.sharing.compute_waits && lane.share == Share::compute &&
         device_of(lane).sharing.runs(Share::collective);
}

/// Counts the devices that compute: whether kernels get another share of the host's cores. Where
/// collectives need the cores that compute, these keep them busy as well.
bool EventEngine::share_cores() {
  const std::vector<double>& factors = costs_.core_sharing;
  if (factors.empty()) return false;
  const auto busy = std::ranges::count_if(devices_, [&](const DeviceState& device) {
    return device.sharing.runs(Share::compute) ||
           (costs_.clock.sharing.compute_waits && device.sharing.runs(Share::collective));
  });
  const auto known = std::min(static_cast<std::size_t>(busy), factors.size());
  const double factor = known == 0 ? 1 : factors[known - 1];
  return std::exchange(core_factor_, factor) != factor;
}

/// The last collective of a device has ended.
void EventEngine::give_core(const DeviceState& device) {
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane)
    if (lanes_[lane].state == State::awaits_core && &device_of(lanes_[lane]) == &device)
      next_ns_[lane] = now_ns_;
}

/// A collective takes the core: kernels stand still until it is given back. They are taken to have
/// started so much later, because nothing of them runs in this time.
void EventEngine::hold_kernels(DeviceState& device) {
  for (std::size_t index = 0; index < lanes_.size(); ++index) {
    LaneState& lane = lanes_[index];
    const bool runs = lane.state == State::runs && lane.share == Share::compute;
    if (!runs || &device_of(lane) != &device) continue;
    lane.left_ns -= static_cast<double>(now_ns_ - lane.since_ns) / lane.slowdown;
    lane.since_ns = now_ns_;
    lane.state = State::awaits_core;
    lane.held = true;
    next_ns_[index] = never_ns;
    device.sharing.end(Share::compute);
  }
}

void EventEngine::start(std::size_t index) {
  LaneState& lane = lanes_[index];
  if (core_is_taken(lane)) {
    lane.state = State::awaits_core;
    next_ns_[index] = never_ns;
    return;
  }
  if (lane.state == State::awaits_ranks) {
    --device_of(lane).awaiting;
    return run(index);
  }
  if (lane.held) return run(index);
  lane.start_ns = now_ns_;
  const std::int64_t there_ns = ranks_there_ns(lane, lane.items[lane.at]);
  if (there_ns <= now_ns_) return run(index);
  ++device_of(lane).awaiting;
  lane.state = State::awaits_ranks;
  next_ns_[index] = there_ns;
}

void EventEngine::run(std::size_t index) {
  LaneState& lane = lanes_[index];
  const LaneItem& item = lane.items[lane.at];
  lane.state = State::runs;
  const std::int64_t stood_ns = now_ns_ - std::exchange(lane.since_ns, now_ns_);
  DeviceState& device = device_of(lane);
  device.sharing.begin(lane.share, use_of(item));
  if (std::exchange(lane.held, false)) {
    lane.start_ns += stood_ns;
    return;
  }
  lane.left_ns = static_cast<double>(time_ns(item));
  device.copies += item.copies;
  const bool takes_core = costs_.clock.sharing.compute_waits && lane.share == Share::collective;
  if (takes_core && comes_last(item)) hold_kernels(device);
}

/// The end as it is when nothing else starts or ends before.
void EventEngine::set_pace(std::size_t index) {
  LaneState& lane = lanes_[index];
  lane.slowdown = device_of(lane).sharing.slowdown(lane.share);
  if (lane.share == Share::compute) lane.slowdown *= core_factor_;
  next_ns_[index] = lane.since_ns + remaining_ns(lane.left_ns, lane.slowdown);
}

void EventEngine::change_pace(std::size_t index) {
  LaneState& lane = lanes_[index];
  if (lane.since_ns != now_ns_) {
    lane.left_ns -= static_cast<double>(now_ns_ - lane.since_ns) / lane.slowdown;
    lane.since_ns = now_ns_;
  }
  set_pace(index);
}

void EventEngine::note_times(Share share, const LaneItem& item, Duration start, Duration end) {
  if (straggles_ && share == Share::compute) straggling_.computed(end - start);
  if (recorded_ == nullptr) return;
  recorded_->start[item.subject] = start;
  recorded_->end[item.subject] = end;
}

void EventEngine::end(std::size_t index) {
  LaneState& lane = lanes_[index];
  const LaneItem& item = lane.items[lane.at];
  DeviceState& device = device_of(lane);
  device.sharing.end(lane.share, use_of(item));
  device.copies -= item.copies;
  if (costs_.clock.sharing.compute_waits && !device.sharing.runs(Share::collective))
    give_core(device);
  lane.free_ns = last_end_ns_ = now_ns_;
  if (notes_times_) note_times(lane.share, item, {lane.start_ns}, {now_ns_});
  if (lane.at == lane.last_operation && now_ns_ >= ends_[lane.repetition].ns)
    ends_[lane.repetition] = {now_ns_, devices_.front().busy_ns};
  ++lane.at;
  const bool passes_turn = takes_turns(item);
  if (passes_turn) {
    Channel& channel = channel_of(lane, item);
    ++channel.turn;
    channel.free_ns = now_ns_;
  }
  pass(index);
  if (!passes_turn) return;
  for (std::size_t other = 0; other < lanes_.size(); ++other)
    if (lanes_[other].waits_for_turn) pass(other);
}

// The clock.

void EventEngine::go_to(std::int64_t next_ns) {
  for (DeviceState& device : devices_) {
    const bool communicates = device.sharing.runs(Share::collective) || device.awaiting > 0;
    const std::size_t busy = (device.sharing.runs(Share::compute) ? compute_bit : 0) |
                             (communicates ? communication_bit : 0) |
                             (device.copies > 0 ? copy_bit : 0);
    device.busy_ns[busy] += next_ns - now_ns_;
  }
  now_ns_ = next_ns;
}

/// While nothing else happens, operations of the first lane follow each other.
void EventEngine::run_ahead(std::size_t index, std::int64_t bound_ns) {
  LaneState& lane = lanes_[index];
  const std::span<const std::int64_t> issued_from =
      std::span(issued_from_).subspan(lane.repetition * segments_);
  const DeviceClockOptions clock = costs_.clock;
  const Share share = lane.share;
  const std::span<const Duration> times =
      device_of(lane).sharing.slowdown(share) == 1 ? costs_.times : slowed_times_;
  const double core_factor = core_factor_;
  const bool notes_times = notes_times_;
  const LaneItem* item = lane.items + lane.at;
  const LaneItem* const last = lane.items + lane.count - 1;
  std::int64_t start_ns = lane.start_ns, end_ns = next_ns_[index];
  while (end_ns < bound_ns && item != last) {
    const LaneItem& next = item[1];
    const bool follows = next.kind == Kind::operation && next.share == share &&
                         next.segment < issued_from.size() &&
                         issued_from[next.segment] + clock.host_ns(next.host) <= end_ns;
    if (!follows) break;
    if (notes_times) note_times(share, *item, {start_ns}, {end_ns});
    item = &next;
    start_ns = end_ns;
    end_ns += slowed(times[next.subject].ns, core_factor);
  }
  if (item == lane.items + lane.at) return;
  lane.at = static_cast<std::uint32_t>(item - lane.items);
  lane.start_ns = lane.since_ns = start_ns;
  lane.left_ns = static_cast<double>(time_ns(*item));
  next_ns_[index] = end_ns;
}

/// To the next moment up to the limit at which anything starts or ends: whether there is one.
bool EventEngine::advance(std::int64_t limit_ns) {
  if (lanes_.empty()) return false;
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
  if (next_ns_[first] > limit_ns) return false;
  if (lanes_[first].state == State::runs && lanes_[first].share == Share::compute &&
      !core_is_taken(lanes_[first]))
    run_ahead(first, std::min(second_ns, limit_ns + 1));
  const std::int64_t next_ns = std::min(next_ns_[first], second_ns);
  if (next_ns > limit_ns) return false;
  happen(next_ns);
  return true;
}

/// Kernels last: a collective goes before a kernel that could start at the same moment.
void EventEngine::start_ready() {
  bool kernels = false;
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    if (next_ns_[lane] > now_ns_ || lanes_[lane].state == State::runs) continue;
    if (lanes_[lane].share == Share::compute)
      kernels = true;
    else
      start(lane);
  }
  for (std::size_t lane = 0; kernels && lane < lanes_.size(); ++lane)
    if (next_ns_[lane] <= now_ns_ && lanes_[lane].state != State::runs &&
        lanes_[lane].share == Share::compute)
      start(lane);
}

void EventEngine::happen(std::int64_t next_ns) {
  go_to(next_ns);
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane)
    if (next_ns_[lane] == now_ns_ && lanes_[lane].state == State::runs) end(lane);
  start_ready();
  for (DeviceState& device : devices_) {
    const Sharing::Load before = std::exchange(device.load, device.sharing.load());
    device.changes = device.load != before;
  }
  const bool cores_change = share_cores();
  // Once all have started: what starts at the same moment slows each other from the beginning.
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane)
    if (lanes_[lane].state == State::runs &&
        (cores_change || device_of(lanes_[lane]).changes || lanes_[lane].since_ns == now_ns_))
      change_pace(lane);
}

}  // namespace shardscope
