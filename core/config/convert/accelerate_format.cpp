// PortableStrategy as accelerate's YAML.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>

#include "core/config/convert/convert.h"
#include "core/config/convert/formats.h"
#include "core/format/python_text.h"

namespace shardscope {
namespace {

std::string wrap_policy(const PortableWrap& wrap) {
  switch (wrap.policy) {
    case WrapPolicy::transformer:
      return "TRANSFORMER_BASED_WRAP";
    case WrapPolicy::size:
      return "SIZE_BASED_WRAP";
    case WrapPolicy::by_hand:
    case WrapPolicy::none:
      return "NO_WRAP";
  }
  return "NO_WRAP";
}

std::string state_dict(StateDict type) {
  switch (type) {
    case StateDict::full:
      return "FULL_STATE_DICT";
    case StateDict::sharded:
      return "SHARDED_STATE_DICT";
    case StateDict::local:
      return "LOCAL_STATE_DICT";
  }
  return "SHARDED_STATE_DICT";
}

bool reshards(ShardingStrategy sharding) {
  return sharding == ShardingStrategy::full_shard || sharding == ShardingStrategy::hybrid_shard;
}

/// What both versions have.
void set_common(ConfigValue& fsdp, const PortableStrategy& strategy) {
  fsdp.set("fsdp_auto_wrap_policy", wrap_policy(strategy.wrap));
  if (!strategy.wrap.classes.empty())
    fsdp.set("fsdp_transformer_layer_cls_to_wrap",
             fmt::format("{}", fmt::join(strategy.wrap.classes, ",")));
  if (strategy.wrap.policy == WrapPolicy::size)
    fsdp.set("fsdp_min_num_params", strategy.wrap.min_elements);
  fsdp.set("fsdp_activation_checkpointing", strategy.activation_checkpointing);
  fsdp.set("fsdp_cpu_ram_efficient_loading", strategy.efficient_loading);
  fsdp.set("fsdp_offload_params", strategy.offload_parameters != OffloadDevice::none);
  fsdp.set("fsdp_state_dict_type", state_dict(strategy.state_dict));
  if (!strategy.ignored_modules.empty()) fsdp.set("fsdp_ignored_modules", strategy.ignored_modules);
}

void set_version_1(ConfigValue& fsdp, const PortableStrategy& strategy) {
  // Under version 1 a strategy wins over fsdp_reshard_after_forward, which is left out.
  fsdp.set("fsdp_sharding_strategy", upper_of(name_of(strategy.sharding)));
  // Without the key accelerate prefetches nothing.
  if (strategy.backward_prefetch != BackwardPrefetch::none)
    fsdp.set("fsdp_backward_prefetch", strategy.backward_prefetch == BackwardPrefetch::pre
                                           ? "BACKWARD_PRE"
                                           : "BACKWARD_POST");
  fsdp.set("fsdp_forward_prefetch", strategy.forward_prefetch);
  fsdp.set("fsdp_use_orig_params", strategy.use_original_parameters);
  fsdp.set("fsdp_sync_module_states", strategy.sync_module_states);
}

void sort_keys(ConfigValue& dict) {
  auto& entries = dict.entries();
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.key < b.key; });
}

}  // namespace

ConfigValue accelerate_config(const PortableStrategy& strategy, int fsdp_version) {
  const bool ddp = fsdp_version == 2 && strategy.sharding == ShardingStrategy::no_shard;
  const std::int64_t world = strategy.world.value_or(1);
  ConfigValue config = ConfigValue::dict();
  config.set("compute_environment", "LOCAL_MACHINE");
  config.set("distributed_type", ddp ? "MULTI_GPU" : "FSDP");
  config.set("machine_rank", 0);
  config.set("mixed_precision", strategy.mixed_precision);
  config.set("num_machines", strategy.machines);
  config.set("num_processes", world);
  if (!ddp) {
    ConfigValue fsdp = ConfigValue::dict();
    fsdp.set("fsdp_version", fsdp_version);
    set_common(fsdp, strategy);
    if (fsdp_version == 1)
      set_version_1(fsdp, strategy);
    else
      fsdp.set("fsdp_reshard_after_forward", reshards(strategy.sharding));
    sort_keys(fsdp);
    config.set("fsdp_config", std::move(fsdp));
  }
  if (fsdp_version == 2 && is_hybrid(strategy)) {
    ConfigValue parallelism = ConfigValue::dict();
    parallelism.set("parallelism_config_dp_replicate_size", world / strategy.shard_group);
    parallelism.set("parallelism_config_dp_shard_size", strategy.shard_group);
    config.set("parallelism_config", std::move(parallelism));
  }
  for (const OwnSetting& setting : strategy.own)
    if (setting.tool == ConfigTool::accelerate) config.set(setting.key, setting.value);
  sort_keys(config);
  return config;
}

}  // namespace shardscope
