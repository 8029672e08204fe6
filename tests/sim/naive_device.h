// NaiveDevice: the rules of the event engine written down a second time, plainly and slowly: all
// that runs is looked at whenever anything happens. The oracle of the engine.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/schedule/schedule.h"
#include "sim/allocator/device_events.h"
#include "sim/engine/event_engine.h"
#include "sim/engine/sharing.h"

namespace shardscope::testing {

class NaiveDevice final : public DeviceEvents {
 public:
  /// `times`: of every operation, alone. Both must outlive the device.
  NaiveDevice(const Schedule& schedule, std::span<const Duration> times,
              const DeviceClockOptions& options);

  /// Collectives of several communicators share links: what each operation uses of them. Must
  /// outlive the device.
  void share_links(std::span<const LinkUse> uses) { uses_ = uses; }

  void launch(DeviceStream stream, OperationId operation) override;
  void dispatch(std::int64_t operators) override { host_ns_ += operators * options_.dispatch.ns; }
  void hook() override { host_ns_ += options_.hook.ns; }
  Duration host_time() const override { return {host_ns_}; }
  DeviceEvent record(DeviceStream stream) override;
  bool done(DeviceEvent event) override;
  void wait(DeviceEvent event) override;
  void wait(DeviceStream stream) override;
  void stream_waits(DeviceStream stream, DeviceEvent event) override;

  /// All that was issued has ended.
  void finish();
  void host_waits_until(Duration time) { host_ns_ = std::max(host_ns_, time.ns); }
  /// When the last operation so far ended.
  Duration last_end() const { return {last_end_ns_}; }
  static constexpr Duration not_started{-1};
  /// Times in which the host was held up.
  struct HostWait {
    Duration begin, end;
  };
  const std::vector<HostWait>& host_waits() const { return host_waits_; }
  /// By operation, of those that have ended.
  const std::vector<Duration>& starts() const { return starts_; }
  const std::vector<Duration>& ends() const { return ends_; }

 private:
  static constexpr std::int64_t never_ns = std::numeric_limits<std::int64_t>::max();
  enum class ItemKind : std::uint8_t { operation, record, wait };
  struct Item {
    ItemKind kind = ItemKind::operation;
    Share share = Share::alone;
    std::uint32_t subject = 0;  // operation or event
    std::uint32_t channel = 0;  // of collectives
    std::uint32_t turn = 0;     // of a channel's collectives, in order of issue
    std::int64_t issued_ns = 0;
  };
  struct Queue {
    std::vector<Item> items;
    std::size_t head = 0;
    bool busy = false;
    bool empty() const { return head == items.size(); }
  };
  struct Running {
    Item item;
    std::uint8_t stream = 0;
    double left_ns = 0;  // at full speed
  };

  LinkUse use_of(const Item& item) const { return uses_.empty() ? LinkUse{} : uses_[item.subject]; }
  void put(DeviceStream stream, Item item);
  bool pass(Queue& queue, std::uint8_t stream);
  bool pass_heads();
  std::int64_t end_ns(const Running& running) const;
  std::int64_t next_event() const;
  void advance_to(std::int64_t next_ns);
  void end(const Running& running);
  void run_until(std::int64_t limit_ns);
  void run_until_done(DeviceEvent event);

  const Schedule& schedule_;
  std::span<const Duration> times_;
  DeviceClockOptions options_;
  std::array<Queue, max_device_streams> queues_;
  std::vector<std::uint8_t> used_;  // streams, in order of first use
  std::array<bool, max_device_streams> in_use_{};
  std::vector<Running> running_;
  std::vector<Running> ended_;
  Sharing sharing_;
  std::vector<std::int64_t> event_ns_;  // when it was passed; never: not yet
  std::vector<Duration> starts_;
  std::vector<Duration> ends_;
  std::vector<HostWait> host_waits_;
  std::span<const LinkUse> uses_;                  // by operation; or none
  std::vector<std::uint32_t> collectives_issued_;  // by channel
  std::vector<std::uint32_t> collectives_ended_;
  std::int64_t host_ns_ = 0;
  std::int64_t now_ns_ = 0;  // of the last thing that happened on the device
  std::int64_t next_event_ns_ = never_ns;
  std::int64_t last_end_ns_ = 0;
  bool settled_ = true;  // nothing can start at now_ns_
};

}  // namespace shardscope::testing
