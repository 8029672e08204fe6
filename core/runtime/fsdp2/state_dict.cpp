#include "core/runtime/fsdp2/state_dict.h"

#include "core/lower/pytorch/aten/copies.h"
#include "core/lower/pytorch/aten/dispatch.h"
#include "core/lower/pytorch/aten/views.h"
#include "core/runtime/collectives.h"
#include "core/runtime/object_collectives.h"

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

Tensor as_asked(Session& s, const Parameter* parameter, const Tensor& tensor,
                const StateDictOptions& options) {
  Tensor result = tensor;
  if (options.full_state_dict && parameter) result = gathered(s, *parameter, result);
  if (options.cpu_offload) result = to(s, result, {.device = Device::cpu});
  return result;
}

/// distribute_tensor: over replicas a broadcast, over shards a scatter of padded parts.
void scatter_full(Session& s, const Parameter& p) {
  const NoGrad no_grad(s);
  const MeshInfo& mesh = p.mesh();
  const Like kind = like(p.sharded_param());
  Tensor full = empty(s, p.size(), kind);
  if (mesh.replicate) broadcast(s, *mesh.replicate, full, 0);
  const Tensor own = empty(s, p.padded_sharded_size(), kind);
  const bool sends = mesh.shard->rank == 0;
  scatter(s, *mesh.shard, own, sends ? own.numel() * mesh.shard->size() : 0, 0);
  copy_(s, p.sharded_param(), narrow(s, own, p.shard_dim(), 0, p.sharded_size()[p.shard_dim()]));
}

/// _broadcast_state_dict: names and shapes as an object, then each tensor whole.
void broadcast_full(Session& s, const StateDict& dict, const ProcessGroup& world) {
  broadcast_object_list(s, world);
  for (const StateDict::Entry& entry : dict.entries) {
    const Dims& sizes = entry.parameter ? entry.parameter->size() : entry.tensor.sizes();
    const Tensor full = empty(s, sizes, like(entry.tensor));
    broadcast(s, world, full, 0);
  }
}

}  // namespace

StateDict state_dict(Session&, FullySharded& sharded, Module& root) {
  for (const auto& state : sharded.states())
    if (state->group()) state->group()->to_sharded();
  StateDict dict;
  add_entries(sharded, root, dict);
  return dict;
}

StateDict get_model_state_dict(Session& s, FullySharded& sharded, Module& root,
                               const StateDictOptions& options) {
  StateDict dict = state_dict(s, sharded, root);
  for (StateDict::Entry& entry : dict.entries)
    entry.tensor = as_asked(s, entry.parameter, entry.tensor, options);
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
      if (tensor.defined()) tensors.push_back(as_asked(s, parameter, tensor, options));
  }
  return tensors;
}

void set_model_state_dict(Session& s, FullySharded& sharded, Module& root,
                          const ProcessGroup& world, const StateDictOptions& options) {
  const StateDict dict = state_dict(s, sharded, root);
  if (!options.full_state_dict) return;
  if (options.broadcast_from_rank0) return broadcast_full(s, dict, world);
  for (const StateDict::Entry& entry : dict.entries)
    if (entry.parameter) scatter_full(s, *entry.parameter);
}

}  // namespace shardscope::eager::fsdp2
