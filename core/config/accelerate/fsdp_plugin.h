// accelerate's FullyShardedDataParallelPlugin, as the workers make it from their environment.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/values/config_value.h"
#include "core/config/values/environment.h"
#include "core/pytorch/plans/module_tree.h"
#include "core/pytorch/plans/wrapping.h"
#include "core/schedule/strategy.h"

namespace shardscope::accelerate {

/// Names are torch's: "FULL_SHARD", "_HYBRID_SHARD_ZERO2"; absent values are None.
struct FsdpPlugin {
  std::int64_t fsdp_version = 1;
  std::optional<std::string> sharding_strategy;  ///< version 1 only
  /// A bool in version 2, a strategy's name in others.
  ConfigValue reshard_after_forward;
  std::optional<std::string> backward_prefetch;
  std::optional<std::string> mixed_precision;  ///< "bf16", "fp16"; the policy is made of it
  WrapPolicy wrap = WrapPolicy::none;
  bool offload_params = false;
  std::optional<std::string> ignored_modules;  ///< a pattern that whole module names match
  std::string state_dict_type;
  bool limit_all_gathers = true;
  std::optional<bool> use_orig_params;
  std::optional<bool> sync_module_states;
  std::optional<bool> forward_prefetch;
  bool activation_checkpointing = false;
  bool activation_checkpointing_offload = false;
  bool cpu_ram_efficient_loading = false;
  std::optional<std::vector<std::string>> wrap_classes;  ///< transformer_cls_names_to_wrap
  std::optional<ConfigValue> min_num_params;
  /// set_auto_wrap_policy found these in the model.
  std::optional<std::vector<std::string>> found_classes;
  /// peft.utils.other.fsdp_auto_wrap_policy took the place of the policy: modules by name.
  std::optional<std::set<std::string>> peft_modules;
  bool carves_ends = true;  ///< AccelerateFsdp2::carves_ends
  std::vector<std::string> warnings;

  bool is_version(std::int64_t version) const { return fsdp_version == version; }
};

/// FullyShardedDataParallelPlugin() in an environment, on a machine with or without a device.
/// Raises what it raises: ValueError, KeyError, RuntimeError. Source: accelerate 1.15.0
/// utils/dataclasses.py, __post_init__.
FsdpPlugin make_fsdp_plugin(const Environment& environment, bool has_device = true);

/// The name of torch's ShardingStrategy for a name in any case or a number: "_HYBRID_SHARD_ZERO2"
/// of "hybrid_shard_zero2" and "5". Raises ValueError, KeyError.
std::string sharding_strategy_name(const std::string& text);

/// str.split(","): nothing is trimmed, and "" has one part.
std::vector<std::string> split_at_commas(std::string_view text);

/// set_mixed_precision("bf16"). Raises ValueError for what is no precision.
void set_mixed_precision(FsdpPlugin& plugin, std::string_view precision);

/// set_auto_wrap_policy(model): finds the classes, or takes the model's own. Raises ValueError
/// where the model has no such class. `no_split_classes` is _no_split_modules.
void set_auto_wrap_policy(FsdpPlugin& plugin, const ModuleTree& tree,
                          const std::vector<std::string>& no_split_classes);

/// update_fsdp_plugin_peft of transformers' Trainer, in the place of set_auto_wrap_policy: layers
/// of `classes` and leaves that train are units, under version 1. Raises TypeError for a class that
/// the model has not. Source: transformers 5.24 distributed/fsdp.py.
void set_peft_wrap_policy(FsdpPlugin& plugin, const ModuleTree& tree,
                          const std::vector<std::string>& classes);

/// The fields under the dataclass's names, enums as their names, objects as {"class", fields}.
ConfigValue plugin_fields(const FsdpPlugin& plugin);
/// The mixed-precision policy as an object; None without one.
ConfigValue mixed_precision_policy(const FsdpPlugin& plugin);
ConfigValue cpu_offload(const FsdpPlugin& plugin);
/// The policy as set_auto_wrap_policy leaves it: {"function", its arguments}; None where nothing is
/// wrapped.
ConfigValue auto_wrap_policy(const FsdpPlugin& plugin);
/// The same as FullyShardedDataParallel takes it.
AutoWrap auto_wrap_of(const FsdpPlugin& plugin);

}  // namespace shardscope::accelerate
