// TimedDevice: streams of a device and the host that issues to them, with their clocks.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/schedule/schedule.h"
#include "sim/allocator/device_events.h"
#include "sim/engine/event_engine.h"

namespace shardscope {

/// The event engine (sim/engine/event_engine.h) as the device that a host issues to, action by
/// action. The device is only looked at when the host asks for it, which then knows what had been
/// issued by that time. Everything depends on what was issued earlier, so that nothing waits for
/// itself.
class TimedDevice final : public DeviceEvents {
 public:
  /// `costs` of every operation. Both must outlive the device.
  TimedDevice(const Schedule& schedule, const StepCosts& costs);

  void launch(DeviceStream stream, OperationId operation) override;
  void run(DeviceStream stream, OperationId operation) override;
  void dispatch() override { host_ns_ += costs_.clock.dispatch.ns; }
  Duration host_time() const override { return {host_ns_}; }
  DeviceEvent record(DeviceStream stream) override;
  bool done(DeviceEvent event) override;
  void wait(DeviceEvent event) override;
  void wait(DeviceStream stream) override;
  void stream_waits(DeviceStream stream, DeviceEvent event) override;

  /// All that was issued has ended.
  void finish();
  void host_waits_until(Duration time) { host_ns_ = std::max(host_ns_, time.ns); }
  /// Of the schedule: whose turn it is to be the last rank is counted from here.
  void begin_step() { collectives_ = 0; }
  /// Ranks meet: none of them is late for what it has computed so far.
  void meet() { engine_.meet(); }
  /// When the last operation so far ended.
  Duration last_end() const { return {engine_.last_end_ns()}; }
  /// Times in which the host was held up.
  struct HostWait {
    Duration begin, end;
  };
  const std::vector<HostWait>& host_waits() const { return host_waits_; }
  /// By operation, of those that have ended.
  const OperationMoments& times() const { return times_; }

 private:
  void issue(DeviceStream stream, OperationId operation, bool on_host);
  std::uint8_t lane_of(DeviceStream stream);
  std::int64_t happens_ns(DeviceEvent event);

  const Schedule& schedule_;
  const StepCosts& costs_;
  OperationMoments times_;
  EventEngine engine_;
  std::array<std::optional<std::uint8_t>, max_device_streams> lanes_;  ///< by stream
  std::uint8_t lanes_in_use_ = 0;
  std::vector<HostWait> host_waits_;
  std::int64_t host_ns_ = 0;
  std::uint32_t collectives_ = 0;  // issued in this step
};

}  // namespace shardscope
