#include "core/pytorch/plans/accelerate_fsdp2.h"

#include <fmt/format.h>

#include <algorithm>

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
              const AccelerateFsdp2& settings)
      : tree_(tree), facts_(facts), settings_(settings), sharding_(tree) {
    if (settings.wrap == WrapPolicy::transformer)
      classes_ = settings.wrap_classes.value_or(facts.no_split_classes);
    for (const std::string& name : classes_) find_class(name);
  }

  void wrap_by_policy() {
    if (settings_.wrap == WrapPolicy::none) return;
    if (settings_.wrap == WrapPolicy::size && settings_.min_parameters <= 0) return;
    for (const std::int32_t id : children_bottom_up(tree_))
      if (is_wanted(id) && !sharding_.is_applied_to(id)) shard({id}, false);
  }

  void wrap_ends() {
    const bool tied = is_tied();
    const std::optional<std::int32_t> input = facts_.input_embeddings;
    if (!tied && input && !sharding_.is_applied_to(*input)) shard({*input}, false);
    std::vector<std::int32_t> tail;
    const auto add = [&](const std::optional<std::int32_t>& id) {
      if (id && !sharding_.is_applied_to(*id)) tail.push_back(*id);
    };
    add(final_norm());
    if (tied) add(input);
    add(facts_.output_embeddings);
    if (tail.empty()) return;
    FullyShardCall call = call_of(std::move(tail));
    call.list = true;
    call.reshard_after_forward = false;
    sharding_.apply(call);
  }

  void wrap_root() {
    if (sharding_.is_applied_to(0)) return;
    FullyShardCall call = call_of({0});
    call.reshard_after_forward.reset();
    sharding_.apply(call);
  }

  Fsdp2Plan plan(Fsdp2Moment moment) const { return sharding_.plan(moment); }

 private:
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
      return sharding_.elements_inside(object_of_module(tree_, id)) > settings_.min_parameters;
    return std::any_of(classes_.begin(), classes_.end(),
                       [&](const std::string& name) { return module(id).is(name); });
  }

  FullyShardCall call_of(std::vector<std::int32_t> modules) const {
    FullyShardCall call{.modules = std::move(modules),
                        .mesh = settings_.mesh,
                        .reshard_after_forward = settings_.reshard_after_forward,
                        .ignored_parameters = settings_.ignored_parameters};
    if (settings_.mixed_precision)
      call.precision = {.parameters = settings_.mixed_precision,
                        .reduction = settings_.mixed_precision,
                        .output = settings_.mixed_precision};
    return call;
  }

  void shard(std::vector<std::int32_t> modules, bool list) {
    FullyShardCall call = call_of(std::move(modules));
    call.list = list;
    sharding_.apply(call);
  }

  /// The object that stands under `weight`; what a call of the policy sharded is a new one.
  std::optional<std::int32_t> weight_of(const std::optional<std::int32_t>& id) const {
    if (!id) return std::nullopt;
    for (const std::int32_t slot : module(object_of_module(tree_, *id)).parameters)
      if (tree_.parameters[static_cast<std::size_t>(slot)].name.ends_with(".weight"))
        return sharding_.object_of(slot);
    return std::nullopt;
  }

  bool is_tied() const {
    const std::optional<std::int32_t> input = weight_of(facts_.input_embeddings);
    return input && input == weight_of(facts_.output_embeddings);
  }

  /// _find_final_norm: the last direct child of the base model whose class name has "Norm" in it.
  std::optional<std::int32_t> final_norm() const {
    std::optional<std::int32_t> base = 0;
    if (!facts_.base_model_prefix.empty()) base = find_module(tree_, 0, facts_.base_model_prefix);
    std::optional<std::int32_t> norm;
    if (!base) return norm;
    for (const std::int32_t child : module(*base).children)
      if (module(child).class_name.find("Norm") != std::string::npos) norm = child;
    return norm;
  }

  const ModuleTree& tree_;
  const TransformersFacts& facts_;
  const AccelerateFsdp2& settings_;
  FullySharding sharding_;
  std::vector<std::string> classes_;
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

AccelerateFsdp2Plan accelerate_fsdp2(const ModuleTree& tree, const TransformersFacts& facts,
                                     const AccelerateFsdp2& settings, Fsdp2Moment moment) {
  AccelerateFsdp2Plan prepared{.tree = settings.mixed_precision ? upcast(tree) : tree, .fsdp2 = {}};
  Preparation preparation(prepared.tree, facts, settings);
  preparation.wrap_by_policy();
  preparation.wrap_ends();
  preparation.wrap_root();
  prepared.fsdp2 = preparation.plan(moment);
  return prepared;
}

}  // namespace shardscope
