// What NCCL finds in a cluster for a group: its channels, and the links that they go over.
#pragma once

#include "sim/collectives/nccl_model.h"
#include "sim/collectives/placement.h"
#include "sim/hardware/hardware_profile.h"

namespace shardscope {

/// Links that a group has to itself while all groups like it communicate; GB/s, one direction.
struct Reach {
  double within = 0;    ///< of one GPU to the others of its node; 0: it is alone there
  double adapter = 0;   ///< one adapter, as far as the GPU's slot carries it; 0: one node
  double adapters = 0;  ///< of the group in one node: a fraction where groups share one
  NcclHop hop = NcclHop::nvlink;
  bool operator==(const Reach&) const = default;
};

/// `profile` has a node, and an interconnect where the group needs one.
Reach reach_of(const Placement& placement, const HardwareProfile& profile);

/// The communicator of such a group. Rings: of the channel rates that NCCL tries, falling, the one
/// whose channels together carry most, the first of equals; wide channels are then split in two
/// (ncclTopoCompute and ncclTopoDupChannels of src/graph/search.cc).
/// Example: 8 H100 on NVSwitch, 18 links of 20.6 GB/s: 6 channels of 60, so 12 of 30 GB/s.
NcclCommunicator communicator_of(const Placement& placement, const HardwareProfile& profile);

/// GB/s of a slot of 16 lanes, one direction, as NCCL reckons: each generation doubles the third's.
double pcie_rate(int generation);

}  // namespace shardscope
