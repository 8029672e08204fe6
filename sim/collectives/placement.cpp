#include "sim/collectives/placement.h"

#include <algorithm>

namespace shardscope {
namespace {

int nodes_of(const Ranks& ranks, int gpus) {
  const auto stride = ranks.stride();
  if (stride && *stride >= gpus) return static_cast<int>(ranks.size());
  if (stride && *stride > 0) return ranks.back() / gpus - ranks.front() / gpus + 1;
  int nodes = 0;
  int last = -1;
  for (const int rank : ranks) {
    nodes += rank / gpus != last;
    last = rank / gpus;
  }
  return nodes;
}

}  // namespace

Placement place(const Ranks& ranks, int gpus_per_node) {
  Placement placement{.ranks = static_cast<int>(ranks.size())};
  if (ranks.size() <= 1) return placement;
  const int gpus = gpus_per_node > 0 ? gpus_per_node : ranks.back() + 1;
  placement.nodes = nodes_of(ranks, gpus);
  placement.ranks_per_node = static_cast<double>(placement.ranks) / placement.nodes;
  const int stride = std::max(ranks.stride().value_or(1), 1);
  placement.spacing_in_node = std::min(stride, gpus);
  placement.node_spacing = std::max(stride / gpus, 1);
  return placement;
}

}  // namespace shardscope
