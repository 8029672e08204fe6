#include "core/pytorch/runtimes/training/fsdp1_model.h"

#include <utility>

#include "core/pytorch/runtimes/fsdp1/clip.h"
#include "core/pytorch/runtimes/fsdp1/optimizer_state.h"
#include "core/pytorch/runtimes/fsdp1/state_dict.h"

namespace shardscope::eager {

Fsdp1Model::Fsdp1Model(Session& s, fsdp1::FullySharded::Input input)
    : world_(input.groups.world), sharded_(s, std::move(input)) {}

std::shared_ptr<void> Fsdp1Model::without_sync(Session& s) {
  sharded_.begin_no_sync(s);
  return {nullptr, [this](void*) { sharded_.end_no_sync(); }};
}

void Fsdp1Model::clip(Session& s) { fsdp1::clip_grad_norm(s, sharded_); }

NamedTensors Fsdp1Model::full_state_dict(Session& s, const FullStateDict& wanted) {
  fsdp1::StateDict dict = fsdp1::state_dict(
      s, sharded_, {.rank0_only = wanted.cpu_offload, .offload_to_cpu = wanted.cpu_offload});
  if (wanted.trainable_only) {
    const std::unordered_set<std::string> frozen = fsdp1::frozen_parameters(sharded_);
    std::erase_if(dict,
                  [&](const fsdp1::StateEntry& entry) { return frozen.contains(entry.name); });
  }
  NamedTensors entries;
  for (fsdp1::StateEntry& entry : dict) entries.emplace_back(entry.name, std::move(entry.tensor));
  return entries;
}

std::optional<Tensors> Fsdp1Model::full_optimizer_state(Session& s,
                                                        const ParameterOptimizer& optimizer,
                                                        bool cpu_offload) {
  fsdp1::StateDict dict = fsdp1::optimizer_state_dict(
      s, sharded_, optimizer, {.rank0_only = cpu_offload, .offload_to_cpu = cpu_offload});
  Tensors tensors;
  for (fsdp1::StateEntry& entry : dict) tensors.push_back(std::move(entry.tensor));
  return tensors;
}

}  // namespace shardscope::eager
