#include "core/config/accelerate/wrapped_modules.h"

#include <algorithm>

#include "core/base/refusal.h"
#include "core/config/accelerate/name_pattern.h"
#include "core/pytorch/plans/accelerate_fsdp2.h"

namespace shardscope::accelerate {
namespace {

constexpr std::string_view wrapped_attribute = "_checkpoint_wrapped_module";

const TreeModule& module_at(const ModuleTree& tree, std::int32_t index) {
  return tree.modules[static_cast<std::size_t>(index)];
}

std::int32_t first_name(const ModuleTree& tree, std::int32_t index) {
  return module_at(tree, index).same_as.value_or(index);
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
    if (plugin.wrap != WrapPolicy::size) return true;
    return static_cast<double>(elements) >= least() && !module.is("MultiheadAttention");
  }
  bool wraps(const TreeModule& module, std::int64_t elements) const {
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

/// Calls of fully_shard on a model whose layers may sit inside checkpointing wrappers.
class FullySharder {
 public:
  FullySharder(const FsdpPlugin& plugin, const PreparedModel& model,
               const Checkpointed& checkpointed)
      : plugin_(plugin), model_(model), checkpointed_(checkpointed) {}

  std::vector<FullyShardCall> calls() {
    for (const std::int32_t module : children_bottom_up(model_.tree)) shard_by_policy(module);
    const bool tied = embeddings_tied();
    if (!tied && input() && !is_sharded(*input())) call({*input()}, plugin_reshard());
    shard_tail(tied);
    calls_.push_back({.modules = {"(root)"}});
    return std::move(calls_);
  }

 private:
  const std::optional<std::int32_t>& input() const { return model_.facts.input_embeddings; }
  const std::optional<std::int32_t>& output() const { return model_.facts.output_embeddings; }
  std::optional<bool> plugin_reshard() const { return plugin_.reshard_after_forward.boolean(); }

  /// The outermost wrapper is what other modules hold.
  int wrappers_of(std::int32_t module) const {
    return checkpointed_.modules.contains(module) ? checkpointed_.wrappers : 0;
  }
  bool is_sharded(std::int32_t module) const {
    const std::int32_t first = first_name(model_.tree, module);
    return sharded_.contains({first, wrappers_of(first)});
  }

  void shard_by_policy(std::int32_t module) {
    const std::int32_t first = first_name(model_.tree, module);
    if (!shards(plugin_, model_.tree, first)) return;
    for (int level = 0; level <= wrappers_of(first); ++level) {
      // A class policy looks through one wrapper, not two; a size policy counts them alike.
      if (plugin_.wrap == WrapPolicy::transformer && level > 1) break;
      if (!sharded_.insert({first, level}).second) continue;
      calls_.push_back({.modules = {checkpointed_.name_of(model_.tree, first, level)},
                        .reshard_after_forward = plugin_reshard()});
    }
  }

  void call(const std::vector<std::int32_t>& modules, std::optional<bool> reshard) {
    FullyShardCall call{.reshard_after_forward = reshard};
    for (const std::int32_t module : modules) {
      const std::int32_t first = first_name(model_.tree, module);
      sharded_.insert({first, wrappers_of(first)});
      call.modules.push_back(checkpointed_.name_of(model_.tree, first, wrappers_of(first)));
    }
    calls_.push_back(std::move(call));
  }

  std::optional<std::int32_t> weight_of(const std::optional<std::int32_t>& module) const {
    if (!module) return std::nullopt;
    for (const std::int32_t p : module_at(model_.tree, *module).parameters) {
      const TreeParameter& parameter = model_.tree.parameters[static_cast<std::size_t>(p)];
      if (parameter.name == "weight" || parameter.name.ends_with(".weight"))
        return parameter.same_as.value_or(p);
    }
    return std::nullopt;
  }
  bool embeddings_tied() const {
    const auto weight = weight_of(input());
    return weight && weight == weight_of(output());
  }

  std::optional<std::int32_t> final_norm() const {
    std::optional<std::int32_t> base = 0;
    if (!model_.facts.base_model_prefix.empty())
      base = find_module(model_.tree, 0, model_.facts.base_model_prefix);
    // Inside a wrapper the base model's children are out of sight.
    if (!base || (*base != 0 && checkpointed_.modules.contains(*base))) return std::nullopt;
    std::optional<std::int32_t> norm;
    for (const std::int32_t child : module_at(model_.tree, *base).children)
      if (module_at(model_.tree, child).class_name.find("Norm") != std::string::npos &&
          !checkpointed_.modules.contains(child))
        norm = child;
    return norm;
  }

  void shard_tail(bool tied) {
    std::vector<std::int32_t> tail;
    const auto add = [&](const std::optional<std::int32_t>& module) {
      if (module && !is_sharded(*module)) tail.push_back(*module);
    };
    add(final_norm());
    if (tied) add(input());
    add(output());
    if (!tail.empty()) call(tail, false);
  }

  const FsdpPlugin& plugin_;
  const PreparedModel& model_;
  const Checkpointed& checkpointed_;
  std::set<std::pair<std::int32_t, int>> sharded_;  ///< module and wrappers around it
  std::vector<FullyShardCall> calls_;
};

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

std::vector<FullyShardCall> fully_shard_calls(const FsdpPlugin& plugin, const PreparedModel& model,
                                              const Checkpointed& checkpointed) {
  return FullySharder(plugin, model, checkpointed).calls();
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
