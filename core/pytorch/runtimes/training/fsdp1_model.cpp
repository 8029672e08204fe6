#include "core/pytorch/runtimes/training/fsdp1_model.h"

#include <utility>

#include <algorithm>

#include "core/pytorch/runtimes/fsdp1/clip.h"
#include "core/pytorch/runtimes/fsdp1/optimizer_state.h"

namespace shardscope::eager {

Fsdp1Model::Fsdp1Model(Session& s, fsdp1::FullySharded::Input input)
    : world_(input.groups.world), sharded_(s, std::move(input)) {}

std::shared_ptr<void> Fsdp1Model::without_sync(Session& s) {
  sharded_.begin_no_sync(s);
  return {nullptr, [this](void*) { sharded_.end_no_sync(); }};
}

void Fsdp1Model::clip(Session& s) { fsdp1::clip_grad_norm(s, sharded_); }

void Fsdp1Model::drop_frozen(fsdp1::StateDict& dict) const {
  const std::unordered_set<std::string> frozen = fsdp1::frozen_parameters(sharded_);
  std::erase_if(dict, [&](const fsdp1::StateEntry& entry) { return frozen.contains(entry.name); });
}

NamedTensors Fsdp1Model::full_state_dict(Session& s, const FullStateDict& wanted) {
  fsdp1::StateDict dict = fsdp1::state_dict(
      s, sharded_, {.rank0_only = wanted.cpu_offload, .offload_to_cpu = wanted.cpu_offload});
  if (wanted.trainable_only) drop_frozen(dict);
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

/// PEFT takes the adapter out of the whole state, so that what is frozen is in it.
Bytes Fsdp1Model::save_shards(Session& s, const ParameterOptimizer& optimizer, bool) {
  const auto bytes_of = [](const fsdp1::StateDict& dict) {
    Bytes sum;
    for (const fsdp1::StateEntry& entry : dict)
      if (entry.tensor) sum += entry.tensor.bytes();
    return sum;
  };
  const Bytes model = bytes_of(fsdp1::state_dict(
      s, sharded_, {.type = fsdp1::StateDictType::sharded, .offload_to_cpu = true}));
  const Bytes states = bytes_of(fsdp1::optimizer_state_dict(
      s, sharded_, optimizer, {.sharded = true, .offload_to_cpu = true}));
  return std::max(model, states);
}

void Fsdp1Model::load_state(Session& s, bool shards, bool trainable_only) {
  const auto type = shards ? fsdp1::StateDictType::sharded : fsdp1::StateDictType::full;
  // Shards are read into the state that the model has, of which PEFT takes the adapter.
  fsdp1::StateDict state =
      shards ? fsdp1::state_dict(s, sharded_, {.type = type, .offload_to_cpu = true})
             : fsdp1::StateDict();
  if (trainable_only) drop_frozen(state);
  fsdp1::load_state_dict(s, sharded_, state, type);
}

Bytes Fsdp1Model::largest_unit(bool trains) const {
  Bytes largest;
  for (const auto& unit : sharded_.units())
    if (unit->handle && (!trains || unit->handle->flat().requires_grad()))
      largest = std::max(
          largest, bytes_of(unit->handle->unpadded_elements(), unit->handle->original_dtype()));
  return largest;
}

}  // namespace shardscope::eager
