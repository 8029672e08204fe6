#include "core/pytorch/runtimes/fsdp2/fully_shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/base/refusal.h"
#include "core/pytorch/engine/copies.h"

namespace shardscope::eager::fsdp2 {
namespace {

bool contains(const std::vector<Module*>& modules, const Module& module) {
  return std::find(modules.begin(), modules.end(), &module) != modules.end();
}

void refuse_containers(const Module& module) {
  if (module.class_name != "ModuleList" && module.class_name != "ModuleDict") return;
  throw Refusal("ValueError",
                {.where = module.name,
                 .what = "fully_shard does not support containers that do not implement forward",
                 .way_out = "call it on each of its modules"});
}

/// torch.distributed.utils._get_root_modules: those that lie in no other of the list.
std::vector<Module*> without_nested(const std::vector<Module*>& modules) {
  std::vector<Module*> roots;
  for (Module* module : modules) {
    const bool nested = std::any_of(modules.begin(), modules.end(), [&](Module* other) {
      return other != module && contains(modules_of(*other), *module);
    });
    if (!nested && !contains(roots, *module)) roots.push_back(module);
  }
  return roots;
}

/// _get_managed_modules: depth first, children before their module, without what nested calls took.
class ManagedModules {
 public:
  ManagedModules(const FullySharded& sharded, const std::vector<Module*>& roots)
      : sharded_(sharded), roots_(roots) {
    for (Module* root : roots) visit(*root);
  }
  const std::vector<Module*>& modules() const { return modules_; }

 private:
  void visit(Module& module) {
    if (!contains(roots_, module) && sharded_.state_of(module)) return;
    visited_.insert(&module);
    for (const Module::Child& child : module.children)
      if (child.module && !visited_.contains(child.module.get())) visit(*child.module);
    modules_.push_back(&module);
  }

  const FullySharded& sharded_;
  const std::vector<Module*>& roots_;
  std::set<const Module*> visited_;
  std::vector<Module*> modules_;
};

/// _get_managed_states: each parameter once.
std::vector<NamedParameter> managed_parameters(const std::vector<Module*>& modules,
                                               const Options& options) {
  std::vector<NamedParameter> managed;
  std::set<const TensorImpl*> seen;
  for (Module* module : modules)
    for (std::size_t i = 0; i < module->parameters.size(); ++i) {
      const Module::NamedTensor& own = module->parameters[i];
      if (!own.tensor.defined() || (options.ignored && options.ignored(own.tensor))) continue;
      if (own.tensor.dim() == 0)
        throw Refusal("ValueError", {.where = own.name,
                                     .what = "fully_shard doesn't support scalar parameters",
                                     .way_out = "make it a 1D tensor with one element"});
      if (seen.insert(own.tensor.impl()).second)
        managed.push_back({.name = own.name, .module = module, .place = i});
    }
  return managed;
}

/// _get_param_module_infos: by parameter every place below `modules` where it is registered.
std::unordered_map<const TensorImpl*, ParameterPlaces> places_below(
    const std::vector<Module*>& modules) {
  std::unordered_map<const TensorImpl*, ParameterPlaces> found;
  std::unordered_set<const Module*> seen;
  for (Module* root : modules)
    for (Module* module : modules_of(*root)) {
      if (!seen.insert(module).second) continue;
      for (std::size_t i = 0; i < module->parameters.size(); ++i)
        if (const Tensor& tensor = module->parameters[i].tensor; tensor.defined())
          found[tensor.impl()].places.push_back({.module = module, .slot = i});
    }
  return found;
}

/// _init_param_groups: in the order in which a mesh first comes.
std::vector<MeshParameters> by_mesh(const std::vector<NamedParameter>& parameters,
                                    const Options& options) {
  std::vector<MeshParameters> parts;
  for (const NamedParameter& parameter : parameters) {
    const MeshInfoRef mesh =
        options.parameter_mesh ? options.parameter_mesh(parameter.tensor()) : options.mesh;
    auto part = std::find_if(parts.begin(), parts.end(),
                             [&](const MeshParameters& known) { return known.mesh == mesh; });
    if (part == parts.end()) part = parts.insert(part, {.mesh = mesh, .parameters = {}});
    part->parameters.push_back(parameter);
  }
  return parts;
}

void move_to_device(Session& s, const Tensor& tensor) {
  if (!tensor.defined() || tensor.device() == s.settings.device || tensor.device() == Device::meta)
    return;
  tensor.set_data(to(s, tensor, {.device = s.settings.device}));
}

}  // namespace

MeshInfoRef FullySharded::mesh(const std::vector<int>& shape) {
  const std::vector<const ProcessGroup*> dims = groups_.mesh(shape);
  return std::make_shared<MeshInfo>(
      MeshInfo{.shard = dims.back(), .replicate = dims.size() > 1 ? dims.front() : nullptr});
}

MeshInfoRef FullySharded::post_forward_mesh(const ReshardAfterForward& reshard,
                                            const MeshInfoRef& mesh) {
  if (!reshard) return mesh;
  if (const bool* on = std::get_if<bool>(&*reshard)) return *on ? mesh : nullptr;
  const ProcessGroup& shard = *mesh->shard;
  const int ranks = std::get<int>(*reshard);
  if (ranks < 1 || ranks > shard.size() || shard.size() % ranks != 0)
    throw Refusal("ValueError",
                  {.where = "reshard_after_forward",
                   .what = fmt::format("{} is no factor of {} ranks", ranks, shard.size()),
                   .way_out = "give a divisor, true or false"});
  if (ranks == 1) return nullptr;
  if (ranks == shard.size()) return mesh;
  const auto count = static_cast<std::size_t>(ranks);
  const auto first = static_cast<std::size_t>(shard.rank) / count * count;
  return std::make_shared<MeshInfo>(
      MeshInfo{.shard = &groups_.add(shard.ranks.part(first, count))});
}

State& FullySharded::fully_shard(const std::vector<Module*>& modules, const Options& options) {
  for (const Module* module : modules) refuse_containers(*module);
  const std::vector<Module*> roots = without_nested(modules);
  const ManagedModules managed(*this, roots);
  const std::vector<NamedParameter> parameters = managed_parameters(managed.modules(), options);
  Tensors originals;  // alive until this returns, as the caller's lists in Python
  for (const NamedParameter& parameter : parameters) {
    originals.push_back(parameter.tensor());
    move_to_device(s_, originals.back());
  }
  for (const Module* module : managed.modules())
    for (const Module::NamedTensor& buffer : module->buffers) move_to_device(s_, buffer.tensor);

  auto comm = std::make_shared<CommContext>(watchers_);
  states_.push_back(
      std::make_unique<State>(roots, options.mixed_precision, !options.reshard_after_forward, comm,
                              [this](const Module& module) { return state_of(module); }));
  State& state = *states_.back();
  for (const Module* module : roots) state_of_[module] = &state;
  for (Module* module : managed.modules()) module->sharded = this;
  std::vector<std::unique_ptr<ParameterGroup>> groups;
  for (const MeshParameters& part : by_mesh(parameters, options))
    groups.push_back(group_of(roots, part, options, comm));
  state.set_groups(std::move(groups));
  return state;
}

std::unique_ptr<ParameterGroup> FullySharded::group_of(const std::vector<Module*>& modules,
                                                       const MeshParameters& part,
                                                       const Options& options,
                                                       std::shared_ptr<CommContext> comm) {
  const MeshInfoRef post_forward = post_forward_mesh(options.reshard_after_forward, part.mesh);
  // Before any parameter takes the place of its original.
  std::unordered_map<const TensorImpl*, ParameterPlaces> places = places_below(modules);
  Parameters parameters;
  for (const NamedParameter& parameter : part.parameters) {
    const Tensor& original = parameter.tensor();
    int dim = options.shard_dim ? options.shard_dim(original) : 0;
    if (dim < 0) dim += original.dim();
    const int ranks = part.mesh->shard->size();
    if (dim > 0 && original.size(dim) % ranks != 0)
      throw Refusal("NotImplementedError",
                    {.where = parameter.name,
                     .what = fmt::format("FSDP does not support uneven sharding on dim {}: {} over "
                                         "{} ranks",
                                         dim, original.size(dim), ranks),
                     .way_out = "shard it along dimension 0"});
    const Tensor kept = original;
    parameters.push_back(std::make_unique<Parameter>(
        s_, kept, std::move(places.at(kept.impl())),
        Parameter::Settings{
            .mesh = part.mesh,
            .post_forward_mesh = post_forward,
            .mixed_precision = options.mixed_precision,
            .offload = options.offload,
            .shard_dim = dim,
            .gradient_rule = options.gradient_rule ? options.gradient_rule(kept) : GradientRule{},
            .gather_extension =
                options.gather_extension ? options.gather_extension(kept) : GatherExtension{}}));
  }
  return std::make_unique<ParameterGroup>(s_, modules, std::move(parameters), part.mesh,
                                          post_forward, std::move(comm));
}

State* FullySharded::state_of(const Module& module) const {
  const auto at = state_of_.find(&module);
  return at == state_of_.end() ? nullptr : at->second;
}

const Parameter* FullySharded::parameter_of(const Tensor& sharded) const {
  for (const auto& state : states_)
    for (const auto& group : state->groups())
      for (const auto& parameter : group->parameters())
        if (parameter->sharded_param().is(sharded)) return parameter.get();
  return nullptr;
}

bool FullySharded::is_sharded(const Tensor& parameter) const {
  return parameter_of(parameter) != nullptr;
}

Tensor FullySharded::full_tensor(Session& s, const Tensor& parameter) const {
  return parameter_of(parameter)->full_tensor(s);
}

void FullySharded::reset_sharded_params() {
  for (const auto& state : states_)
    for (const auto& group : state->groups())
      for (const auto& parameter : group->parameters()) parameter->reset_sharded_param(s_);
}

void FullySharded::reset_sharded_params(const Module& module) {
  const State* const state = state_of(module);
  if (state == nullptr) return;
  for (const auto& group : state->groups())
    for (const auto& parameter : group->parameters()) parameter->reset_sharded_param(s_);
}

State& FullySharded::state_at(Module& module) const {
  if (State* state = state_of(module)) return *state;
  throw Refusal("ValueError", {.where = module.name,
                               .what = "it is no FSDPModule",
                               .way_out = "call fully_shard on it first"});
}

void FullySharded::for_each_group(Module& module,
                                  const std::function<void(State&, ParameterGroup&)>& visit) {
  for (Module* each : modules_of(module))
    if (State* state = state_of(*each))
      for (const auto& group : state->groups()) visit(*state, *group);
}

void FullySharded::set(Module& module, const std::function<void(GroupSwitches&)>& change) {
  for_each_group(module, [&](State&, ParameterGroup& group) { change(group.switches); });
}

void FullySharded::set_requires_gradient_sync(Module& module, bool on) {
  set(module, [on](GroupSwitches& switches) {
    switches.reduce_grads = on;
    switches.all_reduce_grads = on;
  });
}

void FullySharded::set_requires_all_reduce(Module& module, bool on) {
  set(module, [on](GroupSwitches& switches) { switches.all_reduce_grads = on; });
}

void FullySharded::set_is_last_backward(Module& module, bool on) {
  state_at(module).set_is_last_backward(on);
}

void FullySharded::set_reshard_after_forward(Module& module, bool on) {
  for (Module* each : modules_of(module))
    if (State* state = state_of(*each)) {
      state->choose_reshard();
      for (const auto& group : state->groups())
        group->set_post_forward_mesh(on ? group->mesh_ref() : nullptr);
    }
}

void FullySharded::set_keep_unsharded_storage(Module& module, bool on) {
  for_each_group(module, [on](State&, ParameterGroup& group) {
    for (const auto& parameter : group.parameters()) parameter->set_keep_unsharded_storage(on);
  });
}

void FullySharded::set_separate_reduce_scatter_group(Module& module, bool on) {
  std::vector<const ProcessGroup*> made;  // one for each set of ranks
  for_each_group(module, [&](State&, ParameterGroup& group) {
    MeshInfo& mesh = *group.mesh_ref();
    if (!on) {
      mesh.reduce_scatter = nullptr;
      return;
    }
    const auto known = std::find_if(made.begin(), made.end(), [&](const ProcessGroup* candidate) {
      return candidate->ranks == mesh.shard->ranks;
    });
    if (known != made.end()) {
      mesh.reduce_scatter = *known;
      return;
    }
    if (!mesh.reduce_scatter) mesh.reduce_scatter = &groups_.add(mesh.shard->ranks);
    made.push_back(mesh.reduce_scatter);
  });
}

void FullySharded::set_forward_prefetch(Module& module, const std::vector<Module*>& targets) {
  auto& list = state_at(module).forward_prefetch;
  list.clear();
  for (Module* target : targets) list.push_back(&state_at(*target));
}

void FullySharded::set_backward_prefetch(Module& module, const std::vector<Module*>& targets) {
  auto& list = state_at(module).backward_prefetch;
  list.clear();
  for (Module* target : targets) list.push_back(&state_at(*target));
}

void FullySharded::set_unshard_in_backward(Module& module, bool on) {
  for (const auto& group : state_at(module).groups()) group->switches.unshard_in_backward = on;
}

void FullySharded::set_gradient_divide_factor(Module& module, double factor) {
  for (const auto& group : state_at(module).groups())
    group->switches.gradient_divide_factor = factor;
}

void FullySharded::set_force_sum_reduction_for_comms(Module& module, bool on) {
  for (const auto& group : state_at(module).groups())
    group->switches.force_sum_reduction_for_comms = on;
}

void FullySharded::unshard(Module& module, bool asynchronous) {
  for (const auto& group : state_at(module).groups()) {
    group->lazy_init(s_);
    group->unshard(s_, asynchronous);
  }
  if (!asynchronous) wait_for_unshard(module);
}

void FullySharded::wait_for_unshard(Module& module) {
  for (const auto& group : state_at(module).groups()) group->wait_for_unshard(s_);
}

void FullySharded::reshard(Module& module) {
  for (const auto& group : state_at(module).groups()) group->reshard(s_);
}

}  // namespace shardscope::eager::fsdp2
