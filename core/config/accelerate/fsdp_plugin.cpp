#include "core/config/accelerate/fsdp_plugin.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <span>

#include "core/base/refusal.h"
#include "core/config/values/python_arithmetic.h"
#include "core/config/values/python_number.h"
#include "core/format/python_text.h"
#include "core/pytorch/plans/transformers_facts.h"

namespace shardscope::accelerate {

std::vector<std::string> split_at_commas(std::string_view text) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t comma = text.find(',');
    parts.emplace_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

namespace {

using Names = std::span<const std::string_view>;

// The spellings that accelerate accepts, and torch's own members; number n is at n - 1.
constexpr std::array<std::string_view, 5> strategy_words{"FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD",
                                                         "HYBRID_SHARD", "HYBRID_SHARD_ZERO2"};
constexpr std::array<std::string_view, 5> strategy_members{
    "FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "_HYBRID_SHARD_ZERO2"};
constexpr std::array<std::string_view, 3> prefetch_words{"BACKWARD_PRE", "BACKWARD_POST",
                                                         "NO_PREFETCH"};
constexpr std::array<std::string_view, 2> prefetch_members{"BACKWARD_PRE", "BACKWARD_POST"};
constexpr std::array<std::string_view, 3> state_dict_members{"FULL_STATE_DICT", "LOCAL_STATE_DICT",
                                                             "SHARDED_STATE_DICT"};

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string member_at(std::string_view what, const ConfigValue& number, Names members) {
  const bool fits = number.is_integer() && number.integer() >= 1 &&
                    number.integer() <= static_cast<std::int64_t>(members.size());
  if (!fits)
    throw Refusal("ValueError",
                  {.where = {},
                   .what = fmt::format("{} has no member {}", what, number.repr()),
                   .way_out = fmt::format("give one of {}", fmt::join(members, ", "))});
  return std::string(members[static_cast<std::size_t>(number.integer() - 1)]);
}

/// A name in any case, or a number. `words` are accelerate's names, tried before torch's members.
std::string enum_member(std::string_view what, const std::string& text, Names words,
                        Names members) {
  const std::string upper = upper_of(text);
  const auto word = std::find(words.begin(), words.end(), upper);
  if (word != words.end())
    return member_at(what, static_cast<std::int64_t>(word - words.begin()) + 1, members);
  if (is_digits(text)) return member_at(what, python_integer(text), members);
  const auto member = std::find(members.begin(), members.end(), upper);
  if (member == members.end())
    throw Refusal("KeyError",
                  {.where = {},
                   .what = fmt::format("{} has no member {}", what, python_quoted(upper)),
                   .way_out = fmt::format("give one of {}", fmt::join(members, ", "))});
  return std::string(*member);
}

std::string strategy_of(const std::string& text) {
  return enum_member("ShardingStrategy", text, strategy_words, strategy_members);
}

/// What `action` raises names the variable.
template <class Action>
auto in(std::string_view name, Action action) {
  try {
    return action();
  } catch (const Refusal& refusal) {
    Error::Parts parts = refusal.parts();
    parts.where = fmt::format("FSDP_{}", name);
    throw Refusal(refusal.exception(), std::move(parts));
  }
}

class Maker {
 public:
  Maker(const Environment& environment, bool has_device)
      : environment_(environment), has_device_(has_device) {}

  FsdpPlugin make() {
    const ConfigValue version = in("VERSION", [&] { return python_integer(get("VERSION", "1")); });
    p_.fsdp_version = version.is_integer() ? version.integer() : -1;
    if (p_.is_version(1))
      p_.sharding_strategy = in(
          "SHARDING_STRATEGY", [&] { return strategy_of(get("SHARDING_STRATEGY", "FULL_SHARD")); });
    in("RESHARD_AFTER_FORWARD", [&] { reshard(); });
    p_.offload_params = truth("OFFLOAD_PARAMS");
    in("BACKWARD_PREFETCH", [&] { prefetch(); });
    in("STATE_DICT_TYPE", [&] { state_dict(); });
    wrap();
    version_1_flags();
    checkpointing();
    p_.ignored_modules = find("IGNORED_MODULES");
    p_.cpu_ram_efficient_loading = truth("CPU_RAM_EFFICIENT_LOADING");
    if (p_.is_version(1) && p_.cpu_ram_efficient_loading && p_.sync_module_states == false) {
      p_.warnings.emplace_back("sync_module_states is set to True: efficient loading needs it");
      p_.sync_module_states = true;
    }
    if (p_.sync_module_states == true && !has_device_)
      throw Refusal("RuntimeError",
                    {.where = "FSDP_SYNC_MODULE_STATES",
                     .what = "weights are sent between devices, and the machine has none",
                     .way_out = "set it and FSDP_CPU_RAM_EFFICIENT_LOADING to false"});
    return std::move(p_);
  }

 private:
  std::optional<std::string> find(std::string_view name) const {
    const auto found = environment_.find("FSDP_" + std::string(name));
    if (found == environment_.end()) return std::nullopt;
    return found->second;
  }
  std::string get(std::string_view name, std::string_view otherwise) const {
    return find(name).value_or(std::string(otherwise));
  }
  bool truth(std::string_view name) const {
    return in(name, [&] { return str_to_bool(get(name, "False")); });
  }

  void reshard() {
    if (p_.sharding_strategy) return;
    const bool version_2 = p_.is_version(2);
    const std::string text = get("RESHARD_AFTER_FORWARD", version_2 ? "true" : "FULL_SHARD");
    p_.reshard_after_forward =
        version_2 ? ConfigValue(str_to_bool(text)) : ConfigValue(strategy_of(text));
  }

  void prefetch() {
    const std::optional<std::string> text = find("BACKWARD_PREFETCH");
    if (!text || upper_of(*text) == "NO_PREFETCH") return;
    p_.backward_prefetch = enum_member("BackwardPrefetch", *text, prefetch_words, prefetch_members);
    if (!p_.is_version(2)) return;
    p_.warnings.emplace_back("backward_prefetch is not supported in FSDP2 and is set to None");
    p_.backward_prefetch.reset();
  }

  void state_dict() {
    const std::string text =
        get("STATE_DICT_TYPE", p_.is_version(1) ? "FULL_STATE_DICT" : "SHARDED_STATE_DICT");
    p_.state_dict_type = enum_member("StateDictType", text, {}, state_dict_members);
    if (p_.is_version(2) && p_.state_dict_type == "LOCAL_STATE_DICT")
      throw Refusal("ValueError", {.where = {},
                                   .what = "FSDP2 has no LOCAL_STATE_DICT",
                                   .way_out = "give SHARDED_STATE_DICT or FULL_STATE_DICT"});
  }

  void wrap() {
    const std::string text = get("AUTO_WRAP_POLICY", "NO_WRAP");
    const std::string policy = upper_of(text);
    if (policy == "TRANSFORMER_BASED_WRAP") {
      p_.wrap = WrapPolicy::transformer;
      if (const auto names = find("TRANSFORMER_CLS_TO_WRAP"))
        p_.wrap_classes = split_at_commas(*names);
    } else if (policy == "SIZE_BASED_WRAP") {
      p_.wrap = WrapPolicy::size;
      p_.min_num_params =
          in("MIN_NUM_PARAMS", [&] { return python_integer(get("MIN_NUM_PARAMS", "0")); });
    } else if (policy != "NO_WRAP") {
      throw Refusal("ValueError",
                    {.where = "FSDP_AUTO_WRAP_POLICY",
                     .what = fmt::format("{} is no wrap policy", python_quoted(text)),
                     .way_out = "give TRANSFORMER_BASED_WRAP, SIZE_BASED_WRAP or NO_WRAP"});
    }
  }

  void version_1_flags() {
    if (!p_.is_version(1)) return;
    p_.use_orig_params = truth("USE_ORIG_PARAMS");
    p_.sync_module_states = truth("SYNC_MODULE_STATES");
    p_.forward_prefetch = truth("FORWARD_PREFETCH");
  }

  void checkpointing() {
    p_.activation_checkpointing = truth("ACTIVATION_CHECKPOINTING");
    p_.activation_checkpointing_offload = truth("ACTIVATION_CHECKPOINTING_OFFLOAD");
    if (!p_.activation_checkpointing_offload) return;
    if (!p_.activation_checkpointing)
      throw Refusal("ValueError", {.where = "FSDP_ACTIVATION_CHECKPOINTING_OFFLOAD",
                                   .what = "it needs activation_checkpointing",
                                   .way_out = "set both"});
    if (!p_.is_version(2))
      throw Refusal("ValueError", {.where = "FSDP_ACTIVATION_CHECKPOINTING_OFFLOAD",
                                   .what = "it needs fsdp_version 2",
                                   .way_out = "set fsdp_version: 2"});
  }

  const Environment& environment_;
  bool has_device_;
  FsdpPlugin p_;
};

ConfigValue or_none(const std::optional<std::string>& text) {
  return text ? ConfigValue(*text) : ConfigValue();
}
ConfigValue or_none(const std::optional<bool>& value) {
  return value ? ConfigValue(*value) : ConfigValue();
}
ConfigValue list_of(const std::vector<std::string>& texts) {
  return ConfigValue(ConfigValue::List(texts.begin(), texts.end()));
}

ConfigValue state_dict_config(const FsdpPlugin& plugin, std::string_view kind) {
  const bool full = plugin.state_dict_type == "FULL_STATE_DICT";
  if (!full && plugin.state_dict_type != "SHARDED_STATE_DICT") return {};
  ConfigValue config = ConfigValue::dict(
      {{"class", fmt::format("{}{}", full ? "Full" : "Sharded", kind)}, {"offload_to_cpu", true}});
  config.set(full ? "rank0_only" : "_use_dtensor", full);
  return config;
}

std::string_view policy_function(WrapPolicy wrap) {
  return wrap == WrapPolicy::transformer ? "transformer_auto_wrap_policy"
                                         : "size_based_auto_wrap_policy";
}

bool has_class(const ModuleTree& tree, const std::string& name) {
  return std::any_of(tree.modules.begin(), tree.modules.end(),
                     [&](const TreeModule& module) { return module.class_name == name; });
}

}  // namespace

std::string sharding_strategy_name(const std::string& text) { return strategy_of(text); }

FsdpPlugin make_fsdp_plugin(const Environment& environment, bool has_device) {
  return Maker(environment, has_device).make();
}

void set_mixed_precision(FsdpPlugin& plugin, std::string_view precision) {
  constexpr std::array<std::string_view, 4> known{"fp8", "fp16", "bf16", "fp32"};
  if (std::find(known.begin(), known.end(), precision) == known.end())
    throw Refusal("ValueError", fmt::format("{} is no mixed precision", precision));
  plugin.mixed_precision = precision;
}

void set_auto_wrap_policy(FsdpPlugin& plugin, const ModuleTree& tree,
                          const std::vector<std::string>& no_split_classes) {
  if (plugin.wrap == WrapPolicy::size && plugin.min_num_params->truthy() &&
      plugin.min_num_params->number() > 0)
    return;
  if (plugin.wrap == WrapPolicy::size) plugin.wrap = WrapPolicy::none;
  if (plugin.wrap != WrapPolicy::transformer || plugin.found_classes) return;
  if (!plugin.wrap_classes) plugin.wrap_classes = no_split_classes;
  std::set<std::string> found;
  for (const std::string& name : *plugin.wrap_classes) {
    if (!has_class(tree, name))
      throw Refusal("ValueError",
                    {.where = "FSDP_TRANSFORMER_CLS_TO_WRAP",
                     .what = fmt::format("the model has no class {}", python_quoted(name)),
                     .way_out = "name classes of its layers, separated by commas without blanks"});
    found.insert(name);
  }
  plugin.found_classes = {found.begin(), found.end()};
}

ConfigValue mixed_precision_policy(const FsdpPlugin& plugin) {
  if (!plugin.mixed_precision) return {};
  const std::string type = *plugin.mixed_precision == "fp16"   ? "torch.float16"
                           : *plugin.mixed_precision == "fp32" ? "torch.float32"
                                                               : "torch.bfloat16";
  if (plugin.is_version(2))
    return ConfigValue::dict({{"class", "MixedPrecisionPolicy"},
                              {"param_dtype", type},
                              {"reduce_dtype", type},
                              {"output_dtype", type},
                              {"cast_forward_inputs", true},
                              {"param_dtype_override_fn", ConfigValue()}});
  return ConfigValue::dict({{"class", "MixedPrecision"},
                            {"param_dtype", type},
                            {"reduce_dtype", type},
                            {"buffer_dtype", type},
                            {"keep_low_precision_grads", false},
                            {"cast_forward_inputs", false},
                            {"cast_root_forward_inputs", true},
                            {"_module_classes_to_ignore", ConfigValue::list({"_BatchNorm"})}});
}

ConfigValue cpu_offload(const FsdpPlugin& plugin) {
  if (!plugin.is_version(2))
    return ConfigValue::dict({{"class", "CPUOffload"}, {"offload_params", plugin.offload_params}});
  if (!plugin.offload_params) return ConfigValue::dict({{"class", "OffloadPolicy"}});
  return ConfigValue::dict({{"class", "CPUOffloadPolicy"}, {"pin_memory", true}});
}

ConfigValue auto_wrap_policy(const FsdpPlugin& plugin) {
  if (plugin.wrap == WrapPolicy::none) return {};
  ConfigValue policy = ConfigValue::dict({{"function", policy_function(plugin.wrap)}});
  if (plugin.wrap == WrapPolicy::size)
    policy.set("min_num_params", *plugin.min_num_params);
  else
    policy.set("transformer_layer_cls",
               list_of(plugin.found_classes.value_or(std::vector<std::string>())));
  return policy;
}

ConfigValue plugin_fields(const FsdpPlugin& p) {
  return ConfigValue::dict(
      {{"fsdp_version", p.fsdp_version},
       {"sharding_strategy", or_none(p.sharding_strategy)},
       {"reshard_after_forward", p.reshard_after_forward},
       {"backward_prefetch", or_none(p.backward_prefetch)},
       {"mixed_precision_policy", mixed_precision_policy(p)},
       {"auto_wrap_policy",
        p.wrap == WrapPolicy::none ? ConfigValue() : ConfigValue(policy_function(p.wrap))},
       {"cpu_offload", cpu_offload(p)},
       {"ignored_modules", or_none(p.ignored_modules)},
       {"state_dict_type", p.state_dict_type},
       {"state_dict_config", state_dict_config(p, "StateDictConfig")},
       {"optim_state_dict_config", state_dict_config(p, "OptimStateDictConfig")},
       {"limit_all_gathers", p.limit_all_gathers},
       {"use_orig_params", or_none(p.use_orig_params)},
       {"param_init_fn", p.sync_module_states == true ? ConfigValue("function") : ConfigValue()},
       {"sync_module_states", or_none(p.sync_module_states)},
       {"forward_prefetch", or_none(p.forward_prefetch)},
       {"activation_checkpointing", p.activation_checkpointing},
       {"activation_checkpointing_offload", p.activation_checkpointing_offload},
       {"cpu_ram_efficient_loading", p.cpu_ram_efficient_loading},
       {"transformer_cls_names_to_wrap", p.wrap_classes ? list_of(*p.wrap_classes) : ConfigValue()},
       {"min_num_params", p.min_num_params.value_or(ConfigValue())}});
}

void set_peft_wrap_policy(FsdpPlugin& plugin, const ModuleTree& tree,
                          const std::vector<std::string>& classes) {
  for (const std::string& name : classes)
    if (!name.empty() && !std::ranges::any_of(tree.modules, [&](const TreeModule& module) {
          return module.class_name == name;
        }))
      throw Refusal("TypeError",
                    {.where = "FSDP_TRANSFORMER_CLS_TO_WRAP",
                     .what = fmt::format("PEFT finds no module of class {} in the model", name),
                     .way_out = "name a class of its layers"});
  plugin.peft_modules = peft_units(tree, classes);
}

AutoWrap auto_wrap_of(const FsdpPlugin& plugin) {
  if (plugin.peft_modules)
    return NameWrap{.modules = {plugin.peft_modules->begin(), plugin.peft_modules->end()}};
  const std::int64_t elements = plugin.min_num_params && plugin.min_num_params->is_integer()
                                    ? plugin.min_num_params->integer()
                                    : 0;
  if (plugin.wrap == WrapPolicy::size && elements > 0) return SizeWrap{.min_elements = elements};
  if (plugin.wrap == WrapPolicy::transformer && plugin.found_classes)
    return TransformerWrap{.classes = *plugin.found_classes};
  return NoWrap{};
}

}  // namespace shardscope::accelerate
