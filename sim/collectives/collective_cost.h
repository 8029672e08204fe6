// What a collective costs a group of a cluster, and which links it keeps busy meanwhile.
#pragma once

#include <string_view>

#include "core/base/quantities.h"
#include "core/base/ranks.h"
#include "core/schedule/schedule.h"
#include "sim/collectives/link_use.h"
#include "sim/hardware/hardware_profile.h"

namespace shardscope {

struct CollectiveCost {
  Duration time;
  std::string_view algorithm;  ///< in NCCL's words: "RING"; empty: not from NCCL's model
  std::string_view protocol;   ///< "LL128"
  int channels = 0;            ///< each a thread block on a multiprocessor
  LinkUse use;
  bool operator==(const CollectiveCost&) const = default;
};

/// By NCCL's model over the cluster's links. `payload` as payload_of. Reduce and gathers to one
/// rank cost as a broadcast, a barrier as an all-reduce of 4 bytes (ProcessGroupNCCL's), sends one
/// message over a GPU's own links. Throws Error where the ranks sit on several nodes and the
/// profile has no interconnect.
CollectiveCost cluster_collective_cost(OperationKind kind, Bytes payload, const Ranks& ranks,
                                       const HardwareProfile& profile);

}  // namespace shardscope
