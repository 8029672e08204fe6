#include "sim/collectives/nccl_model.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace shardscope {
namespace {

using Algorithm = NcclAlgorithm;
using Protocol = NcclProtocol;
using Kind = OperationKind;

// Of a node: NCCL_MAX_NVLS_ARITY, and NCCL_MAX_DIRECT_ARITY + 1 (src/include/device.h).
constexpr int most_nvls_heads = 32;
constexpr int most_collnet_ranks = 8;

template <class Enum>
constexpr std::size_t at(Enum value) {
  return static_cast<std::size_t>(value);
}

/// A communicator with what follows from it and the constants.
struct Tuning {
  const NcclCommunicator& comm;
  const NcclConstants& constants = nccl_constants();
  std::size_t generation = at(nccl_generation(comm.compute_capability));
  std::size_t by_nodes = static_cast<std::size_t>(std::min(comm.nodes, 3) - 1);
  double ranks_per_node = static_cast<double>(comm.ranks) / comm.nodes;

  bool one_node() const { return comm.nodes == 1; }
  bool one_rank_per_node() const { return comm.ranks == comm.nodes; }
  int whole_ranks_per_node() const { return comm.ranks / comm.nodes; }
  double log2_nodes() const { return std::bit_width(static_cast<unsigned>(comm.nodes)) - 1; }
  double hop_us(NcclHop hop, Algorithm a, Protocol p) const {
    return constants.hop_us[at(hop)][at(a)][at(p)];
  }
  double ll_most() const {
    if (one_node()) return constants.ll_most[generation][0];
    const auto row = comm.cpu == CpuVendor::amd ? NcclGeneration::ampere : NcclGeneration::volta;
    return constants.ll_most[at(row)][by_nodes];
  }
  /// Between nodes; alone in its node, a rank sees a tree's latency. Simple flushes what came in.
  double across_us(Algorithm a, Protocol p) const {
    return hop_us(NcclHop::network, one_rank_per_node() ? Algorithm::tree : a, p) +
           comm.adapter_latency_us * (p == Protocol::simple ? 2 : 1);
  }
};

bool is_collnet(Algorithm a) {
  return a == Algorithm::collnet_direct || a == Algorithm::collnet_chain;
}
bool is_nvls(Algorithm a) { return a == Algorithm::nvls || a == Algorithm::nvls_tree; }
bool is_half_of_all_reduce(Kind kind) {
  return kind == Kind::all_gather || kind == Kind::reduce_scatter;
}

double steps_of(const NcclCommunicator& comm, Kind kind) {
  if (kind == Kind::all_reduce) return 2.0 * (comm.ranks - 1);
  return is_half_of_all_reduce(kind) ? comm.ranks - 1 : comm.ranks;
}

/// Which algorithms run a collective at all.
bool runs(Algorithm a, Kind kind) {
  if (kind == Kind::all_reduce) return a != Algorithm::pat;
  if (!is_half_of_all_reduce(kind)) return a == Algorithm::ring;
  return a == Algorithm::ring || a == Algorithm::pat || a == Algorithm::nvls ||
         a == Algorithm::collnet_direct;
}

/// Which of them NCCL turns on by itself.
bool enabled(const Tuning& t, Kind kind, Algorithm a, Protocol p) {
  const NcclCommunicator& comm = t.comm;
  if (!runs(a, kind)) return false;
  if (p != Protocol::simple && a != Algorithm::tree && a != Algorithm::ring) return false;
  if (p == Protocol::ll128 && !(comm.ll128 && comm.compute_capability >= 70)) return false;
  if (a == Algorithm::pat) return t.one_rank_per_node() && comm.compute_capability >= 60;
  if (a == Algorithm::nvls_tree) return !t.one_node();
  const int here = t.whole_ranks_per_node();
  if (a == Algorithm::nvls)
    return (t.one_node() || comm.collnet) && (kind == Kind::all_reduce || here <= most_nvls_heads);
  if (is_collnet(a) && (!comm.collnet || here > most_collnet_ranks)) return false;
  return a != Algorithm::collnet_direct || comm.nvswitch;
}

/// Channels' rate together, before what an algorithm and a protocol make of it.
double channels_rate(const Tuning& t, Kind kind, Algorithm a) {
  const NcclCommunicator& comm = t.comm;
  if (!is_nvls(a)) {
    const bool within = comm.nodes <= 2 || is_collnet(a);
    return comm.ring.channels * (within ? comm.ring.within : comm.ring.across);
  }
  const NcclGraph& graph = comm.nvls;
  if (graph.channels < 2) return 0;
  // A reduction and a broadcast overlap; a gather leaves out what a rank has itself.
  const double both = kind == Kind::all_reduce ? 2 : (t.ranks_per_node - 1) / t.ranks_per_node;
  const double within = graph.within * t.constants.nvls_efficiency[t.generation] *
                        (graph.channels - 1) / graph.channels * both;
  const bool tree = a == Algorithm::nvls_tree;
  double one = std::min(within, graph.across * (tree && comm.nodes <= 2 ? 2 : 1));
  if (tree) one = std::min(one, t.constants.nvls_tree_channel[t.generation][t.by_nodes]);
  return graph.channels * one;
}

double ring_rate(const Tuning& t, Protocol p, double bus) {
  if (p == Protocol::ll) return std::min(t.ll_most(), bus * 0.5);
  if (p == Protocol::simple) return bus;
  return std::min(bus * 0.92,
                  t.comm.ring.channels * t.constants.ring_ll128_channel[t.generation][t.by_nodes]);
}

double tree_rate(const Tuning& t, Protocol p, double bus) {
  const int channels = t.comm.ring.channels;
  double rate = std::min(bus * 0.92, channels * t.constants.tree_channel[t.generation][t.by_nodes]);
  if (p == Protocol::ll) rate = std::min(rate / 3.8, t.ll_most());
  if (p == Protocol::ll128)
    rate = std::min(rate * (t.one_node() ? 7.0 / 9.0 : 120.0 / 128.0),
                    channels * t.constants.tree_ll128_channel[t.generation][t.by_nodes]);
  return t.one_rank_per_node() ? rate * 0.85 : rate;  // plain trees instead of balanced ones
}

double collnet_direct_rate(const Tuning& t, Kind kind, double bus) {
  const NcclGraph& graph = t.comm.ring;
  if (is_half_of_all_reduce(kind))
    return t.ranks_per_node * std::min(graph.within, graph.across * 0.9);
  const double gpus_per_channel = t.ranks_per_node / graph.channels;
  const double rate = bus / (gpus_per_channel - (gpus_per_channel - 1) / 2);
  return t.comm.compute_capability >= 90 ? rate * 0.85 : rate;
}

/// As nccl-tests' bus bandwidth.
double bus_rate(const Tuning& t, Kind kind, Algorithm a, Protocol p) {
  const double bus = channels_rate(t, kind, a);
  switch (a) {
    case Algorithm::ring:
      return ring_rate(t, p, bus);
    case Algorithm::tree:
      return tree_rate(t, p, bus);
    case Algorithm::pat:
      return bus * 0.75;
    case Algorithm::collnet_direct:
      return collnet_direct_rate(t, kind, bus);
    default:
      return bus;
  }
}

double ring_latency_us(const Tuning& t, Kind kind, Protocol p) {
  const NcclCommunicator& comm = t.comm;
  const double steps = steps_of(comm, kind);
  const NcclHop hop = t.one_node() ? comm.hop : NcclHop::network;
  if (!is_half_of_all_reduce(kind) && kind != Kind::all_reduce) {
    // Where all rings are alike, a root's pieces follow each other; else every hop is waited for.
    const bool alike = t.one_node() || t.one_rank_per_node();
    if (alike) return t.hop_us(hop, Algorithm::ring, p);
    return steps * t.hop_us(hop, p == Protocol::simple ? Algorithm::tree : Algorithm::ring, p);
  }
  double within = t.hop_us(comm.hop, Algorithm::ring, p);
  if (t.one_node()) return steps * within;
  within = std::max(
      within, t.constants.network_overhead_us[at(comm.cpu)] * (p == Protocol::simple ? 3 : 1));
  const double across_steps = (kind == Kind::all_reduce ? 2.0 : 1.0) * (comm.nodes - 1);
  return (steps - across_steps) * within + across_steps * t.across_us(Algorithm::ring, p);
}

double latency_us(const Tuning& t, Kind kind, Algorithm a, Protocol p) {
  const double base = t.constants.base_us[at(a)][at(p)];
  const double within = t.hop_us(t.comm.hop, a, p);
  const double across = t.across_us(a, p);
  const int others_here = t.whole_ranks_per_node() - 1;
  switch (a) {
    case Algorithm::ring:
      return base + ring_latency_us(t, kind, p);
    case Algorithm::tree:
      return base + 2 * (others_here * within + t.log2_nodes() * across);
    case Algorithm::nvls:
      return within + (t.one_node() ? 0 : across);
    case Algorithm::nvls_tree:
      return base + within + 2 * t.log2_nodes() * across;
    case Algorithm::collnet_chain:
      return base + 2 * others_here * within + across;
    case Algorithm::collnet_direct:
      return base + 2 * (std::min(1, others_here) * within + others_here * 0.4) + across;
    case Algorithm::pat:
      return base + t.log2_nodes() * across / 3.5 + t.comm.ranks * 2.8;
  }
  return base;
}

/// Bytes of the collective per byte that goes over the bus.
double algorithm_share(const Tuning& t, Kind kind, Algorithm a) {
  if (a != Algorithm::ring && is_half_of_all_reduce(kind)) return 1;
  if (a == Algorithm::ring || is_nvls(a)) return t.comm.ranks / steps_of(t.comm, kind);
  return 0.5;
}

}  // namespace

NcclRate nccl_rate(const NcclCommunicator& comm, Kind kind, Algorithm algorithm,
                   Protocol protocol) {
  const Tuning tuning{comm};
  if (comm.ranks <= 1 || !enabled(tuning, kind, algorithm, protocol)) return {};
  return {.latency_us = latency_us(tuning, kind, algorithm, protocol) * comm.latency_factor,
          .bandwidth = bus_rate(tuning, kind, algorithm, protocol) *
                       algorithm_share(tuning, kind, algorithm)};
}

double nccl_time_us(const NcclCommunicator& comm, Kind kind, Algorithm algorithm, Protocol protocol,
                    const NcclRate& rate, Bytes bytes) {
  const NcclConstants& constants = nccl_constants();
  double latency = rate.latency_us;
  double bandwidth = rate.bandwidth;
  const auto lines = static_cast<std::uint64_t>(std::max<std::int64_t>(bytes.count, 0)) >> 6;
  const auto& corrections = constants.tree_correction[at(protocol)];
  const auto size = static_cast<std::size_t>(std::bit_width(lines));
  if (algorithm == Algorithm::tree && lines > 0 && size <= corrections.size())
    bandwidth *= corrections[size - 1];
  // NCCL runs two of its channels over each that it found.
  const std::int64_t shares = std::int64_t{2} * comm.ring.channels * comm.ranks;
  if (algorithm == Algorithm::ring && protocol == Protocol::simple && comm.nodes > 1 &&
      kind == Kind::all_reduce && shares > 0 && bytes.count / shares >= 64)
    latency *= constants.ring_plateau[at(nccl_generation(comm.compute_capability))];
  return latency + static_cast<double>(bytes.count) / (1000 * bandwidth);
}

int nccl_channels(const NcclCommunicator& comm, Algorithm algorithm, Protocol protocol,
                  Bytes bytes) {
  const Tuning t{comm};
  if (is_nvls(algorithm))
    return static_cast<int>(t.constants.nvls_channels[t.generation][t.by_nodes]);
  double least =
      t.constants.threads[at(protocol)] * t.constants.least_bytes_per_thread[at(protocol)];
  if (algorithm == Algorithm::ring && protocol == Protocol::ll) least *= comm.ranks;
  const double most = 2.0 * comm.ring.channels;
  return static_cast<int>(std::clamp(static_cast<double>(bytes.count) / least, 1.0, most));
}

NcclPick nccl_pick(const NcclCommunicator& comm, Kind kind, Bytes bytes) {
  NcclPick best;
  double least_us = 0;
  for (std::size_t a = 0; a < nccl_algorithm_count; ++a) {
    for (std::size_t p = 0; p < nccl_protocol_count; ++p) {
      const auto algorithm = static_cast<Algorithm>(a);
      const auto protocol = static_cast<Protocol>(p);
      const NcclRate rate = nccl_rate(comm, kind, algorithm, protocol);
      if (!(rate.bandwidth > 0)) continue;
      const double us = nccl_time_us(comm, kind, algorithm, protocol, rate, bytes);
      if (best.channels > 0 && us >= least_us) continue;
      least_us = us;
      best = {.algorithm = algorithm,
              .protocol = protocol,
              .channels = nccl_channels(comm, algorithm, protocol, bytes),
              .time = Duration::from_seconds(us * 1e-6)};
    }
  }
  return best;
}

}  // namespace shardscope
