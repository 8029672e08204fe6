#include "sim/allocator/device_events.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"

namespace shardscope {
namespace {

void raise_to(std::vector<std::uint32_t>& values, const std::vector<std::uint32_t>& others) {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::max(values[i], others[i]);
}

}  // namespace

DeviceStream device_stream(const Lane& lane, std::size_t index) {
  const bool pooled = lane.pool_place >= 0;
  const DeviceStream stream = pooled ? pool_stream(static_cast<std::uint32_t>(lane.pool_place), 0)
                                     : pool_stream(static_cast<std::uint32_t>(index), 2);
  if (index == 0) return default_stream;
  if (stream.value < max_device_streams) return stream;
  throw Error({.where = "schedule", .what = fmt::format("{} streams: too many", index + 1)});
}

HostBoundDevice::HostBoundDevice()
    : issued_(max_device_streams, Before(max_device_streams)), done_(max_device_streams) {}

DeviceEvent HostBoundDevice::record(DeviceStream stream) {
  const DeviceEvent event = DeviceEvent::of(events_.size());
  Before& before = issued_[stream.value];
  before[stream.value] = event.value + 1;
  events_.push_back({stream, before});
  return event;
}

bool HostBoundDevice::done(DeviceEvent event) {
  return event.value < done_[events_[event.value].stream.value];
}

void HostBoundDevice::wait(DeviceEvent event) { reached(events_[event.value].before); }

void HostBoundDevice::wait(DeviceStream stream) { reached(issued_[stream.value]); }

void HostBoundDevice::wait_all() {
  for (const Before& before : issued_) reached(before);
}

void HostBoundDevice::stream_waits(DeviceStream stream, DeviceEvent event) {
  raise_to(issued_[stream.value], events_[event.value].before);
}

void HostBoundDevice::reached(const Before& before) { raise_to(done_, before); }

}  // namespace shardscope
