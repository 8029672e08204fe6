#include "sim/planner/offload.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "sim/cost/cost_model.h"
#include "sim/prediction/run_facts.h"

namespace shardscope::planner {
namespace {

using eager::DeepSpeedSetup;
using eager::Fsdp1Setup;
using eager::Fsdp2Setup;

std::int64_t share_of(std::int64_t elements, std::int64_t ranks) {
  return (elements + ranks - 1) / std::max<std::int64_t>(1, ranks);
}

/// Of so many elements that train, `size` bytes each.
std::int64_t bytes_of_states(std::int64_t elements, std::int64_t size,
                             const eager::OptimizerSettings& optimizer) {
  if (optimizer.bitsandbytes) {
    constexpr std::int64_t block = 256, scale = 4;  // of states in 8 bits
    const std::int64_t moment = elements * optimizer.bitsandbytes->bits / 8 +
                                (optimizer.bitsandbytes->bits == 8 ? elements / block * scale : 0);
    return optimizer.bitsandbytes->one_moment ? moment : 2 * moment;
  }
  const std::int64_t moment = elements * size;
  if (optimizer.rule == eager::OptimizerRule::adafactor) return moment;  // of what FSDP flattens
  if (optimizer.rule != eager::OptimizerRule::sgd) return 2 * moment;
  return optimizer.momentum ? moment : 0;
}

Bytes fsdp_states(const Model& model, const eager::TrainingSetup& setup, std::int64_t shards) {
  const std::int64_t size = size_of(eager::stored_dtype(model, setup)).count;
  const std::int64_t trained = share_of(model.trainable_elements(), shards);
  return {share_of(model.parameter_elements(), shards) * size + trained * size +
          bytes_of_states(trained, size, setup.loop.optimizer)};
}

std::optional<Bytes> of(const Fsdp1Setup& fsdp, const Model& model,
                        const eager::TrainingSetup& setup) {
  if (!fsdp.options.offload_parameters) return std::nullopt;
  const bool hybrid = is_hybrid(fsdp.units.strategy);
  const int node = fsdp.units.mesh ? fsdp.units.mesh->shard : fsdp.units.ranks_per_node;
  return fsdp_states(model, setup, hybrid ? node : setup.world);
}

std::optional<Bytes> of(const Fsdp2Setup& fsdp, const Model& model,
                        const eager::TrainingSetup& setup) {
  if (!fsdp.offload) return std::nullopt;
  return fsdp_states(model, setup, fsdp.mesh.empty() ? setup.world : fsdp.mesh.back());
}

std::optional<Bytes> of(const DeepSpeedSetup& zero, const Model& model,
                        const eager::TrainingSetup& setup) {
  const DeepSpeedSettings& settings = zero.settings;
  if (settings.offload_optimizer.device == OffloadDevice::none) return std::nullopt;
  constexpr std::int64_t master_gradient_and_states = 16, parameter = 2;
  Bytes bytes{share_of(model.trainable_elements(), setup.world) * master_gradient_and_states};
  if (settings.offload_param.device != OffloadDevice::none)
    bytes += Bytes{share_of(model.parameter_elements(), setup.world) * parameter};
  return bytes;
}

template <class Runtime>
std::optional<Bytes> of(const Runtime&, const Model&, const eager::TrainingSetup&) {
  return std::nullopt;
}

/// How the host's part of a step is timed, for people.
std::string timed_offload(const eager::TrainingSetup& setup, const HardwareProfile& profile) {
  const auto* zero = std::get_if<DeepSpeedSetup>(&setup.runtime);
  const bool nvme = zero && (zero->settings.offload_optimizer.device == OffloadDevice::nvme ||
                             zero->settings.offload_param.device == OffloadDevice::nvme);
  std::string text = offload_timing(profile);
  return nvme ? text + "; NVMe is taken for the host's memory" : text;
}

}  // namespace

std::optional<Bytes> host_states(const Model& model, const eager::TrainingSetup& setup) {
  return std::visit([&](const auto& runtime) { return of(runtime, model, setup); }, setup.runtime);
}

Bytes host_states_of_node(const Model& model, const eager::TrainingSetup& setup,
                          const HardwareProfile& profile) {
  return host_states(model, setup).value_or(Bytes{}) * ranks_of_node(profile, setup.world);
}

void add_offloaded(const Model& model, const eager::TrainingSetup& setup,
                   const HardwareProfile& profile, Summary& summary) {
  summary.host_memory = host_states(model, setup);
  if (!summary.host_memory) return;
  summary.host_memory_of_node = host_states_of_node(model, setup, profile);
  if (std::string text = timed_offload(setup, profile); !text.empty())
    summary.assumed.push_back(std::move(text));
}

}  // namespace shardscope::planner
