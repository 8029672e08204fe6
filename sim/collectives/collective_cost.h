// What a collective costs a group of a cluster, and which links it keeps busy meanwhile.
#pragma once

#include <string_view>

#include "core/quantities.h"
#include "core/ranks.h"
#include "core/schedule.h"
#include "sim/hardware_profile.h"

namespace shardscope {

/// Shares of what the group could use, 0 to 1, averaged over the collective's time: one that only
/// waits for hops keeps links nearly free.
struct LinkUse {
  double within = 0;  ///< of a GPU's links inside its node
  double across = 0;  ///< of its adapters
  bool operator==(const LinkUse&) const = default;
};
LinkUse operator+(const LinkUse& a, const LinkUse& b);

/// Factor on the time of collectives that run at once and together use `all`: links that are asked
/// for more than they have serve everyone less. At least 1.
/// Example: a reduce-scatter inside nodes and an all-reduce over rails, {0.9, 0} and {0, 1}: 1; two
/// gathers across nodes, {0.9, 1} each: 2.
double link_slowdown(const LinkUse& all);

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
