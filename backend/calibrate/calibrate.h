// Measures this machine: kernels, memory, collectives, and how they slow each other down.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "backend/calibrate/copy_timer.h"
#include "backend/calibrate/core_use.h"
#include "backend/comm/communicator.h"
#include "backend/device/device.h"
#include "core/schedule/samples.h"
#include "core/schedule/schedule.h"

namespace shardscope {

/// What is measured besides the grid.
struct CalibrationPlan {
  std::vector<Schedule> steps;      ///< of one rank by itself: run in order
  std::vector<Schedule> schedules;  ///< of this rank: every distinct kernel and collective in them
  Precision precision = Precision::fp32;  ///< the grid is measured in this beside float32
  bool grid = true;                       ///< kernels over sizes, too
  int ranks_on_device = 1;                ///< that share this rank's
  CoreUse cores;                          ///< of a device that is the host
  std::filesystem::path nccl_log;         ///< where NCCL writes its choices; empty: nowhere
};

struct Calibration {
  std::vector<KernelSample> kernels;          ///< those of the plan first
  std::vector<CollectiveSample> collectives;  ///< none with one rank
  FlopRate peak;                              ///< best matrix product of float32
  std::optional<FlopRate> peak_bfloat16;      ///< the same of bfloat16, where any was measured
  Bandwidth memory_bandwidth;                 ///< of one rank while all are at it
  Duration operation_overhead;
  std::optional<Duration> graph_operation_overhead;  ///< the same of a step that is replayed
  std::optional<Duration> first_step_overhead;       ///< of the first step that was measured
  std::optional<HostCopies> host_copies;             ///< of a device with memory of its own
  /// Of the device's memory, for one rank: what is held before the first collective and beside
  /// the arena (contexts, kernels, libraries), if nobody else uses it.
  std::optional<Bytes> context_memory;
  std::vector<CollectiveMemory> collective_memory;
  std::vector<StragglingSample> straggling;  ///< by compute, shortest first; none with one rank
  /// By ranks, fewest first; none with one rank, of a GPU, or on several hosts.
  std::vector<CoreSharingSample> core_sharing;
  double compute_slowdown = 1;
  double collective_slowdown = 1;
  bool compute_waits = false;  ///< collectives need a core that computes, so that no kernel starts
};

/// All ranks of `world` measure at the same time, and all get the same result. Takes the arena of
/// `world`; under 30 s where a step of the plan takes under 2 s. `progress` gets a line when
/// something new begins. Collective.
Calibration calibrate(Communicator& world, Device& device, const CalibrationPlan& plan,
                      const std::function<void(std::string_view)>& progress);

}  // namespace shardscope
