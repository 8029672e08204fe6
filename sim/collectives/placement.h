// Placement: how a group's ranks sit on the nodes of a cluster.
#pragma once

#include "core/base/ranks.h"

namespace shardscope {

/// Consecutive ranks fill nodes.
struct Placement {
  int ranks = 1;
  int nodes = 1;
  double ranks_per_node = 1;  ///< the mean, as NCCL reckons
  int spacing_in_node = 1;    ///< of neighbours in one node
  int node_spacing = 1;       ///< of the nodes of neighbours
  bool operator==(const Placement&) const = default;
};

/// Example, nodes of 8: ranks 3, 11, 19, 27 sit alone on 4 neighbouring nodes.
Placement place(const Ranks& ranks, int gpus_per_node);

}  // namespace shardscope
