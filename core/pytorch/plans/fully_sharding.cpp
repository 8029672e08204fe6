#include "core/pytorch/plans/fully_sharding.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace shardscope {
namespace {

std::string quoted(const TreeModule& module) {
  return module.name.empty() ? "the root module" : "module " + module.name;
}

/// How many shards remain after forward, as _get_post_forward_mesh_info decides.
std::optional<int> post_forward_shards(const FullyShardCall& call, Fsdp2Plan& plan) {
  const int shards = call.mesh.shards;
  if (!call.reshard_after_forward) return shards;
  if (const bool* frees = std::get_if<bool>(&*call.reshard_after_forward))
    return *frees ? std::optional<int>(shards) : std::nullopt;
  const std::int64_t ranks = std::get<std::int64_t>(*call.reshard_after_forward);
  if (ranks < 1 || ranks > shards || shards % ranks != 0)
    throw Refusal("ValueError",
                  {.where = "reshard_after_forward",
                   .what = fmt::format("{} ranks do not divide the {} shards", ranks, shards),
                   .way_out = "give true, false or a divisor of the number of shards"});
  if (ranks > 1) return static_cast<int>(ranks);
  plan.warnings.push_back("reshard_after_forward 1 means groups of one rank, that is false");
  return std::nullopt;
}

}  // namespace

FullySharding::FullySharding(const ModuleTree& tree)
    : tree_(tree),
      states_{.states = {},
              .of_module = std::vector<std::int32_t>(tree.modules.size(), Fsdp2States::none),
              .sharded_twice = {}},
      object_(tree.parameters.size()) {
  for (std::size_t i = 0; i < object_.size(); ++i)
    object_[i] = tree.parameters[i].same_as.value_or(static_cast<std::int32_t>(i));
}

void FullySharding::apply(const FullyShardCall& call) {
  Fsdp2State state{
      .modules = roots_of(call), .group = {}, .automatic_reshard = !call.reshard_after_forward};
  mark(state.modules);
  if (!call.list) refuse_container(state.modules.front());
  const std::optional<int> post_forward = post_forward_shards(call, plan_);
  const std::vector<std::int32_t> objects = managed_parameters(state.modules, call);
  if (!objects.empty()) {
    state.group = plan_.groups.size();
    plan_.groups.push_back({.modules = state.modules,
                            .parameters = shard(objects, state.modules, call),
                            .mesh = call.mesh,
                            .precision = call.precision,
                            .post_forward_shards = post_forward});
  }
  states_.states.push_back(std::move(state));
}

std::int32_t FullySharding::object_of(std::int32_t id) const {
  return object_[static_cast<std::size_t>(id)];
}

Fsdp2Plan FullySharding::plan(Fsdp2Moment moment) const {
  Fsdp2Plan plan = plan_;
  if (moment == Fsdp2Moment::after_first_forward) run_first_forward(tree_, states_, plan);
  std::stable_sort(plan.groups.begin(), plan.groups.end(), [](const auto& a, const auto& b) {
    return *std::min_element(a.modules.begin(), a.modules.end()) <
           *std::min_element(b.modules.begin(), b.modules.end());
  });
  return plan;
}

const TreeModule& FullySharding::module(std::int32_t id) const {
  return tree_.modules[static_cast<std::size_t>(id)];
}

const TreeParameter& FullySharding::parameter(std::int32_t id) const {
  return tree_.parameters[static_cast<std::size_t>(id)];
}

std::int32_t FullySharding::state_of(std::int32_t id) const {
  return states_.of_module[static_cast<std::size_t>(id)];
}

bool FullySharding::is_sharded(std::int32_t object) const {
  return object >= static_cast<std::int32_t>(tree_.parameters.size());
}

bool FullySharding::is_inside(std::int32_t id, std::int32_t ancestor) const {
  for (std::int32_t at = id; at >= 0; at = module(at).parent)
    if (object_of_module(at) == ancestor) return true;
  return false;
}

/// torch.distributed.utils._get_root_modules.
std::vector<std::int32_t> FullySharding::roots_of(const FullyShardCall& call) const {
  std::vector<std::int32_t> objects, roots;
  for (const std::int32_t id : call.modules) objects.push_back(object_of_module(id));
  if (objects.empty())
    throw Refusal("IndexError", {.where = "fully_shard",
                                 .what = "the list of modules is empty",
                                 .way_out = "name at least one"});
  for (const std::int32_t id : objects)
    if (std::none_of(objects.begin(), objects.end(),
                     [&](std::int32_t other) { return other != id && is_inside(id, other); }))
      roots.push_back(id);
  return roots;
}

void FullySharding::mark(const std::vector<std::int32_t>& roots) {
  for (const std::int32_t id : roots) {
    if (state_of(id) != Fsdp2States::none)
      throw Refusal("AssertionError", {.where = "fully_shard",
                                       .what = quoted(module(id)) + " is sharded already",
                                       .way_out = "name each module once"});
    states_.of_module[static_cast<std::size_t>(id)] =
        static_cast<std::int32_t>(states_.states.size());
  }
}

void FullySharding::refuse_container(std::int32_t id) const {
  if (!module(id).is("ModuleList") && !module(id).is("ModuleDict")) return;
  throw Refusal("ValueError", {.where = "fully_shard",
                               .what = fmt::format("{} is a {}, which has no forward of its own",
                                                   quoted(module(id)), module(id).class_name),
                               .way_out = "name the modules inside it"});
}

/// _get_managed_modules: children before their parent, without modules of earlier calls.
std::vector<std::int32_t> FullySharding::managed_modules(
    const std::vector<std::int32_t>& roots) const {
  struct Frame {
    std::int32_t module;
    std::size_t next = 0;
  };
  std::vector<std::int32_t> managed;
  std::vector<char> visited(tree_.modules.size(), 0);
  std::vector<Frame> stack;
  const auto enter = [&](std::int32_t id) {
    visited[static_cast<std::size_t>(id)] = 1;
    stack.push_back({.module = id});
  };
  for (const std::int32_t root : roots) {
    enter(root);
    while (!stack.empty()) {
      Frame& frame = stack.back();
      const std::vector<std::int32_t>& children = module(frame.module).children;
      if (frame.next == children.size()) {
        managed.push_back(frame.module);
        stack.pop_back();
        continue;
      }
      const std::int32_t child = object_of_module(children[frame.next++]);
      if (visited[static_cast<std::size_t>(child)] == 0 && state_of(child) == Fsdp2States::none)
        enter(child);
    }
  }
  return managed;
}

/// _get_managed_states: the objects to shard, each once, in the order of the group.
std::vector<std::int32_t> FullySharding::managed_parameters(const std::vector<std::int32_t>& roots,
                                                            const FullyShardCall& call) const {
  std::vector<std::int32_t> objects;
  std::set<std::int32_t> seen;
  for (const std::int32_t id : managed_modules(roots))
    for (const std::int32_t slot : module(id).parameters) {
      const std::int32_t object = object_of(slot);
      if (call.ignored_parameters.contains(object) || !seen.insert(object).second) continue;
      if (parameter(slot).shape.empty())
        throw Refusal("ValueError", {.where = parameter(slot).name,
                                     .what = "a scalar has no dimension to shard",
                                     .way_out = "give it the shape [1]"});
      objects.push_back(object);
    }
  return objects;
}

/// _get_param_module_infos: under which names the modules of a call hold each object.
std::map<std::int32_t, std::vector<std::int32_t>> FullySharding::slots_of(
    const std::vector<std::int32_t>& objects, const std::vector<std::int32_t>& roots) const {
  std::map<std::int32_t, std::vector<std::int32_t>> slots;
  for (const std::int32_t object : objects) slots[object];
  const auto add = [&](std::int32_t id) {
    for (const std::int32_t slot : module(object_of_module(id)).parameters)
      if (const auto found = slots.find(object_of(slot)); found != slots.end())
        found->second.push_back(slot);
  };
  const auto count = static_cast<std::int32_t>(tree_.modules.size());
  for (const std::int32_t root : roots) {
    add(root);
    for (std::int32_t id = root + 1; id < count && module(id).parent >= root; ++id) add(id);
  }
  return slots;
}

std::vector<Fsdp2Parameter> FullySharding::shard(const std::vector<std::int32_t>& objects,
                                                 const std::vector<std::int32_t>& roots,
                                                 const FullyShardCall& call) {
  const auto slots = slots_of(objects, roots);
  std::vector<Fsdp2Parameter> parameters;
  for (const std::int32_t object : objects) {
    const std::vector<std::int32_t>& names = slots.at(object);
    const std::int32_t first = names.front();
    if (is_sharded(object)) shard_again(first, call.mesh);
    parameters.push_back({.parameter = first,
                          .aliases = {names.begin() + 1, names.end()},
                          .shard_dim = shard_dim_of(object, first, call)});
    const auto replaced = static_cast<std::int32_t>(tree_.parameters.size()) + shards_made_++;
    for (const std::int32_t slot : names) object_[static_cast<std::size_t>(slot)] = replaced;
  }
  return parameters;
}

/// DeviceMesh._concatenate, reached because a shard is a DTensor already: its mesh overlaps with
/// that of the earlier call, unless both are one rank, or has no names to be concatenated.
void FullySharding::shard_again(std::int32_t slot, const Fsdp2Mesh& mesh) {
  if (mesh.given && mesh.replicas * mesh.shards == 1) {
    states_.sharded_twice = slot;
    return;
  }
  throw Refusal(mesh.given ? "RuntimeError" : "TypeError",
                {.where = "fully_shard",
                 .what = fmt::format("{} was sharded by an earlier call", parameter(slot).name),
                 .way_out = "shard inner modules before outer ones, and a shared module once"});
}

int FullySharding::shard_dim_of(std::int32_t object, std::int32_t slot,
                                const FullyShardCall& call) const {
  const auto found = call.shard_dims.find(object);
  if (found == call.shard_dims.end()) return 0;
  const Shape& shape = parameter(slot).shape;
  const auto dims = static_cast<int>(shape.size());
  const int dim = found->second < 0 ? found->second + dims : found->second;
  if (dim < 0 || dim >= dims)
    throw Refusal(dim < 0 ? "IndexError" : "AssertionError",
                  {.where = parameter(slot).name,
                   .what = fmt::format("has {} dimensions, no dimension {}", dims, found->second),
                   .way_out = "shard along one that it has"});
  const std::int64_t size = shape[static_cast<std::size_t>(dim)];
  if (dim > 0 && size % call.mesh.shards != 0)
    throw Refusal("NotImplementedError",
                  {.where = parameter(slot).name,
                   .what = fmt::format("dimension {} of {} does not divide among {} shards", dim,
                                       size, call.mesh.shards),
                   .way_out = "only dimension 0 may be uneven"});
  return dim;
}

}  // namespace shardscope
