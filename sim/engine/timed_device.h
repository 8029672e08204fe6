// TimedDevice: streams of a device and the host that issues to them, with their clocks.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/schedule/schedule.h"
#include "sim/allocator/device_events.h"
#include "sim/engine/event_engine.h"
#include "sim/engine/peer_arrivals.h"

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
  void dispatch(std::int64_t operators) override {
    host_ns_ += operators * costs_.clock.dispatch_ns(in_backward_);
  }
  void hook() override;
  Duration host_time() const override { return {host_ns_}; }
  DeviceEvent record(DeviceStream stream) override;
  bool done(DeviceEvent event) override;
  void wait(DeviceEvent event) override;
  void wait(DeviceStream stream) override;
  void stream_waits(DeviceStream stream, DeviceEvent event) override;

  /// All that was issued has ended.
  void finish();
  /// What follows begins when everything before has ended: that moment.
  Duration come_to_rest();
  /// From here on operations begin when the peers have come to them. `peers` must outlive the
  /// device; its times count from `origin`.
  void meet_peers(const PeerArrivals& peers, Duration origin);
  /// When this rank came to what it meets peers at, by operation, from the origin. Transfers that
  /// NCCL issues as one group come together. After finish().
  std::vector<Duration> arrivals() const;
  /// Of the schedule: whose turn it is to be the last rank is counted from here.
  void begin_step() { collectives_ = 0; }
  /// Ranks meet: none of them is late for what it has computed so far.
  void meet() { engine_.meet(); }
  /// When the last operation so far ended.
  Duration last_end() const { return {engine_.last_end_ns()}; }
  /// Times in which the host was held up, or ran modules' hooks; hooks without anything between
  /// them are together.
  struct HostTime {
    bool waits;
    Duration begin, end;
  };
  const std::vector<HostTime>& host_times() const { return host_times_; }
  /// By operation, of those that have ended.
  const OperationMoments& times() const { return times_; }

 private:
  void issue(DeviceStream stream, OperationId operation, bool on_host);
  std::uint8_t lane_of(DeviceStream stream);
  std::int64_t happens_ns(DeviceEvent event);
  void come_to_meeting(std::uint8_t lane, OperationId operation);

  /// Of this rank at a meeting.
  struct Arrival {
    std::uint32_t event = 0;   ///< all before it on its lane has ended
    std::int64_t host_ns = 0;  ///< the host has issued it
  };

  const Schedule& schedule_;
  const StepCosts& costs_;
  OperationMoments times_;
  EventEngine engine_;
  std::array<std::optional<std::uint8_t>, max_device_streams> lanes_;  ///< by stream
  std::uint8_t lanes_in_use_ = 0;
  std::vector<HostTime> host_times_;
  std::int64_t host_ns_ = 0;
  bool in_backward_ = false;       // by the last operation; dispatches name no phase
  std::uint32_t collectives_ = 0;  // issued in this step
  const PeerArrivals* peers_ = nullptr;
  std::int64_t origin_ns_ = 0;
  std::vector<std::optional<Arrival>> arrivals_;                 ///< by operation
  std::array<std::optional<Arrival>, max_device_streams> open_;  ///< last on a lane, if a transfer
};

}  // namespace shardscope
