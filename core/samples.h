// Timed operations: what a calibration measures and a hardware profile keeps.
#pragma once

#include "core/kernel.h"
#include "core/quantities.h"
#include "core/schedule.h"

namespace shardscope {

/// The kernel without the factors that do not change its cost (epsilon, scale, betas, decay, clip,
/// rope frequencies): kernels with equal keys cost the same.
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
  bool operator==(const CollectiveSample&) const = default;
};

}  // namespace shardscope
