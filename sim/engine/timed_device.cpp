#include "sim/engine/timed_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace shardscope {

TimedDevice::TimedDevice(const Schedule& schedule, const StepCosts& costs)
    : schedule_(schedule),
      costs_(costs),
      times_(costs.times.size()),
      engine_(costs, schedule.groups.size() + 1, times_) {}

std::uint8_t TimedDevice::lane_of(DeviceStream stream) {
  std::optional<std::uint8_t>& lane = lanes_[stream.value];
  if (!lane) lane = lanes_in_use_++;
  return *lane;
}

void TimedDevice::issue(DeviceStream stream, OperationId operation, bool on_host) {
  const Operation& op = schedule_.at(operation);
  in_backward_ = is_of_autograd(op);
  if (!op.issued_with_graph) host_ns_ += costs_.clock.launch_ns(in_backward_);
  LaneItem item{.share = share_of(op.kind),
                .copies = op.kind == OperationKind::copy,
                .on_host = on_host,
                .subject = operation.value,
                .group = channel_of(schedule_, op, costs_.clock.sharing)};
  if (item.share == Share::collective) item.turn = collectives_++;
  const std::uint8_t lane = lane_of(stream);
  if (peers_ != nullptr && (*peers_)[operation.value] != meets_nobody)
    come_to_meeting(lane, operation);
  else
    open_[lane].reset();
  engine_.issue(lane, item, host_ns_);
}

// Transfers of one ncclGroup begin in any order: between them nothing else is on the stream. A
// transfer of its own comes behind an event that its stream waits for.
void TimedDevice::come_to_meeting(std::uint8_t lane, OperationId operation) {
  const OperationKind kind = schedule_.at(operation).kind;
  const bool is_transfer = kind == OperationKind::send || kind == OperationKind::receive;
  std::optional<Arrival>& open = open_[lane];
  if (!is_transfer || !open) {
    open = Arrival{.event = engine_.new_event(), .host_ns = host_ns_};
    engine_.issue(lane, {.kind = LaneItem::Kind::record, .subject = open->event}, host_ns_);
  }
  arrivals_[operation.value] = *open;
  if (!is_transfer) open.reset();
  const std::uint32_t there = engine_.new_event_at(origin_ns_ + (*peers_)[operation.value].ns);
  engine_.issue(lane, {.kind = LaneItem::Kind::wait, .subject = there}, host_ns_);
}

void TimedDevice::meet_peers(const PeerArrivals& peers, Duration origin) {
  peers_ = &peers;
  origin_ns_ = origin.ns;
  arrivals_.resize(peers.size());
}

std::vector<Duration> TimedDevice::arrivals() const {
  std::vector<Duration> times(arrivals_.size());
  for (std::size_t i = 0; i < times.size(); ++i)
    if (const std::optional<Arrival>& one = arrivals_[i])
      times[i] = {std::max(engine_.event_ns(one->event), one->host_ns) - origin_ns_};
  return times;
}

Duration TimedDevice::come_to_rest() {
  finish();
  host_ns_ = std::max(host_ns_, engine_.last_end_ns());
  return {host_ns_};
}

void TimedDevice::launch(DeviceStream stream, OperationId operation) {
  issue(stream, operation, false);
}

void TimedDevice::run(DeviceStream stream, OperationId operation) {
  issue(stream, operation, true);
  host_ns_ = std::max(host_ns_, happens_ns(record(stream)));
}

void TimedDevice::hook() {
  const std::int64_t begin_ns = std::exchange(host_ns_, host_ns_ + costs_.clock.hook.ns);
  if (host_ns_ == begin_ns) return;
  const bool goes_on =
      !host_times_.empty() && !host_times_.back().waits && host_times_.back().end.ns == begin_ns;
  if (goes_on)
    host_times_.back().end.ns = host_ns_;
  else
    host_times_.push_back({.waits = false, .begin = {begin_ns}, .end = {host_ns_}});
}

DeviceEvent TimedDevice::record(DeviceStream stream) {
  const DeviceEvent event{engine_.new_event()};
  const std::uint8_t lane = lane_of(stream);
  open_[lane].reset();
  engine_.issue(lane, {.kind = LaneItem::Kind::record, .subject = event.value}, host_ns_);
  return event;
}

void TimedDevice::stream_waits(DeviceStream stream, DeviceEvent event) {
  const std::uint8_t lane = lane_of(stream);
  open_[lane].reset();
  engine_.issue(lane, {.kind = LaneItem::Kind::wait, .subject = event.value}, host_ns_);
}

bool TimedDevice::done(DeviceEvent event) {
  if (!engine_.has_happened(event.value)) engine_.run_until(host_ns_);
  return engine_.event_ns(event.value) <= host_ns_;
}

std::int64_t TimedDevice::happens_ns(DeviceEvent event) {
  if (!engine_.has_happened(event.value) && !engine_.run_until_happened(event.value))
    throw Error({.where = "simulation",
                 .what = fmt::format("event {} is waited for and never recorded", event.value)});
  return engine_.event_ns(event.value);
}

void TimedDevice::wait(DeviceEvent event) {
  const std::int64_t end_ns = happens_ns(event);
  if (end_ns <= host_ns_) return;
  host_times_.push_back({.waits = true, .begin = {host_ns_}, .end = {end_ns}});
  host_ns_ = end_ns;
}

void TimedDevice::wait(DeviceStream stream) { wait(record(stream)); }

void TimedDevice::finish() { engine_.finish(); }

}  // namespace shardscope
