#include "core/pytorch/runtimes/training/fsdp2_model.h"

#include <algorithm>
#include <utility>

#include "core/pytorch/runtimes/fsdp2/clip_grad_norm.h"
#include "core/pytorch/runtimes/fsdp2/state_dict.h"

namespace shardscope::eager {

Fsdp2Model::Fsdp2Model(Session& s, std::shared_ptr<Module> module, ProcessGroups& groups,
                       const std::vector<int>& mesh, std::vector<FullyShardStep> calls)
    : module_(std::move(module)), sharded_(s, groups), mesh_(sharded_.mesh(mesh)) {
  shard(std::move(calls));
}

Fsdp2Model::Fsdp2Model(Session& s, std::shared_ptr<Module> module, ProcessGroups& groups,
                       fsdp2::MeshInfoRef mesh, std::vector<FullyShardStep> calls)
    : module_(std::move(module)), sharded_(s, groups), mesh_(std::move(mesh)) {
  shard(std::move(calls));
}

void Fsdp2Model::shard(std::vector<FullyShardStep> calls) {
  for (FullyShardStep& call : calls) {
    call.options.mesh = mesh_;
    sharded_.fully_shard(call.modules, call.options);
  }
}

std::shared_ptr<void> Fsdp2Model::without_sync(Session&) {
  sharded_.set_requires_gradient_sync(*module_, false);
  return {nullptr, [this](void*) { sharded_.set_requires_gradient_sync(*module_, true); }};
}

void Fsdp2Model::clip(Session& s) { fsdp2::clip_grad_norm(s, parameters(), *mesh_->shard); }

NamedTensors Fsdp2Model::full_state_dict(Session& s, const FullStateDict& wanted) {
  fsdp2::StateDict dict =
      fsdp2::get_model_state_dict(s, sharded_, *module_,
                                  {.full_state_dict = true,
                                   .cpu_offload = wanted.cpu_offload,
                                   .ignore_frozen_params = wanted.trainable_only});
  NamedTensors entries;
  for (fsdp2::StateDict::Entry& entry : dict.entries)
    entries.emplace_back(entry.name, std::move(entry.tensor));
  return entries;
}

std::optional<Tensors> Fsdp2Model::full_optimizer_state(Session& s,
                                                        const ParameterOptimizer& optimizer,
                                                        bool cpu_offload) {
  const NoGrad no_grad(s);
  return fsdp2::get_optimizer_state_dict(s, sharded_, *module_, optimizer,
                                         {.full_state_dict = true, .cpu_offload = cpu_offload});
}

/// Shards stay on the device until their file is written, one after the other.
Bytes Fsdp2Model::save_shards(Session& s, const ParameterOptimizer& optimizer,
                              bool trainable_only) {
  Bytes model, states;
  for (const auto& entry :
       fsdp2::get_model_state_dict(s, sharded_, *module_, {.ignore_frozen_params = trainable_only})
           .entries)
    model += entry.tensor.bytes();
  for (const Tensor& state : fsdp2::get_optimizer_state_dict(s, sharded_, *module_, optimizer, {}))
    states += state.bytes();
  return std::max(model, states);
}

}  // namespace shardscope::eager
