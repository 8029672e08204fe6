// How far the device has come, as the caching allocator asks for it.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/quantities.h"
#include "core/schedule/host_program.h"
#include "core/schedule/schedule.h"

namespace shardscope {

struct DeviceStreamTag;
/// A stream of the device; 0 is the default stream. Numbers follow the order in which PyTorch
/// creates its streams, because the allocator goes through its pools in that order.
using DeviceStream = Id<DeviceStreamTag>;
inline constexpr DeviceStream default_stream{0};
/// The stream that the `index`-th torch.cuda.Stream() of a priority gets: PyTorch creates 32 for
/// each of 4 priorities at once, index by index. `urgency` is 0 for the default priority, 1 for -1.
/// Source: c10/cuda/CUDAStream.cpp of torch 2.15.
constexpr DeviceStream pool_stream(std::uint32_t index, std::uint32_t urgency) {
  return {1 + 4 * index + urgency};
}
/// More streams than any training run has.
inline constexpr std::uint32_t max_device_streams = 256;
/// The stream of lane `index` of a host program. What NCCL makes for itself gets numbers that no
/// stream of the program has. Throws Error where there are too many.
DeviceStream device_stream(const Lane& lane, std::size_t index);

struct DeviceEventTag;
using DeviceEvent = Id<DeviceEventTag>;

/// The device as its host sees it. "Done" is asked when the allocator polls, "wait" holds the host
/// up.
class DeviceEvents {
 public:
  virtual ~DeviceEvents() = default;
  /// The host issues an operation, runs operators that issue nothing, or a module's hook.
  virtual void launch(DeviceStream, OperationId) {}
  virtual void dispatch(std::int64_t /*operators*/) {}
  virtual void hook() {}
  /// The host issues an operation and runs it to its end.
  virtual void run(DeviceStream stream, OperationId operation) {
    launch(stream, operation);
    wait(stream);
  }
  /// Since the start; always 0 where there is no clock.
  virtual Duration host_time() const { return {}; }
  /// Records an event behind all that has been issued to `stream`.
  virtual DeviceEvent record(DeviceStream stream) = 0;
  virtual bool done(DeviceEvent event) = 0;
  virtual void wait(DeviceEvent event) = 0;
  virtual void wait(DeviceStream stream) = 0;
  /// What is issued to `stream` from here on comes after `event`.
  virtual void stream_waits(DeviceStream stream, DeviceEvent event) = 0;
};

/// A device that is infinitely fast: every event is done as soon as it is asked.
class InstantDevice final : public DeviceEvents {
 public:
  DeviceEvent record(DeviceStream) override { return {0}; }
  bool done(DeviceEvent) override { return true; }
  void wait(DeviceEvent) override {}
  void wait(DeviceStream) override {}
  void stream_waits(DeviceStream, DeviceEvent) override {}
};

/// The slowest device: it has come only as far as the host has waited for it, with everything that
/// was ordered before.
class HostBoundDevice final : public DeviceEvents {
 public:
  HostBoundDevice();

  DeviceEvent record(DeviceStream stream) override;
  bool done(DeviceEvent event) override;
  void wait(DeviceEvent event) override;
  void wait(DeviceStream stream) override;
  void stream_waits(DeviceStream stream, DeviceEvent event) override;
  void wait_all();

 private:
  /// By stream: the last event of it that comes before a point.
  using Before = std::vector<std::uint32_t>;
  struct Recorded {
    DeviceStream stream;
    Before before;
  };
  void reached(const Before& before);

  std::vector<Recorded> events_;  // an event's number is its place here plus 1
  std::vector<Before> issued_;    // by stream
  Before done_;                   // by stream
};

}  // namespace shardscope
