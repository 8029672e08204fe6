#include "sim/engine/timed_device.h"

#include <fmt/format.h>

#include <algorithm>

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
  host_ns_ += costs_.clock.launch.ns;
  const Operation& op = schedule_.at(operation);
  LaneItem item{.share = share_of(op.kind),
                .copies = op.kind == OperationKind::copy,
                .on_host = on_host,
                .subject = operation.value,
                .group = channel_of(schedule_, op, costs_.clock.sharing)};
  if (item.share == Share::collective) item.turn = collectives_++;
  engine_.issue(lane_of(stream), item, host_ns_);
}

void TimedDevice::launch(DeviceStream stream, OperationId operation) {
  issue(stream, operation, false);
}

void TimedDevice::run(DeviceStream stream, OperationId operation) {
  issue(stream, operation, true);
  host_ns_ = std::max(host_ns_, happens_ns(record(stream)));
}

DeviceEvent TimedDevice::record(DeviceStream stream) {
  const DeviceEvent event{engine_.new_event()};
  engine_.issue(lane_of(stream), {.kind = LaneItem::Kind::record, .subject = event.value},
                host_ns_);
  return event;
}

void TimedDevice::stream_waits(DeviceStream stream, DeviceEvent event) {
  engine_.issue(lane_of(stream), {.kind = LaneItem::Kind::wait, .subject = event.value}, host_ns_);
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
  host_waits_.push_back({{host_ns_}, {end_ns}});
  host_ns_ = end_ns;
}

void TimedDevice::wait(DeviceStream stream) { wait(record(stream)); }

void TimedDevice::finish() { engine_.finish(); }

}  // namespace shardscope
