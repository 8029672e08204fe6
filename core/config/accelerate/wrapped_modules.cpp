#include "core/config/accelerate/wrapped_modules.h"

#include <algorithm>

#include "core/base/refusal.h"
#include "core/config/accelerate/name_pattern.h"

namespace shardscope::accelerate {
namespace {

constexpr std::string_view wrapped_attribute = "_checkpoint_wrapped_module";

const TreeModule& module_at(const ModuleTree& tree, std::int32_t index) {
  return tree.modules[static_cast<std::size_t>(index)];
}

void add_parameters(const ModuleTree& tree, std::int32_t module, std::set<std::int32_t>& found) {
  for (const std::int32_t p : module_at(tree, module).parameters)
    found.insert(tree.parameters[static_cast<std::size_t>(p)].same_as.value_or(p));
  for (const std::int32_t child : module_at(tree, module).children)
    add_parameters(tree, child, found);
}

std::int64_t elements_below(const ModuleTree& tree, std::int32_t module) {
  std::int64_t sum = 0;
  for (const std::int32_t p : parameters_below(tree, module))
    sum += tree.parameters[static_cast<std::size_t>(p)].elements();
  return sum;
}

bool is_one_of(const TreeModule& module, const std::vector<std::string>& classes) {
  return std::any_of(classes.begin(), classes.end(),
                     [&](const std::string& name) { return module.is(name); });
}

/// What FSDP1's policies answer to _recursive_wrap.
struct Policy {
  const FsdpPlugin& plugin;

  double least() const { return plugin.min_num_params->number(); }
  bool enters(const TreeModule& module, std::int64_t elements) const {
    if (plugin.peft_modules) return true;
    if (plugin.wrap != WrapPolicy::size) return true;
    return static_cast<double>(elements) >= least() && !module.is("MultiheadAttention");
  }
  bool wraps(const TreeModule& module, std::int64_t elements) const {
    if (plugin.peft_modules) return plugin.peft_modules->contains(module.name);
    if (plugin.wrap == WrapPolicy::none) return true;
    if (plugin.wrap == WrapPolicy::transformer) return is_one_of(module, *plugin.found_classes);
    return static_cast<double>(elements) >= least() && !module.is("ModuleList") &&
           !module.is("ModuleDict");
  }
};

/// Elements wrapped at or below `module`.
std::int64_t wrap_recursively(const Policy& policy, const ModuleTree& tree, std::int32_t module,
                              std::set<std::int32_t>& wrapped) {
  const TreeModule& own = module_at(tree, module);
  const std::int64_t elements = elements_below(tree, module);
  if (!policy.enters(own, elements)) return 0;
  std::int64_t below = 0;
  for (const std::int32_t child : own.children)
    below += wrap_recursively(policy, tree, child, wrapped);
  if (!policy.wraps(own, elements - below)) return below;
  wrapped.insert(module);
  return elements;
}

/// The predicate of fsdp2_prepare_auto_wrap_policy.
bool shards(const FsdpPlugin& plugin, const ModuleTree& tree, std::int32_t module) {
  if (plugin.wrap == WrapPolicy::transformer)
    return is_one_of(module_at(tree, module), *plugin.found_classes);
  if (plugin.wrap == WrapPolicy::none) return false;
  return static_cast<double>(elements_below(tree, module)) > plugin.min_num_params->number();
}

}  // namespace

std::string Checkpointed::name_of(const ModuleTree& tree, std::int32_t index, int outside) const {
  std::string name;
  std::vector<std::int32_t> path;
  for (std::int32_t at = index; at > 0; at = module_at(tree, at).parent) path.push_back(at);
  std::reverse(path.begin(), path.end());
  for (const std::int32_t at : path) {
    const std::string& full = module_at(tree, at).name;
    const std::size_t dot = full.rfind('.');
    if (!name.empty()) name += '.';
    name += dot == std::string::npos ? full : full.substr(dot + 1);
    const int inside = modules.contains(at) ? wrappers - (at == index ? outside : 0) : 0;
    for (int i = 0; i < inside; ++i) name += "." + std::string(wrapped_attribute);
  }
  return name;
}

std::vector<std::string> Checkpointed::wrapper_names(const ModuleTree& tree) const {
  std::vector<std::string> names;
  for (const std::int32_t module : modules) names.push_back(name_of(tree, module, 1));
  return names;
}

std::set<std::int32_t> parameters_below(const ModuleTree& tree, std::int32_t module) {
  std::set<std::int32_t> found;
  add_parameters(tree, module, found);
  return found;
}

Checkpointed checkpoint_like_fsdp1(const FsdpPlugin& plugin, const ModuleTree& tree) {
  Checkpointed result;
  wrap_recursively(Policy{plugin}, tree, 0, result.modules);
  result.modules.erase(0);
  return result;
}

Checkpointed checkpoint_like_fsdp2(const FsdpPlugin& plugin, const ModuleTree& tree) {
  if (plugin.wrap == WrapPolicy::none)
    throw Refusal("TypeError", {.where = {},
                                .what = "activation checkpointing of version 2 needs a wrap policy",
                                .way_out = "set fsdp_auto_wrap_policy"});
  Checkpointed result{.wrappers = plugin.activation_checkpointing_offload ? 2 : 1};
  for (const std::int32_t module : children_bottom_up(tree))
    if (shards(plugin, tree, module)) result.modules.insert(module);
  return result;
}

AccelerateFsdp2 fully_shard_settings(const FsdpPlugin& plugin) {
  AccelerateFsdp2 settings{
      .wrap = plugin.wrap, .wrap_classes = plugin.found_classes, .carves_ends = plugin.carves_ends};
  if (plugin.wrap == WrapPolicy::size) settings.min_parameters = plugin.min_num_params->number();
  if (plugin.reshard_after_forward.is_boolean())
    settings.reshard_after_forward = plugin.reshard_after_forward.boolean();
  return settings;
}

std::vector<FullyShardCall> fully_shard_calls(const FsdpPlugin& plugin, const PreparedModel& model,
                                              const Checkpointed& checkpointed) {
  std::vector<FullyShardCall> calls;
  for (const AccelerateFsdp2Call& made :
       accelerate_fsdp2_calls(model.tree, model.facts, fully_shard_settings(plugin),
                              {checkpointed.modules, checkpointed.wrappers})) {
    FullyShardCall call{.reshard_after_forward = made.reshard_after_forward};
    for (const auto& [module, wrappers] : made.modules)
      call.modules.push_back(module == 0 ? "(root)"
                                         : checkpointed.name_of(model.tree, module, wrappers));
    calls.push_back(std::move(call));
  }
  return calls;
}

std::vector<std::int32_t> matching_modules(const ModuleTree& tree, const std::string& pattern,
                                           const Checkpointed& checkpointed) {
  const NamePattern compiled(pattern);
  std::vector<std::int32_t> found;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(tree.modules.size()); ++i) {
    if (module_at(tree, i).same_as) continue;
    bool matches = false;
    const int wrappers = checkpointed.modules.contains(i) ? checkpointed.wrappers : 0;
    for (int level = 0; level <= wrappers; ++level)
      matches = matches || compiled.matches(checkpointed.name_of(tree, i, level));
    if (matches) found.push_back(i);
  }
  return found;
}

}  // namespace shardscope::accelerate
