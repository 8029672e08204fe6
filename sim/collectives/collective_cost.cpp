#include "sim/collectives/collective_cost.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "sim/collectives/nccl_search.h"

namespace shardscope {
namespace {

using Kind = OperationKind;

constexpr double giga = 1e9;

/// Bytes that cross each of a ring's links per byte of payload (nccl-tests' bus bandwidth).
double bus_share(Kind kind, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  if (kind == Kind::all_reduce) return 2 * others;
  return kind == Kind::all_gather || kind == Kind::reduce_scatter ? others : 1;
}

LinkUse use_of(double bus_bytes, Duration time, const Reach& reach) {
  const double gigabytes_per_s = bus_bytes / giga / std::max(time.seconds(), 1e-12);
  const double network = reach.adapter * reach.adapters;
  return {.within = reach.within > 0 ? std::min(1.0, gigabytes_per_s / reach.within) : 0,
          .across = network > 0 ? std::min(1.0, gigabytes_per_s / network) : 0};
}

/// Messages between pairs: one hop, and each GPU's own share of the links.
CollectiveCost message_cost(Kind kind, Bytes payload, const Placement& placement,
                            const HardwareProfile& profile) {
  const Reach reach = reach_of(placement, profile);
  const NcclConstants& constants = nccl_constants();
  const auto ring = static_cast<std::size_t>(NcclAlgorithm::ring);
  const auto simple = static_cast<std::size_t>(NcclProtocol::simple);
  const NcclHop hop = placement.nodes > 1 ? NcclHop::network : reach.hop;
  const double latency_us = (constants.base_us[ring][simple] +
                             constants.hop_us[static_cast<std::size_t>(hop)][ring][simple]) *
                            profile.node->latency_factor;
  const double rail = reach.adapter * reach.adapters / std::max(placement.ranks_per_node, 1.0);
  double moved = static_cast<double>(payload.count);
  double leaving = moved;  // of the node
  if (kind == Kind::all_to_all) {
    moved *= static_cast<double>(placement.ranks - 1) / placement.ranks;
    leaving *= (placement.ranks - placement.ranks_per_node) / placement.ranks;
  }
  const double seconds =
      placement.nodes > 1 ? leaving / (rail * giga) : moved / (reach.within * giga);
  const Duration time = Duration::from_seconds(latency_us * 1e-6 + seconds);
  return {.time = time,
          .algorithm = {},
          .protocol = name_of(NcclProtocol::simple),
          .channels = 0,
          .use = use_of(moved, time, reach)};
}

bool is_message(Kind kind) {
  return kind == Kind::send || kind == Kind::receive || kind == Kind::all_to_all;
}

/// The one of NCCL's five that it is run as.
Kind run_as(Kind kind) {
  switch (kind) {
    case Kind::all_gather:
    case Kind::reduce_scatter:
    case Kind::all_reduce:
      return kind;
    case Kind::barrier:
      return Kind::all_reduce;
    default:
      return Kind::broadcast;
  }
}

}  // namespace

CollectiveCost cluster_collective_cost(Kind kind, Bytes payload, const Ranks& ranks,
                                       const HardwareProfile& profile) {
  if (ranks.size() <= 1) return {};
  const Placement placement = place(ranks, profile.node->gpus);
  if (placement.nodes > 1 && !profile.interconnect)
    throw Error(
        {.where = "hardware profile " + profile.name,
         .what = fmt::format("no interconnect for {} among {} ranks on {} nodes", name_of(kind),
                             placement.ranks, placement.nodes),
         .way_out = fmt::format("add \"interconnect\", or stay within the {} GPUs of a node",
                                profile.node->gpus)});
  if (is_message(kind)) return message_cost(kind, payload, placement, profile);
  constexpr Bytes barrier_payload{4};
  const Kind run = run_as(kind);
  const Bytes bytes = kind == Kind::barrier ? barrier_payload : payload;
  const NcclPick pick = nccl_pick(communicator_of(placement, profile), run, bytes);
  const double bus_bytes = static_cast<double>(bytes.count) * bus_share(run, placement.ranks);
  return {.time = pick.time,
          .algorithm = name_of(pick.algorithm),
          .protocol = name_of(pick.protocol),
          .channels = pick.channels,
          .use = use_of(bus_bytes, pick.time, reach_of(placement, profile))};
}

}  // namespace shardscope
