// What a cluster of GPU nodes is made of: the GPU's data sheet, the fabric of a node, and what
// connects the nodes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/clock_and_power.h"
#include "core/base/quantities.h"

namespace shardscope {

/// A GPU as its data sheet states it; peaks are dense products' at the boost clock.
struct Gpu {
  std::string name;  ///< "H100 SXM5 80GB"
  int multiprocessors = 0;
  Frequency boost_clock;
  Bytes l2_cache;
  Power power_limit;
  FlopRate float32;                 ///< outside of the tensor cores
  std::optional<FlopRate> tf32;     ///< of the tensor cores, as all below
  std::optional<FlopRate> float16;  ///< that accumulate in float32
  std::optional<FlopRate> bfloat16;
  std::optional<FlopRate> float8;
  bool operator==(const Gpu&) const = default;
};

/// How the GPUs of a node reach each other.
enum class Fabric : std::uint8_t {
  nvswitch,      ///< every pair at the full rate of all links
  nvlink_mesh,   ///< every pair directly, the links divided among the others
  nvlink_pairs,  ///< a bridge between GPUs 0-1, 2-3, ..; PCIe between pairs
  pcie,
};
std::string_view name_of(Fabric fabric);

/// Whose the host's processors are: NCCL's costs between nodes depend on it.
enum class CpuVendor : std::uint8_t { intel, amd, arm };
std::string_view name_of(CpuVendor vendor);

/// The GPUs that reach each other without a network: a server, or an NVLink domain of several.
struct Node {
  int gpus = 8;
  Fabric fabric = Fabric::nvswitch;
  int nvlinks = 0;           ///< of one GPU
  int pcie_generation = 0;   ///< of the GPUs' slots, 16 lanes each
  bool peer_to_peer = true;  ///< GPUs copy to each other over PCIe; else through the host's memory
  /// One direction between the two halves of a node that has no switch among all GPUs (sockets,
  /// or their memory).
  std::optional<Bandwidth> host_bridge;
  CpuVendor cpu = CpuVendor::intel;
  std::optional<Bandwidth> host_memory_bandwidth;  ///< of all sockets together
  /// Share of the rate that NCCL reckons with for its links; more than 1: what if they were faster.
  double efficiency = 1;
  double latency_factor = 1;  ///< on the latencies that NCCL reckons with, adapters' included
  bool operator==(const Node&) const = default;
};

/// How a node's network adapters move data.
enum class NetworkKind : std::uint8_t {
  infiniband,
  roce,  ///< RDMA over Ethernet
  tcp,   ///< the host's sockets, without RDMA
};
std::string_view name_of(NetworkKind kind);

/// What connects the nodes. GPU g of a node sends through adapter g * adapters / gpus: its rail.
struct Interconnect {
  NetworkKind kind = NetworkKind::infiniband;
  int adapters = 0;        ///< of one node
  Bandwidth rate;          ///< of one adapter, one direction
  Duration latency;        ///< of an adapter: NCCL's plug-ins state 0 us, sockets do not say
  bool gpu_direct = true;  ///< adapters read and write the GPUs' memory
  double efficiency = 1;   ///< share of `rate` that payload gets
  /// Rate into the leaf switches over rate out of them: 1 is a full fat tree.
  double oversubscription = 1;
  int nodes_per_leaf = 1;  ///< nodes that share one set of leaf switches
  bool collnet = false;    ///< switches reduce (SHARP) and NCCL is told to use it
  bool operator==(const Interconnect&) const = default;
};

}  // namespace shardscope
