#include "sim/collectives/nccl_search.h"

#include <algorithm>
#include <cmath>

namespace shardscope {
namespace {

constexpr double giga = 1e9;
constexpr int most_ring_channels = 32;
constexpr int most_nvls_heads = 32;

int ranks_here(const Placement& placement) {
  return std::max(static_cast<int>(placement.ranks_per_node), 1);
}

bool uses_nvlink(const Placement& placement, const Node& node) {
  if (node.fabric == Fabric::nvlink_pairs)
    return ranks_here(placement) <= 2 && placement.spacing_in_node == 1;
  return node.fabric != Fabric::pcie;
}

/// Through the host: Intel's processors cut transfers between GPUs into small packets (topo.h,
/// INTEL_P2P_OVERHEAD); rings that span both halves of the node share the bridge between them.
double host_rate(const Placement& placement, const Node& node) {
  double rate = pcie_rate(node.pcie_generation) * node.efficiency;
  if (node.cpu == CpuVendor::intel) rate /= 1.2;
  const int reach = placement.spacing_in_node * (ranks_here(placement) - 1) + 1;
  if (node.host_bridge && reach > node.gpus / 2)
    rate = std::min(rate, node.host_bridge->bytes_per_s / giga / placement.spacing_in_node);
  return rate;
}

double within_rate(const Placement& placement, const HardwareProfile& profile) {
  const Node& node = *profile.node;
  const int here = ranks_here(placement);
  if (here <= 1) return 0;
  if (!uses_nvlink(placement, node)) return host_rate(placement, node);
  const double all = node.nvlinks * nvlink_rate(nccl_constants(), profile.compute_capability);
  if (node.fabric != Fabric::nvlink_mesh) return all * node.efficiency;
  return all * node.efficiency * std::min(here - 1, node.gpus - 1) / std::max(node.gpus - 1, 1);
}

/// Factor on an adapter's rate where the links out of the leaf switches are fewer than those into
/// them: of a leaf's nodes, as many send out of it at once as lie between a group's neighbours.
double spine_share(const Placement& placement, const Interconnect& net) {
  const double leaf = net.nodes_per_leaf;
  const double leaving = std::min<double>(placement.node_spacing, leaf) / leaf;
  if (placement.nodes * placement.node_spacing <= net.nodes_per_leaf) return 1;
  return 1 / std::max(1.0, leaving * net.oversubscription);
}

void reach_network(const Placement& placement, const HardwareProfile& profile, Reach& reach) {
  const Interconnect& net = *profile.interconnect;
  const Node& node = *profile.node;
  const double rate = net.rate.bytes_per_s / giga * net.efficiency * spine_share(placement, net);
  const double slot = node.pcie_generation > 0 ? pcie_rate(node.pcie_generation) : rate;
  reach.adapter = std::min(rate, slot);
  reach.adapters =
      std::min(1.0, static_cast<double>(ranks_here(placement)) / node.gpus) * net.adapters;
}

/// `count` channels of `rate`.
struct Channels {
  int count = 0;
  double rate = 0;
  double together() const { return count * rate; }
};

/// At most what no search asks for: rates in a file may be anything.
int fitting(double links, double rate) {
  constexpr double plenty = 4096;
  return static_cast<int>(std::min(links / rate + 1e-9, plenty));
}

Channels channels_at(double rate, const Reach& reach, int most) {
  int count = most;
  if (reach.within > 0) count = std::min(count, fitting(reach.within, rate));
  if (reach.adapters >= 1)
    count = std::min(count, static_cast<int>(reach.adapters) * fitting(reach.adapter, rate));
  else if (reach.adapters > 0)
    count = std::min(count, fitting(reach.adapter * reach.adapters, rate));
  return {count, rate};
}

/// Stops where the next rate is under half of the best one's, as NCCL does.
Channels search(const std::vector<double>& rates, const Reach& reach, int most) {
  Channels best;
  for (const double rate : rates) {
    if (best.count > 0 && rate / best.rate <= 0.49) break;
    const Channels found = channels_at(rate, reach, most);
    if (found.together() > best.together()) best = found;
  }
  if (best.count > 0) return best;
  // Slower than the slowest that it tries: one channel of what there is.
  const double network = reach.adapter * std::min(reach.adapters, 1.0);
  return {1, reach.within > 0 && network > 0 ? std::min(reach.within, network)
                                             : std::max(reach.within, network)};
}

Channels split_wide(Channels found, int compute_capability) {
  constexpr double wide = 25;
  constexpr double wide_of_many = 50;
  if (found.rate < wide) return found;
  if (compute_capability > 80 && found.rate < wide_of_many && found.count > 4) return found;
  const int count = std::min(found.count * 2, most_ring_channels);
  return {count, count > found.count ? found.rate / 2 : found.rate};
}

/// Heads of NVLS are the node's GPUs: one channel each. Between nodes their rate then rises as far
/// as the adapters carry it, up to twice that within.
NcclGraph nvls_graph(const std::vector<double>& rates, const Reach& reach, int here) {
  const int heads = std::min(here, most_nvls_heads);
  const bool one_node = reach.adapters == 0;
  Channels best;
  for (const double rate : rates) {
    const Channels found = channels_at(rate, reach, heads);
    if (one_node && found.count < heads) continue;
    if (found.together() > best.together()) best = found;
  }
  if (best.count == 0) return {};
  double across = best.rate;
  for (auto rate = rates.rbegin(); rate != rates.rend() && across < 2 * best.rate; ++rate) {
    const bool carried =
        one_node ||
        channels_at(*rate, {.adapter = reach.adapter, .adapters = reach.adapters}, heads).count >=
            best.count;
    if (*rate > across && carried) across = *rate;
  }
  return {.channels = best.count, .within = best.rate, .across = across};
}

}  // namespace

double pcie_rate(int generation) {
  return nccl_constants().pcie3_x16 * std::exp2(std::max(generation, 1) - 3);
}

Reach reach_of(const Placement& placement, const HardwareProfile& profile) {
  Reach reach{.within = within_rate(placement, profile),
              .hop = uses_nvlink(placement, *profile.node) ? NcclHop::nvlink : NcclHop::pcie};
  if (placement.nodes > 1) reach_network(placement, profile, reach);
  return reach;
}

NcclCommunicator communicator_of(const Placement& placement, const HardwareProfile& profile) {
  const NcclConstants& constants = nccl_constants();
  const Reach reach = reach_of(placement, profile);
  const bool one_node = placement.nodes == 1;
  const auto generation = static_cast<std::size_t>(nccl_generation(profile.compute_capability));
  const std::vector<double>& rates =
      (one_node ? constants.speeds_within : constants.speeds_across)[generation];
  const Channels ring =
      split_wide(search(rates, reach, most_ring_channels), profile.compute_capability);
  const int here = ranks_here(placement);
  const bool nvswitch = profile.node->fabric == Fabric::nvswitch;
  const bool by_nvlink = here == 1 || reach.hop == NcclHop::nvlink;
  NcclCommunicator comm{
      .ranks = placement.ranks,
      .nodes = placement.nodes,
      .compute_capability = profile.compute_capability,
      .cpu = profile.node->cpu,
      .hop = reach.hop,
      .nvswitch = nvswitch,
      .ll128 = by_nvlink && (one_node || profile.interconnect->gpu_direct),
      .collnet = !one_node && profile.interconnect->collnet,
      .adapter_latency_us =
          one_node ? 0 : static_cast<double>(profile.interconnect->latency.ns) / 1000,
      .latency_factor = profile.node->latency_factor,
      .ring = {.channels = ring.count, .within = ring.rate, .across = ring.rate}};
  if (nvswitch && here > 1 && generation >= static_cast<std::size_t>(NcclGeneration::hopper))
    comm.nvls = nvls_graph(rates, reach, here);
  return comm;
}

}  // namespace shardscope
