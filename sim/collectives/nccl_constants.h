// The constants of NCCL's own performance model, from sim/collectives/nccl_2.28.9.json.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/hardware/cluster.h"
#include "sim/hardware/provenance.h"

namespace shardscope {

enum class NcclAlgorithm : std::uint8_t {
  tree,
  ring,
  collnet_direct,
  collnet_chain,
  nvls,
  nvls_tree,
  pat
};
inline constexpr std::size_t nccl_algorithm_count = 7;
std::string_view name_of(NcclAlgorithm algorithm);  ///< as NCCL's profiler writes it: "NVLS_TREE"

enum class NcclProtocol : std::uint8_t { ll, ll128, simple };
inline constexpr std::size_t nccl_protocol_count = 3;
std::string_view name_of(NcclProtocol protocol);  ///< "LL", "LL128", "SIMPLE"

/// Generations of GPUs that NCCL's tables tell apart.
enum class NcclGeneration : std::uint8_t { volta, ampere, hopper, blackwell };
inline constexpr std::size_t nccl_generation_count = 4;
NcclGeneration nccl_generation(int compute_capability);  ///< 90 is 9.0

/// What a hop from GPU to GPU goes over.
enum class NcclHop : std::uint8_t { nvlink, pcie, network };
inline constexpr std::size_t nccl_hop_count = 3;

/// Rates in GB/s (10^9), times in us, as NCCL counts them.
struct NcclConstants {
  template <class T>
  using ByGeneration = std::array<T, nccl_generation_count>;
  using ByProtocol = std::array<double, nccl_protocol_count>;
  using ByAlgorithm = std::array<ByProtocol, nccl_algorithm_count>;
  using ByNodes = std::array<double, 3>;  ///< on one node, two, more
  static constexpr std::size_t correction_steps = 23;

  Provenance provenance;
  ByAlgorithm base_us{};
  std::array<ByAlgorithm, nccl_hop_count> hop_us{};
  /// LL at most; on several nodes by the processors' vendor: Intel's as Volta, AMD's as Ampere.
  ByGeneration<ByNodes> ll_most{};
  ByGeneration<ByNodes> ring_ll128_channel{};
  ByGeneration<ByNodes> tree_ll128_channel{};
  ByGeneration<ByNodes> tree_channel{};
  ByGeneration<ByNodes> nvls_tree_channel{};
  ByGeneration<double> nvls_efficiency{};
  ByGeneration<double> ring_plateau{};  ///< on the latency of Simple all-reduces that fill a ring
  /// On the rate of tree all-reduces, from 64 B by powers of two.
  std::array<std::array<double, correction_steps>, nccl_protocol_count> tree_correction{};
  ByProtocol threads{};                 ///< of a channel's thread block
  ByProtocol least_bytes_per_thread{};  ///< fewer channels run where there are less; LL: of a rank
  ByGeneration<ByNodes> nvls_channels{};
  std::array<double, 3> network_overhead_us{};  ///< by CpuVendor, of a step between nodes
  std::vector<std::pair<int, double>> nvlink;   ///< one link, by compute capability, ascending
  double pcie3_x16 = 0;
  ByGeneration<std::vector<double>> speeds_within;  ///< of channels that the search tries, falling
  ByGeneration<std::vector<double>> speeds_across;
};

/// Read once from the text that is built in.
const NcclConstants& nccl_constants();

/// One NVLink of a GPU of this compute capability, one direction.
double nvlink_rate(const NcclConstants& constants, int compute_capability);

}  // namespace shardscope
