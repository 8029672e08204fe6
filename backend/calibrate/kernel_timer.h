// Times kernels, each by itself, on all ranks at once.
#pragma once

#include <memory>
#include <optional>

#include "backend/calibrate/core_use.h"
#include "backend/comm/communicator.h"
#include "backend/device/device.h"
#include "core/schedule/samples.h"

namespace shardscope {

/// Collective over `world`: every rank times the same kernels in the same order. `world` and
/// `device` must outlive it.
class KernelTimer {
 public:
  KernelTimer(Communicator& world, Device& device, const CoreUse& cores = {});

  /// Runs `kernel` on every rank at the same time: once to warm up, then as often as fits into
  /// `budget`, 3 to 25 times, by the device's clock. A device that runs ahead of the host gets
  /// several in a row each time, as in a step; short ones as a graph where it has graphs, so that
  /// the host does not hold it up. Optimizer kernels find the caches cold, as after a
  /// backward pass; all others find their operands there as far as they fit. The sample is the mean
  /// over ranks of each rank's median, times what
  /// sharing cores with other ranks costs.
  KernelSample time(const Kernel& kernel, Duration budget);

  /// What the host needs to hand one kernel to a device that runs ahead of it; on the host itself,
  /// what a kernel costs that does nothing.
  Duration launch_overhead();
  /// What the host needs for each kernel of a graph; none where there are no graphs.
  std::optional<Duration> graph_overhead();

 private:
  /// One kernel, so many times.
  struct Row {
    const Kernel& kernel;
    KernelCall call;
    int length = 1;
    std::unique_ptr<DeviceGraph> graph = nullptr;
  };
  void keep_as_graph(Row& row);
  Duration time_once(const Row& row);
  double core_sharing(const CoreUse& cores);
  void empty_caches();

  Communicator& world_;
  Device& device_;
  std::unique_ptr<DeviceTimeline> timeline_;
  double core_sharing_ = 1;            ///< kernels take so many times their median on average
  std::unique_ptr<Arena> other_data_;  ///< more than the last cache holds
};

}  // namespace shardscope
