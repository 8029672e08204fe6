#include "core/pytorch/plans/fsdp2_first_forward.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace shardscope {
namespace {

using Groups = std::vector<const Fsdp2Group*>;

const TreeParameter& parameter_of(const ModuleTree& tree, const Fsdp2Parameter& parameter) {
  return tree.parameters[static_cast<std::size_t>(parameter.parameter)];
}

std::string name_of_group(const ModuleTree& tree, const Fsdp2Group& group) {
  const std::string& name = tree.modules[static_cast<std::size_t>(group.modules.front())].name;
  return name.empty() ? "the root module" : "module " + name;
}

/// _validate_no_duplicate_params.
std::optional<Refusal> shared_parameter(const ModuleTree& tree, const Groups& groups) {
  std::set<std::int32_t> seen;
  for (const Fsdp2Group* group : groups)
    for (const Fsdp2Parameter& p : group->parameters)
      if (!seen.insert(parameter_of(tree, p).same_as.value_or(p.parameter)).second)
        return Refusal("ValueError",
                       {.where = parameter_of(tree, p).name,
                        .what = "is shared with a parameter of another group",
                        .way_out = "shard the modules that share it in one call, as a list"});
  return std::nullopt;
}

/// FSDPParamGroup._init_mp_dtypes.
std::optional<Refusal> mixed_dtypes(const ModuleTree& tree, const Groups& groups) {
  for (const Fsdp2Group* group : groups) {
    std::set<Dtype> dtypes;
    for (const Fsdp2Parameter& p : group->parameters)
      if (parameter_of(tree, p).trainable) dtypes.insert(parameter_of(tree, p).dtype);
    if (dtypes.size() > 1)
      return Refusal("AssertionError",
                     {.where = name_of_group(tree, *group),
                      .what = fmt::format("its group mixes parameters in {} and {}",
                                          name_of(*dtypes.begin()), name_of(*dtypes.rbegin())),
                      .way_out = "give the trainable parameters of a group one dtype"});
  }
  return std::nullopt;
}

/// Parameters are gathered when a module of the call runs; the operators that meet shards instead
/// refuse to mix them with plain tensors.
std::optional<Refusal> never_gathered(const ModuleTree& tree, const Groups& groups) {
  const auto is_container = [&](std::int32_t id) {
    const TreeModule& module = tree.modules[static_cast<std::size_t>(id)];
    return module.is("ModuleList") || module.is("ModuleDict");
  };
  for (const Fsdp2Group* group : groups)
    if (std::all_of(group->modules.begin(), group->modules.end(), is_container))
      return Refusal("RuntimeError", {.where = name_of_group(tree, *group),
                                      .what = "is never run itself, so its group is never gathered",
                                      .way_out = "name the modules inside it"});
  return std::nullopt;
}

/// _fsdp_collectives.foreach_all_gather_copy_out reads the size of a post-forward piece, which is
/// flat, along the sharded dimension.
std::optional<Refusal> not_gathered_again(const ModuleTree& tree, const Groups& groups) {
  for (const Fsdp2Group* group : groups) {
    if (!group->post_forward_shards || *group->post_forward_shards == group->mesh.shards) continue;
    for (const Fsdp2Parameter& p : group->parameters)
      if (p.shard_dim > 0)
        return Refusal("IndexError",
                       {.where = parameter_of(tree, p).name,
                        .what = fmt::format("is sharded along dimension {}, and cannot be gathered "
                                            "from pieces over {} ranks in backward",
                                            p.shard_dim, *group->post_forward_shards),
                        .way_out = "set reshard_after_forward to true or false"});
  }
  return std::nullopt;
}

std::optional<Refusal> sharded_twice(const ModuleTree& tree, const Fsdp2States& states) {
  if (!states.sharded_twice) return std::nullopt;
  return Refusal(
      "RuntimeError",
      {.where = tree.parameters[static_cast<std::size_t>(*states.sharded_twice)].name,
       .what = "was sharded by two calls, so its operators mix shards with plain tensors",
       .way_out = "shard inner modules before outer ones"});
}

/// The lazy initialization of each root: a module of a call that lies in no other such module.
class FirstForward {
 public:
  FirstForward(const ModuleTree& tree, const Fsdp2States& states, Fsdp2Plan& plan)
      : tree_(tree), states_(states), plan_(plan), initialized_(states.states.size(), 0) {}

  std::optional<Refusal> run() {
    for (const std::int32_t state : states_.of_module) {
      if (state == Fsdp2States::none || initialized_[static_cast<std::size_t>(state)] != 0)
        continue;
      if (std::optional<Refusal> refusal =
              initialize(states_.states[static_cast<std::size_t>(state)]))
        return refusal;
    }
    return std::nullopt;
  }

 private:
  std::optional<Refusal> initialize(const Fsdp2State& root) {
    if (root.modules.size() > 1)
      return Refusal("RuntimeError",
                     {.where = "fully_shard",
                      .what = fmt::format("a list of {} modules lies in no sharded module",
                                          root.modules.size()),
                      .way_out = "shard the root module too"});
    const Groups groups = groups_inside(root.modules.front());
    if (root.automatic_reshard && root.group) plan_.groups[*root.group].post_forward_shards.reset();
    if (std::optional<Refusal> refusal = sharded_twice(tree_, states_)) return refusal;
    for (const auto& check : {shared_parameter, mixed_dtypes, never_gathered, not_gathered_again})
      if (std::optional<Refusal> refusal = check(tree_, groups)) return refusal;
    return std::nullopt;
  }

  Groups groups_inside(std::int32_t root) {
    Groups groups;
    add_group_of(root, groups);
    // Pre-order: whatever follows with a parent at or behind the root lies inside it.
    const auto count = static_cast<std::int32_t>(tree_.modules.size());
    for (std::int32_t id = root + 1;
         id < count && tree_.modules[static_cast<std::size_t>(id)].parent >= root; ++id)
      add_group_of(id, groups);
    return groups;
  }

  void add_group_of(std::int32_t id, Groups& groups) {
    const TreeModule& module = tree_.modules[static_cast<std::size_t>(id)];
    const std::int32_t state =
        states_.of_module[static_cast<std::size_t>(module.same_as.value_or(id))];
    if (state == Fsdp2States::none || initialized_[static_cast<std::size_t>(state)] != 0) return;
    initialized_[static_cast<std::size_t>(state)] = 1;
    const std::optional<std::size_t>& group = states_.states[static_cast<std::size_t>(state)].group;
    if (group) groups.push_back(&plan_.groups[*group]);
  }

  const ModuleTree& tree_;
  const Fsdp2States& states_;
  Fsdp2Plan& plan_;
  std::vector<char> initialized_;
};

}  // namespace

void run_first_forward(const ModuleTree& tree, const Fsdp2States& states, Fsdp2Plan& plan) {
  plan.refused_at_first_forward = FirstForward(tree, states, plan).run();
}

}  // namespace shardscope
