#include "sim/collectives/nccl_constants.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "core/format/json_reader.h"
#include "sim/collectives/nccl_constants_text.h"
#include "sim/hardware/figure_json.h"

namespace shardscope {
namespace {

constexpr std::string_view algorithm_names[] = {
    "TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT"};
constexpr std::string_view protocol_names[] = {"LL", "LL128", "SIMPLE"};
constexpr std::string_view generation_names[] = {"volta", "ampere", "hopper", "blackwell"};
constexpr std::string_view hop_names[] = {"nvlink", "pcie", "network"};

template <std::size_t n>
std::array<double, n> read_numbers(const JsonValue& value) {
  if (value.size() != n) throw value.error("expected " + std::to_string(n) + " numbers");
  std::array<double, n> numbers{};
  for (std::size_t i = 0; i < n; ++i) numbers[i] = value[i].number(0);
  return numbers;
}

std::vector<double> read_list(const JsonValue& value) {
  std::vector<double> numbers;
  for (const JsonValue& element : value.elements()) numbers.push_back(element.number(0));
  return numbers;
}

/// One entry for each of `names`, in their order.
template <class T, std::size_t n>
std::array<T, n> read_each(const JsonValue& value, const std::string_view (&names)[n],
                           T (*read)(const JsonValue&)) {
  std::array<T, n> all{};
  for (std::size_t i = 0; i < n; ++i) all[i] = read(value.at(names[i]));
  return all;
}

double read_number(const JsonValue& value) { return value.number(0); }

NcclConstants::ByAlgorithm read_latencies(const JsonValue& value) {
  return read_each(value, algorithm_names, read_numbers<nccl_protocol_count>);
}

std::vector<std::pair<int, double>> read_nvlink(const JsonValue& value) {
  std::vector<std::pair<int, double>> rates;
  for (const auto& [key, rate] : value.members()) {
    int capability = 0;
    std::from_chars(key.data(), key.data() + key.size(), capability);
    rates.emplace_back(capability, rate.number(0));
  }
  std::ranges::sort(rates);
  return rates;
}

NcclConstants read_constants() {
  const JsonValue root = JsonValue::parse(nccl_constants_text(), "nccl_2.28.9.json");
  const auto table = [&](std::string_view key) {
    return read_each(root.at(key), generation_names, read_numbers<3>);
  };
  const auto factors = [&](std::string_view key) {
    return read_each(root.at(key), generation_names, read_number);
  };
  constexpr std::string_view vendors[] = {"intel", "amd", "arm"};
  return {
      .provenance = read_provenance(root),
      .base_us = read_latencies(root.at("base_latency_us")),
      .hop_us = read_each(root.at("hop_latency_us"), hop_names, read_latencies),
      .ll_most = table("ll_most_gb_per_s"),
      .ring_ll128_channel = table("ring_ll128_channel_gb_per_s"),
      .tree_ll128_channel = table("tree_ll128_channel_gb_per_s"),
      .tree_channel = table("tree_channel_gb_per_s"),
      .nvls_tree_channel = table("nvls_tree_channel_gb_per_s"),
      .nvls_efficiency = factors("nvls_efficiency"),
      .ring_plateau = factors("ring_plateau"),
      .tree_correction = read_each(root.at("tree_correction"), protocol_names,
                                   read_numbers<NcclConstants::correction_steps>),
      .threads = read_each(root.at("threads"), protocol_names, read_number),
      .least_bytes_per_thread =
          read_each(root.at("least_bytes_per_thread"), protocol_names, read_number),
      .nvls_channels = table("nvls_channels"),
      .network_overhead_us = read_each(root.at("network_overhead_us"), vendors, read_number),
      .nvlink = read_nvlink(root.at("nvlink_gb_per_s")),
      .pcie3_x16 = root.at("pcie3_x16_gb_per_s").number(0),
      .speeds_within = read_each(root.at("speeds_within_gb_per_s"), generation_names, read_list),
      .speeds_across = read_each(root.at("speeds_across_gb_per_s"), generation_names, read_list)};
}

}  // namespace

std::string_view name_of(NcclAlgorithm algorithm) {
  return algorithm_names[static_cast<std::size_t>(algorithm)];
}

std::string_view name_of(NcclProtocol protocol) {
  return protocol_names[static_cast<std::size_t>(protocol)];
}

NcclGeneration nccl_generation(int compute_capability) {
  if (compute_capability >= 100) return NcclGeneration::blackwell;
  if (compute_capability >= 90) return NcclGeneration::hopper;
  return compute_capability >= 80 ? NcclGeneration::ampere : NcclGeneration::volta;
}

const NcclConstants& nccl_constants() {
  static const NcclConstants constants = read_constants();
  return constants;
}

double nvlink_rate(const NcclConstants& constants, int compute_capability) {
  double rate = constants.nvlink.front().second;
  for (const auto& [capability, one] : constants.nvlink)
    if (capability <= compute_capability) rate = one;
  return rate;
}

}  // namespace shardscope
