// HardwareProfile: what the cost model knows of a machine. JSON on disk; every figure says whether a vendor stated it or
// this program measured it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/kernel.h"
#include "core/quantities.h"
#include "core/schedule.h"

namespace shardscope {

/// One timed kernel.
struct KernelSample {
  Kernel kernel;
  Duration time;
};

/// One timed collective among `ranks` ranks of one host.
struct CollectiveSample {
  OperationKind kind = OperationKind::all_gather;
  int ranks = 2;
  Bytes bytes;    ///< payload as Operation::bytes
  Duration time;  ///< alone
};

struct HardwareProfile {
  std::string name;         ///< "this machine", "h100_sxm"
  std::string source;       ///< "measured 2026-11-21 on AMD EPYC" or a data sheet
  std::string device;       ///< "cpu" or "cuda"
  int threads_per_rank = 1;
  int ranks = 1;            ///< that ran side by side while measuring
  Bytes memory;             ///< of one device
  FlopRate peak;            ///< best matrix product seen (measured) or stated
  Bandwidth memory_bandwidth;
  Duration operation_overhead;  ///< of issuing one kernel
  std::vector<KernelSample> kernels;
  std::vector<CollectiveSample> collectives;
  double compute_slowdown = 1;     ///< factor on compute while a collective runs
  double collective_slowdown = 1;  ///< factor on a collective while compute runs
  bool collectives_serial = true;  ///< one communication thread: collectives run one after the other, in issue order
};

}  // namespace shardscope
