#include "core/pytorch/plans/accelerate_fsdp2.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/pytorch/plans/fully_sharding.h"

namespace shardscope {
namespace {

std::int32_t object_of_module(const ModuleTree& tree, std::int32_t id) {
  return tree.modules[static_cast<std::size_t>(id)].same_as.value_or(id);
}

/// fsdp2_prepare_model, step by step.
class Preparation {
 public:
  Preparation(const ModuleTree& tree, const TransformersFacts& facts,
              const AccelerateFsdp2& settings, const CheckpointWrappers& wrappers)
      : tree_(tree),
        facts_(facts),
        settings_(settings),
        wrappers_(wrappers),
        sharded_by_(tree.parameters.size(), no_call) {
    if (settings.wrap == WrapPolicy::transformer)
      classes_ = settings.wrap_classes.value_or(facts.no_split_classes);
    for (const std::string& name : classes_) find_class(name);
    wrap_by_policy();
    if (settings_.carves_ends) wrap_ends();
    wrap_root();
  }

  std::vector<AccelerateFsdp2Call> calls() && { return std::move(calls_); }

 private:
  void wrap_by_policy() {
    if (settings_.wrap == WrapPolicy::none) return;
    if (settings_.wrap == WrapPolicy::size && settings_.min_parameters <= 0) return;
    for (const std::int32_t id : children_bottom_up(tree_))
      if (is_wanted(id)) shard_with_wrappers(object_of_module(tree_, id));
  }

  /// A class policy looks through one wrapper, not two; a size policy counts them alike.
  void shard_with_wrappers(std::int32_t module) {
    const int around = wrappers_.around(module);
    const int last = settings_.wrap == WrapPolicy::transformer ? std::min(around, 1) : around;
    for (int level = 0; level <= last; ++level)
      if (!sharded_.contains({module, level}))
        shard({{module, level}}, settings_.reshard_after_forward);
  }

  void wrap_ends() {
    const bool tied = is_tied();
    const std::optional<std::int32_t> input = facts_.input_embeddings;
    if (!tied && input && !is_sharded(*input))
      shard({outermost(*input)}, settings_.reshard_after_forward);
    std::vector<Place> tail;
    const auto add = [&](const std::optional<std::int32_t>& id) {
      if (id && !is_sharded(*id)) tail.push_back(outermost(*id));
    };
    add(final_norm());
    if (tied) add(input);
    add(facts_.output_embeddings);
    if (!tail.empty()) shard(std::move(tail), false, /*list=*/true);
  }

  void wrap_root() {
    if (is_sharded(0)) return;
    std::optional<bool> reshards;
    if (!settings_.carves_ends) reshards = settings_.reshard_after_forward;
    shard({{0, 0}}, reshards);
  }

  using Place = std::pair<std::int32_t, int>;   // a module, and wrappers around it
  using Object = std::pair<std::int32_t, int>;  // a parameter's first index, and the call
  static constexpr int no_call = -1;

  const TreeModule& module(std::int32_t id) const {
    return tree_.modules[static_cast<std::size_t>(id)];
  }

  /// get_module_class_from_name: a module of exactly that class, not of one derived from it.
  void find_class(const std::string& name) const {
    if (std::any_of(tree_.modules.begin(), tree_.modules.end(),
                    [&](const TreeModule& m) { return m.class_name == name; }))
      return;
    throw Refusal("ValueError", {.where = "fsdp_transformer_layer_cls_to_wrap",
                                 .what = fmt::format("the model has no module of class {}", name),
                                 .way_out = "name a class of its layers"});
  }

  bool is_wanted(std::int32_t id) const {
    if (settings_.wrap == WrapPolicy::size)
      return static_cast<double>(elements_inside(id)) > settings_.min_parameters;
    return std::any_of(classes_.begin(), classes_.end(),
                       [&](const std::string& name) { return module(id).is(name); });
  }

  /// The outermost wrapper is what other modules hold.
  Place outermost(std::int32_t id) const {
    const std::int32_t object = object_of_module(tree_, id);
    return {object, wrappers_.around(object)};
  }
  bool is_sharded(std::int32_t id) const { return sharded_.contains(outermost(id)); }

  void shard(std::vector<Place> places, std::optional<bool> reshards, bool list = false) {
    for (const Place& place : places) {
      sharded_.insert(place);
      for (const std::int32_t slot : slots_inside(place.first))
        if (sharded_by_[static_cast<std::size_t>(slot)] == no_call && !is_ignored(slot))
          sharded_by_[static_cast<std::size_t>(slot)] = static_cast<int>(calls_.size());
    }
    calls_.push_back({std::move(places), list, reshards});
  }

  std::int32_t first_of(std::int32_t slot) const {
    return tree_.parameters[static_cast<std::size_t>(slot)].same_as.value_or(slot);
  }
  bool is_ignored(std::int32_t slot) const {
    return settings_.ignored_parameters.contains(first_of(slot));
  }
  /// What stands under a parameter's name: a call puts a new one there, also where the old one has
  /// another name outside of it.
  Object object_of(std::int32_t slot) const {
    return {first_of(slot), sharded_by_[static_cast<std::size_t>(slot)]};
  }

  std::vector<std::int32_t> slots_inside(std::int32_t id) const {
    const TreeModule& own = module(object_of_module(tree_, id));
    std::vector<std::int32_t> slots = own.parameters;
    for (const std::int32_t child : own.children) {
      const std::vector<std::int32_t> inside = slots_inside(child);
      slots.insert(slots.end(), inside.begin(), inside.end());
    }
    return slots;
  }

  /// sum(p.numel() for p in module.parameters()).
  std::int64_t elements_inside(std::int32_t id) const {
    std::set<Object> seen;
    std::int64_t elements = 0;
    for (const std::int32_t slot : slots_inside(id))
      if (seen.insert(object_of(slot)).second)
        elements += tree_.parameters[static_cast<std::size_t>(slot)].elements();
    return elements;
  }

  std::optional<Object> weight_of(const std::optional<std::int32_t>& id) const {
    if (!id) return std::nullopt;
    for (const std::int32_t slot : module(object_of_module(tree_, *id)).parameters)
      if (tree_.parameters[static_cast<std::size_t>(slot)].name.ends_with(".weight"))
        return object_of(slot);
    return std::nullopt;
  }

  bool is_tied() const {
    const std::optional<Object> input = weight_of(facts_.input_embeddings);
    return input && input == weight_of(facts_.output_embeddings);
  }

  /// _find_final_norm: the last direct child of the base model whose class name has "Norm" in it.
  std::optional<std::int32_t> final_norm() const {
    std::optional<std::int32_t> base = 0;
    if (!facts_.base_model_prefix.empty()) base = find_module(tree_, 0, facts_.base_model_prefix);
    // Inside a wrapper the base model's children are out of sight.
    if (!base || (*base != 0 && wrappers_.around(*base) > 0)) return std::nullopt;
    std::optional<std::int32_t> norm;
    for (const std::int32_t child : module(*base).children)
      if (module(child).class_name.find("Norm") != std::string::npos &&
          wrappers_.around(child) == 0)
        norm = child;
    return norm;
  }

  const ModuleTree& tree_;
  const TransformersFacts& facts_;
  const AccelerateFsdp2& settings_;
  const CheckpointWrappers& wrappers_;
  std::vector<int> sharded_by_;  ///< by parameter name: index of the call
  std::vector<std::string> classes_;
  std::set<Place> sharded_;
  std::vector<AccelerateFsdp2Call> calls_;
};

/// Master weights: FSDP2 wants one dtype among the trainable parameters of a group.
ModuleTree upcast(ModuleTree tree) {
  for (TreeParameter& parameter : tree.parameters)
    if (parameter.trainable) parameter.dtype = Dtype::float32;
  return tree;
}

}  // namespace

std::vector<std::int32_t> children_bottom_up(const ModuleTree& tree) {
  std::vector<std::int32_t> order;
  std::vector<std::int32_t> stack{0};
  while (!stack.empty()) {
    const std::int32_t id = stack.back();
    stack.pop_back();
    order.push_back(id);
    for (const std::int32_t child : tree.modules[static_cast<std::size_t>(id)].children)
      stack.push_back(child);
  }
  std::reverse(order.begin(), order.end());
  order.pop_back();
  return order;
}

std::vector<AccelerateFsdp2Call> accelerate_fsdp2_calls(const ModuleTree& tree,
                                                        const TransformersFacts& facts,
                                                        const AccelerateFsdp2& settings,
                                                        const CheckpointWrappers& wrappers) {
  return Preparation(tree, facts, settings, wrappers).calls();
}

AccelerateFsdp2Plan accelerate_fsdp2(const ModuleTree& tree, const TransformersFacts& facts,
                                     const AccelerateFsdp2& settings, Fsdp2Moment moment) {
  AccelerateFsdp2Plan prepared{.tree = settings.mixed_precision ? upcast(tree) : tree, .fsdp2 = {}};
  FullySharding sharding(prepared.tree);
  for (const AccelerateFsdp2Call& made :
       accelerate_fsdp2_calls(prepared.tree, facts, settings, {})) {
    FullyShardCall call{.mesh = settings.mesh,
                        .reshard_after_forward = made.reshard_after_forward,
                        .ignored_parameters = settings.ignored_parameters};
    if (settings.mixed_precision)
      call.precision = {.parameters = settings.mixed_precision,
                        .reduction = settings.mixed_precision,
                        .output = settings.mixed_precision};
    call.list = made.is_list;
    for (const auto& [module, wrappers] : made.modules) call.modules.push_back(module);
    sharding.apply(call);
  }
  prepared.fsdp2 = sharding.plan(moment);
  return prepared;
}

}  // namespace shardscope
