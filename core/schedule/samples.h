// Timed operations: what a calibration measures and a hardware profile keeps.
#pragma once

#include <string>

#include "core/base/quantities.h"
#include "core/schedule/collective_choice.h"
#include "core/schedule/kernel.h"
#include "core/schedule/schedule.h"

namespace shardscope {

/// The kernel without the factors that do not change its cost (kernel_fields.h): kernels with equal
/// keys cost the same.
Kernel cost_key(const Kernel& kernel);

/// One timed kernel.
struct KernelSample {
  Kernel kernel;
  Duration time;
  bool operator==(const KernelSample&) const = default;
};

/// One timed collective among `ranks` ranks of one host.
struct CollectiveSample {
  OperationKind kind = OperationKind::all_gather;
  int ranks = 2;
  Bytes bytes;    ///< payload as Operation::bytes: out of the gather, into the reduction
  Duration time;  ///< alone
  CollectiveChoice choice = {};
  bool operator==(const CollectiveSample&) const = default;
};

/// What the library took of a device, for one rank, when a group of `ranks` ranks ran collectives
/// of this kind for the first time, all sizes; the group's own with the first kind that it ran.
struct CollectiveMemory {
  OperationKind kind = OperationKind::all_gather;
  int ranks = 2;
  Bytes memory;
  bool operator==(const CollectiveMemory&) const = default;
};

/// How long ranks wait for the last of them when they meet after so much compute: what the last one
/// takes longer than the mean.
struct StragglingSample {
  Duration compute;  ///< since they met, mean over ranks
  Duration wait;     ///< mean over ranks
  bool operator==(const StragglingSample&) const = default;
};

/// What compute takes while `ranks` ranks of a host compute and the others wait, as a share of what
/// it takes while all of them compute: ranks that wait leave cores and memory to the others.
struct CoreSharingSample {
  int ranks = 1;
  double time_share = 1;
  bool operator==(const CoreSharingSample&) const = default;
};

}  // namespace shardscope
