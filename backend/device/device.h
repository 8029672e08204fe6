// A device runs kernels on memory that it is handed. The executor knows no more of it than this.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "backend/device/device_memory.h"
#include "backend/device/device_streams.h"
#include "backend/device/device_timeline.h"
#include "core/base/quantities.h"
#include "core/schedule/kernel.h"
#include "core/schedule/target.h"

namespace shardscope {

/// What one call gets besides its kernel: operands in the kernel's order (null: absent), the slices
/// of optimizer kernels.
struct KernelCall {
  std::span<void* const> operands;
  std::span<const Slice> slices;
  StepState state;
};

class Device {
 public:
  virtual ~Device() = default;

  /// Where its kernels' operands lie; what it gives lives as long as the device.
  virtual DeviceMemory& memory() { return host_memory(); }

  /// The order in which it works; lives as long as the device.
  virtual DeviceStreams& streams() { return host_streams(); }

  /// Times of what it runs; lives as long as the device.
  virtual std::unique_ptr<DeviceTimeline> timeline(std::size_t places) {
    return make_host_timeline(places);
  }

  virtual std::string description()
      const = 0;  ///< "AMD EPYC, 1 thread, oneDNN 2.6.3 (avx512_core)"

  /// Scratch bytes that `run` wants as the last operand of this kernel.
  virtual Bytes workspace(const Kernel& kernel) const = 0;

  /// What its schedules are made for; valid as long as the device.
  virtual Target target() const {
    return {.host = HostRole::computes,
            .workspace = [this](const Kernel& kernel) { return workspace(kernel); }};
  }

  /// Builds whatever `run` needs for this kernel ahead of time (primitives, thread teams), so that
  /// a step allocates nothing.
  virtual void prepare(const Kernel& kernel) = 0;

  /// What kernels find as the state of the step from now on, those that a graph keeps, too.
  virtual void begin_step(const StepState&) {}

  /// Runs the kernel: done when this returns where the memory is the host's, else queued on the
  /// selected stream. Pointers
  /// are 64-byte aligned at the start of a buffer.
  virtual void run(const Kernel& kernel, const KernelCall& call) = 0;

  /// The same by the host's processor, on memory that allocate_host gave, in order of the selected
  /// stream. What `call` points to must live until it has ended.
  virtual void run_on_host(const Kernel& kernel, const KernelCall& call) { run(kernel, call); }
};

}  // namespace shardscope
