#include "core/pytorch/runtimes/fsdp2/state_dict.h"

#include <algorithm>
#include <unordered_set>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/runtimes/common/collectives.h"
#include "core/pytorch/runtimes/common/object_collectives.h"

namespace shardscope::eager::fsdp2 {
namespace {

void add_entries(FullySharded& sharded, Module& module, StateDict& dict) {
  const std::string prefix = module.name.empty() ? "" : module.name + ".";
  for (const Module::NamedTensor& own : module.parameters)
    if (own.tensor.defined())
      dict.entries.push_back({.name = prefix + own.name,
                              .tensor = own.tensor,
                              .parameter = sharded.parameter_of(own.tensor)});
  for (const Module::NamedTensor& own : module.buffers)
    if (own.tensor.defined() && own.persistent)
      dict.entries.push_back({.name = prefix + own.name, .tensor = own.tensor});
  for (const Module::Child& child : module.children)
    if (child.module) add_entries(sharded, *child.module, dict);
}

/// The dimension's size on every rank but the last ones: DTensor pads to it.
std::int64_t padded_rows(const Parameter& p) { return p.padded_sharded_size()[p.shard_dim()]; }

/// DTensor.redistribute(Replicate()): shards are padded, gathered along dimension 0, put side by
/// side and cut to size.
Tensor gathered(Session& s, const Parameter& p, const Tensor& shard) {
  const NoGrad no_grad(s);
  const ProcessGroup& group = *p.mesh().shard;
  Tensor input = shard;
  if (shard.size(p.shard_dim()) != padded_rows(p)) {
    input = new_zeros(s, shard, p.padded_sharded_size());
    if (shard.numel() > 0)
      copy_(s, narrow(s, input, p.shard_dim(), 0, shard.size(p.shard_dim())), shard);
  }
  Tensor whole = functional_all_gather(s, group, input);
  if (p.shard_dim() != 0) whole = cat(s, chunk(s, whole, group.size(), 0), p.shard_dim());
  if (whole.size(p.shard_dim()) != p.size()[p.shard_dim()])
    whole = narrow(s, whole, p.shard_dim(), 0, p.size()[p.shard_dim()]);
  wait_tensor(s, whole);
  return whole;
}

/// named_parameters() has a tied parameter once: its other entries stay.
void erase_frozen(StateDict& dict) {
  std::unordered_set<const Parameter*> seen;
  std::erase_if(dict.entries, [&](const StateDict::Entry& entry) {
    return entry.parameter && !entry.tensor.requires_grad() && seen.insert(entry.parameter).second;
  });
}

/// _maybe_full_or_cpu_state_dict's ranks_only.
bool is_for_rank_0(const StateDictOptions& options) {
  return options.full_state_dict && options.cpu_offload;
}

Tensor as_asked(Session& s, const Parameter* parameter, const Tensor& tensor,
                const StateDictOptions& options, bool is_rank_0) {
  Tensor result = tensor;
  if (options.full_state_dict && parameter) result = gathered(s, *parameter, result);
  if (is_for_rank_0(options) && !is_rank_0) return {};
  if (options.cpu_offload) result = to(s, result, {.device = Device::cpu});
  return result;
}

/// The caller's whole tensor on the GPU; null: it is not given.
Tensor on_device(Session& s, const StateDict& given, std::size_t entry) {
  if (entry >= given.entries.size() || !given.entries[entry].tensor) return {};
  return to(s, given.entries[entry].tensor, {.device = s.settings.device});
}

/// distribute_tensor: over replicas a broadcast, over shards a scatter of padded parts. A shard of
/// its own.
Tensor scattered(Session& s, const Parameter& p, const Tensor& given) {
  const MeshInfo& mesh = p.mesh();
  const Like kind = like(p.sharded_param());
  Tensor full = given ? given : empty(s, p.size(), kind);
  if (mesh.replicate) broadcast(s, *mesh.replicate, full, 0);
  const Tensor own = empty(s, p.padded_sharded_size(), kind);
  const bool sends = mesh.shard->rank == 0;
  scatter(s, *mesh.shard, own, sends ? own.numel() * mesh.shard->size() : 0, 0);
  return narrow(s, own, p.shard_dim(), 0, p.sharded_size()[p.shard_dim()]);
}

/// _distribute_state_dict: every shard is there before the first is copied.
StateDict distributed(Session& s, const StateDict& dict, const StateDict& given) {
  StateDict loaded = dict;
  for (std::size_t i = 0; i < dict.entries.size(); ++i) {
    const Parameter* parameter = dict.entries[i].parameter;
    const Tensor whole = on_device(s, given, i);
    if (parameter)
      loaded.entries[i].tensor = scattered(s, *parameter, whole);
    else if (whole)
      loaded.entries[i].tensor = whole;
  }
  return loaded;
}

/// _broadcast_state_dict: names and shapes as an object, then each tensor whole, whose rows are
/// copied to the shard at once.
StateDict broadcast_wholes(Session& s, const StateDict& dict, const ProcessGroup& world,
                           const StateDict& given, bool cpu_offload) {
  broadcast_object_list(s, world);
  StateDict loaded = dict;
  for (std::size_t i = 0; i < dict.entries.size(); ++i) {
    StateDict::Entry& entry = loaded.entries[i];
    Tensor full = world.rank == 0 ? on_device(s, given, i) : Tensor();
    if (!full)
      full = empty(s, entry.parameter ? entry.parameter->size() : entry.tensor.sizes(),
                   {entry.tensor.dtype(), s.settings.device});
    broadcast(s, world, full, 0);
    if (!entry.parameter) entry.tensor = full;
    if (cpu_offload) entry.tensor = to(s, entry.tensor, {.device = Device::cpu});
  }
  return loaded;
}

}  // namespace

StateDict state_dict(Session&, FullySharded& sharded, Module& root) {
  for (const auto& state : sharded.states())
    for (const auto& group : state->groups()) group->to_sharded();
  StateDict dict;
  add_entries(sharded, root, dict);
  return dict;
}

StateDict get_model_state_dict(Session& s, FullySharded& sharded, Module& root,
                               const StateDictOptions& options) {
  StateDict dict = state_dict(s, sharded, root);
  if (options.ignore_frozen_params) erase_frozen(dict);
  for (StateDict::Entry& entry : dict.entries)
    entry.tensor = as_asked(s, entry.parameter, entry.tensor, options, sharded.rank() == 0);
  if (is_for_rank_0(options) && sharded.rank() != 0) dict.entries.clear();
  return dict;
}

std::vector<Tensor> get_optimizer_state_dict(Session& s, FullySharded& sharded, Module& root,
                                             const ParameterOptimizer& optimizer,
                                             const StateDictOptions& options) {
  state_dict(s, sharded, root);
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < optimizer.parameters().size(); ++i) {
    const Parameter* parameter = sharded.parameter_of(optimizer.parameters()[i]);
    const ParameterOptimizer::State& state = optimizer.states()[i];
    for (const Tensor& tensor : {state.first_moment, state.second_moment, state.greatest_moment})
      if (tensor.defined())
        tensors.push_back(as_asked(s, parameter, tensor, options, sharded.rank() == 0));
  }
  return tensors;
}

void set_model_state_dict(Session& s, FullySharded& sharded, Module& root,
                          const ProcessGroup& world, StateDict& given,
                          const StateDictOptions& options) {
  const NoGrad no_grad(s);
  const StateDict dict = state_dict(s, sharded, root);
  if (options.broadcast_from_rank0)
    given = broadcast_wholes(s, dict, world, given, options.cpu_offload);
  else if (options.full_state_dict)
    given = distributed(s, dict, given);
  for (std::size_t i = 0; i < dict.entries.size() && i < given.entries.size(); ++i)
    if (const Tensor& loaded = given.entries[i].tensor; !loaded.is(dict.entries[i].tensor))
      copy_(s, dict.entries[i].tensor, loaded);
}

}  // namespace shardscope::eager::fsdp2
