// CollectiveModel: what collectives cost on a machine, from whatever its profile knows of them.
#pragma once

#include <map>

#include "sim/collectives/collective_cost.h"
#include "sim/hardware/rate_table.h"

namespace shardscope {

/// Refers to the profile, which must outlive it.
class CollectiveModel {
 public:
  explicit CollectiveModel(const HardwareProfile& profile);

  /// In a group of one: nothing. Within a node, of the kind and number of ranks that were measured:
  /// straight in log-log over bytes; of fewer bytes than the smallest sample what NCCL's model
  /// says, where the profile has a node, but no more than that sample. Channels and links are those
  /// of NCCL's model. Else by NCCL's model where the profile has a node. Else as the nearest number
  /// of ranks that was measured, of all-gather where the kind was not (a barrier as the smallest
  /// all-reduce, a reduce as a reduce-scatter), with each rank's foreign bytes and, on a CPU, all
  /// ranks' bytes through the memory that they share. Else by a ring's closed form over `link`;
  /// between nodes at least by that over `network`. Throws Error where none can be.
  CollectiveCost cost(OperationKind kind, Bytes payload, const Ranks& ranks) const;

 private:
  using ByRanks = std::map<int, TimeCurve>;
  const ByRanks* samples_of(OperationKind kind) const;
  CollectiveCost measured(OperationKind kind, Bytes payload, const Ranks& ranks,
                          const TimeCurve& curve) const;
  Duration extrapolated(OperationKind kind, const ByRanks& samples, Bytes payload, int ranks) const;
  Duration ring(OperationKind kind, Bytes payload, int ranks, int nodes) const;

  const HardwareProfile& profile_;
  std::map<OperationKind, ByRanks> samples_;
};

}  // namespace shardscope
