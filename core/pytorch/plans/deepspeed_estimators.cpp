#include "core/pytorch/plans/deepspeed_estimators.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/base/error.h"

namespace shardscope {
namespace {

/// 2^53 / 18: up to here 18 bytes an element are exact in a double.
constexpr std::int64_t most_elements = 500'399'958'596'721;
constexpr int most_ranks = 1 << 24;

void check(const EstimatorModel& model, const EstimatorCluster& cluster) {
  for (const std::int64_t elements : {model.elements, model.largest_layer_elements})
    if (elements < 0 || elements > most_elements)
      throw Error({.where = "memory estimate",
                   .what = fmt::format("a model of {} elements", elements),
                   .way_out = fmt::format("give between 0 and {}", most_elements)});
  for (const int count : {cluster.gpus_per_node, cluster.nodes})
    if (count < 1 || count > most_ranks)
      throw Error({.where = "memory estimate",
                   .what = fmt::format("{} GPUs per node or nodes", count),
                   .way_out = fmt::format("give between 1 and {}", most_ranks)});
}

Bytes truncated(double bytes) {
  if (!(bytes > -9.2e18 && bytes < 9.2e18))
    throw Error({.where = "memory estimate",
                 .what = fmt::format("{} bytes cannot be counted", bytes),
                 .way_out = "check additional_buffer_factor"});
  return {static_cast<std::int64_t>(bytes)};
}

double elements_as_double(std::int64_t elements) { return static_cast<double>(elements); }

double ranks_of(const EstimatorCluster& cluster) {
  return static_cast<double>(cluster.gpus_per_node) * static_cast<double>(cluster.nodes);
}

/// int(bytes_per_element * elements / ranks).
Bytes spread(std::int64_t bytes_per_element, std::int64_t elements,
             const EstimatorCluster& cluster) {
  return truncated(elements_as_double(bytes_per_element * elements) / ranks_of(cluster));
}

/// Every rank of a node builds the whole model in float32 before it is split.
double whole_model_per_rank(const EstimatorCluster& cluster) { return 4.0 * cluster.gpus_per_node; }

double zero3_cpu(const EstimatorModel& model, const EstimatorCluster& cluster,
                 const EstimatorOffload& offload) {
  const double factor = cluster.additional_buffer_factor;
  if (!offload.optimizer) {
    const std::int64_t built = offload.zero_init ? model.largest_layer_elements : model.elements;
    return elements_as_double(built) * whole_model_per_rank(cluster) * factor;
  }
  const double node_share = 1.0 / cluster.nodes;
  const double kept = offload.parameters ? 18 : 16;  // bytes an element
  if (offload.zero_init) return elements_as_double(model.elements) * kept * node_share * factor;
  return elements_as_double(model.elements) *
         std::max(whole_model_per_rank(cluster), kept * node_share) * factor;
}

Bytes zero3_gpu(const EstimatorModel& model, const EstimatorCluster& cluster,
                const EstimatorOffload& offload) {
  if (!offload.optimizer) return spread(18, model.elements, cluster);
  return offload.parameters ? Bytes{} : spread(2, model.elements, cluster);
}

}  // namespace

EstimatorModel estimator_model(const ModuleTree& tree) {
  EstimatorModel model;
  for (const TreeParameter& parameter : tree.parameters)
    if (!parameter.same_as) model.elements += parameter.elements();
  for (const TreeModule& module : tree.modules) {
    std::vector<std::int32_t> seen;  // a module that holds one parameter twice lists it once
    std::int64_t own = 0;
    for (const std::int32_t slot : module.parameters) {
      const TreeParameter& parameter = tree.parameters[static_cast<std::size_t>(slot)];
      const std::int32_t object = parameter.same_as.value_or(slot);
      if (std::find(seen.begin(), seen.end(), object) != seen.end()) continue;
      seen.push_back(object);
      own += parameter.elements();
    }
    model.largest_layer_elements = std::max(model.largest_layer_elements, own);
  }
  return model;
}

MemoryEstimate estimate_zero2(const EstimatorModel& model, const EstimatorCluster& cluster,
                              const EstimatorOffload& offload) {
  check(model, cluster);
  const double elements = elements_as_double(model.elements);
  const double factor = cluster.additional_buffer_factor;
  const Bytes parameters{2 * model.elements};
  if (offload.optimizer)
    return {.per_node_cpu = truncated(elements * std::max(4.0 * ranks_of(cluster), 16.0) * factor),
            .per_gpu = parameters,
            .largest_layer = {}};
  return {.per_node_cpu = truncated(elements * whole_model_per_rank(cluster) * factor),
          .per_gpu = parameters + spread(18, model.elements, cluster),
          .largest_layer = {}};
}

MemoryEstimate estimate_zero3(const EstimatorModel& model, const EstimatorCluster& cluster,
                              const EstimatorOffload& offload) {
  check(model, cluster);
  const Bytes layer{4 * model.largest_layer_elements};
  return {.per_node_cpu = truncated(zero3_cpu(model, cluster, offload)),
          .per_gpu = layer + zero3_gpu(model, cluster, offload),
          .largest_layer = layer};
}

std::vector<EstimateRow> estimate_all(const EstimatorModel& model,
                                      const EstimatorCluster& cluster) {
  std::vector<EstimateRow> rows;
  for (const bool optimizer : {true, false}) {
    const EstimatorOffload offload{.optimizer = optimizer, .parameters = false, .zero_init = false};
    rows.push_back(
        {.stage = 2, .offload = offload, .memory = estimate_zero2(model, cluster, offload)});
  }
  constexpr std::array<std::array<bool, 2>, 3> offloads{{{true, true}, {true, false}, {}}};
  for (const auto& [optimizer, parameters] : offloads)
    for (const bool zero_init : {true, false}) {
      const EstimatorOffload offload{
          .optimizer = optimizer, .parameters = parameters, .zero_init = zero_init};
      rows.push_back(
          {.stage = 3, .offload = offload, .memory = estimate_zero3(model, cluster, offload)});
    }
  return rows;
}

}  // namespace shardscope
