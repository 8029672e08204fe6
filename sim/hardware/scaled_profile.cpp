#include "sim/hardware/scaled_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <string_view>
#include <utility>

namespace shardscope {
namespace {

void multiply(FlopRate& rate, double factor) { rate.flops_per_s *= factor; }
void multiply(Bandwidth& rate, double factor) { rate.bytes_per_s *= factor; }
void multiply(Duration& time, double factor) {
  time = Duration::from_seconds(time.seconds() * factor);
}

template <class Quantity>
void multiply(std::optional<Quantity>& quantity, double factor) {
  if (quantity) multiply(*quantity, factor);
}

bool is_product(const Kernel& kernel) {
  return is_linear(kernel.kind()) || is_attention(kernel.kind());
}

/// The figures of these names, where the profile has them, are nobody's any more.
void mark(HardwareProfile& profile, std::initializer_list<std::string_view> figures,
          double factor) {
  for (const std::string_view figure : figures) {
    const auto found = profile.provenance.find(figure);
    if (found == profile.provenance.end()) continue;
    found->second.origin = Origin::assumed;
    found->second.source = fmt::format("what if: x {:g} of: {}", factor, found->second.source);
  }
}

void scale_flop_rate(HardwareProfile& profile, double factor) {
  multiply(profile.peak, factor);
  multiply(profile.peak_bfloat16, factor);
  if (profile.gpu) {
    multiply(profile.gpu->float32, factor);
    for (auto* rate :
         {&profile.gpu->tf32, &profile.gpu->float16, &profile.gpu->bfloat16, &profile.gpu->float8})
      multiply(*rate, factor);
  }
  for (KernelSample& sample : profile.kernels)
    if (is_product(sample.kernel)) multiply(sample.time, 1 / factor);
  mark(profile, {"peak", "peak_bfloat16", "gpu", "kernels"}, factor);
}

void scale_memory_bandwidth(HardwareProfile& profile, double factor) {
  multiply(profile.memory_bandwidth, factor);
  for (KernelSample& sample : profile.kernels)
    if (!is_product(sample.kernel)) multiply(sample.time, 1 / factor);
  mark(profile, {"memory_bandwidth", "kernels"}, factor);
}

void scale_memory(HardwareProfile& profile, double factor) {
  profile.memory.count =
      static_cast<std::int64_t>(static_cast<double>(profile.memory.count) * factor);
  mark(profile, {"memory"}, factor);
}

/// A curve's shortest time is its latency.
void scale_samples(HardwareProfile& profile, double latency, double bandwidth) {
  std::map<std::pair<OperationKind, int>, Duration> shortest;
  for (const CollectiveSample& sample : profile.collectives) {
    const auto [place, is_new] = shortest.try_emplace({sample.kind, sample.ranks}, sample.time);
    if (!is_new) place->second = std::min(place->second, sample.time);
  }
  for (CollectiveSample& sample : profile.collectives) {
    const double hop = shortest.at({sample.kind, sample.ranks}).seconds();
    sample.time = Duration::from_seconds(hop * latency + (sample.time.seconds() - hop) / bandwidth);
  }
}

void scale_link_bandwidth(HardwareProfile& profile, double factor) {
  if (profile.link) multiply(profile.link->bandwidth, factor);
  if (profile.node) profile.node->efficiency *= factor;
  scale_samples(profile, 1, factor);
  mark(profile, {"link", "node", "collectives"}, factor);
}

void scale_network_bandwidth(HardwareProfile& profile, double factor) {
  if (profile.network) multiply(profile.network->bandwidth, factor);
  if (profile.interconnect) multiply(profile.interconnect->rate, factor);
  mark(profile, {"network", "interconnect"}, factor);
}

void scale_latency(HardwareProfile& profile, double factor) {
  for (auto* link : {&profile.link, &profile.network})
    if (*link) multiply((*link)->latency, factor);
  if (profile.node) profile.node->latency_factor *= factor;
  scale_samples(profile, factor, 1);
  mark(profile, {"link", "network", "node", "collectives"}, factor);
}

void scale_host(HardwareProfile& profile, double factor) {
  multiply(profile.operation_overhead, factor);
  multiply(profile.graph_operation_overhead, factor);
  multiply(profile.module_hook, factor);
  if (profile.host) {
    multiply(profile.host->operation, factor);
    multiply(profile.host->view, factor);
  }
  mark(profile, {"operation_overhead", "graph_operation_overhead", "module_hook", "host"}, factor);
}

/// In the order of `machine_figures`.
constexpr void (*appliers[])(HardwareProfile&, double) = {
    scale_flop_rate,         scale_memory_bandwidth, scale_memory, scale_link_bandwidth,
    scale_network_bandwidth, scale_latency,          scale_host};
static_assert(std::size(appliers) == machine_figures.size());

}  // namespace

HardwareProfile scaled(HardwareProfile profile, const MachineScales& scales) {
  for (std::size_t i = 0; i < machine_figures.size(); ++i) {
    const double factor = scales.*machine_figures[i].factor;
    if (factor != 1) appliers[i](profile, factor);
  }
  return profile;
}

std::string text_of(const MachineScales& scales) {
  std::string text;
  for (const MachineFigure& figure : machine_figures)
    if (const double factor = scales.*figure.factor; factor != 1)
      text += fmt::format("{}{} x {:g}", text.empty() ? "" : ", ", figure.name, factor);
  return text;
}

}  // namespace shardscope
