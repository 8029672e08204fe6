// What each format can say of a strategy, as a table of rules: what is in the way, what is written
// instead, and why.
#include <span>
#include <string>
#include <string_view>

#include "core/config/convert/convert.h"

namespace shardscope {
namespace {

using S = PortableStrategy;

/// A key that a format cannot say. `applies` tests, `mend` makes it the nearest that it can say.
struct Rule {
  std::string_view key;
  bool (*applies)(const S& s);
  void (*mend)(S& s);
  std::string_view why;
};

bool offloads(OffloadDevice device) { return device != OffloadDevice::none; }
std::int64_t ranks_per_machine(const S& s) { return s.world.value_or(1) / s.machines; }

bool several_groups(const S& s) {
  const std::int64_t world = s.world.value_or(1);
  return world > s.shard_group && world % s.shard_group == 0;
}

// What both of accelerate's versions cannot say.
constexpr Rule accelerate_rules[] = {
    {"num_processes", [](const S& s) { return !s.world.has_value(); },
     [](S& s) {
       s.machines = is_hybrid(s) ? 2 : 1;
       s.world = is_hybrid(s) && s.shard_group > 0 ? 2 * s.shard_group : 8;
     },
     "is not in the file and had to be assumed; give --world and --ranks-per-node"},
    {"zero_optimization.stage", [](const S& s) { return s.sharding == ShardingStrategy::zero1; },
     [](S& s) { s.sharding = ShardingStrategy::shard_grad_op; },
     "stage 1 has no equal: SHARD_GRAD_OP shards the gradients as well"},
    {"zero_optimization.offload_optimizer",
     [](const S& s) { return offloads(s.offload_optimizer) && !offloads(s.offload_parameters); },
     [](S& s) { s.offload_optimizer = OffloadDevice::none; },
     "FSDP offloads parameters, gradients and optimizer states together or not at all"},
    {"zero_optimization.offload_param",
     [](const S& s) { return offloads(s.offload_parameters) && !offloads(s.offload_optimizer); },
     [](S& s) { s.offload_optimizer = OffloadDevice::cpu; },
     "FSDP offloads the optimizer states with the parameters"},
    {"zero_optimization.offload_param.device",
     [](const S& s) {
       return s.offload_parameters == OffloadDevice::nvme ||
              s.offload_optimizer == OffloadDevice::nvme;
     },
     [](S& s) {
       if (offloads(s.offload_parameters)) s.offload_parameters = OffloadDevice::cpu;
       if (offloads(s.offload_optimizer)) s.offload_optimizer = OffloadDevice::cpu;
     },
     "FSDP offloads to the CPU's memory only, not to NVMe"},
    {"train_micro_batch_size_per_gpu", [](const S& s) { return s.micro_batch.has_value(); },
     [](S& s) { s.micro_batch.reset(); }, "is the data loader's batch_size in the script"},
    {"gradient_accumulation_steps", [](const S& s) { return s.accumulation.has_value(); },
     [](S& s) { s.accumulation.reset(); },
     "belongs to the script: Accelerator(gradient_accumulation_steps=...)"},
    {"gradient_clipping", [](const S& s) { return s.clip.has_value(); },
     [](S& s) { s.clip.reset(); }, "belongs to the script: accelerator.clip_grad_norm_(...)"},
    {"zero_optimization.zero_quantized_weights", [](const S& s) { return s.quantized_weights; },
     [](S& s) { s.quantized_weights = false; }, "FSDP gathers weights unquantized"},
    {"zero_optimization.zero_quantized_gradients", [](const S& s) { return s.quantized_gradients; },
     [](S& s) { s.quantized_gradients = false; }, "FSDP reduces gradients unquantized"},
};

constexpr Rule accelerate_v1_rules[] = {
    {"zero_optimization.zero_hpz_partition_size",
     [](const S& s) { return is_hybrid(s) && s.shard_group != ranks_per_machine(s); },
     [](S& s) { s.shard_group = ranks_per_machine(s); },
     "FSDP1 shards inside a node and replicates across nodes"},
};

constexpr Rule accelerate_v2_rules[] = {
    {"fsdp_sharding_strategy",
     [](const S& s) { return is_hybrid(s) && s.shard_group > 1 && !several_groups(s); },
     [](S& s) {
       s.sharding = s.sharding == ShardingStrategy::hybrid_shard ? ShardingStrategy::full_shard
                                                                 : ShardingStrategy::shard_grad_op;
       s.shard_group = 0;
     },
     "the ranks are not several whole sharding groups: there is nothing to replicate"},
    {"fsdp_sharding_strategy", [](const S& s) { return is_hybrid(s) && s.shard_group <= 1; },
     [](S& s) {
       s.sharding = ShardingStrategy::no_shard;
       s.shard_group = 0;
     },
     "sharding groups of one rank shard nothing: it is DDP"},
    {"fsdp_backward_prefetch",
     [](const S& s) { return s.backward_prefetch != BackwardPrefetch::pre; },
     [](S& s) { s.backward_prefetch = BackwardPrefetch::pre; },
     "FSDP2 always gathers the next unit before the gradients of this one"},
    {"fsdp_forward_prefetch", [](const S& s) { return s.forward_prefetch; },
     [](S& s) { s.forward_prefetch = false; }, "accelerate has no such key for FSDP2"},
    {"fsdp_use_orig_params", [](const S& s) { return !s.use_original_parameters; },
     [](S& s) { s.use_original_parameters = true; }, "FSDP2 always keeps the original parameters"},
    {"fsdp_sync_module_states", [](const S& s) { return !s.sync_module_states; },
     [](S& s) { s.sync_module_states = true; },
     "is gone in FSDP2: fsdp_cpu_ram_efficient_loading alone decides"},
    {"fsdp_state_dict_type", [](const S& s) { return s.state_dict == StateDict::local; },
     [](S& s) { s.state_dict = StateDict::sharded; }, "FSDP2 has no LOCAL_STATE_DICT"},
};

// A file without fsdp_config: distributed_type MULTI_GPU.
constexpr Rule ddp_rules[] = {
    {"fsdp_auto_wrap_policy", [](const S& s) { return s.wrap != PortableWrap{}; },
     [](S& s) { s.wrap = {}; }, "DDP has no units"},
    {"fsdp_offload_params", [](const S& s) { return offloads(s.offload_parameters); },
     [](S& s) { s.offload_parameters = s.offload_optimizer = OffloadDevice::none; },
     "DDP offloads nothing"},
    {"fsdp_activation_checkpointing", [](const S& s) { return s.activation_checkpointing; },
     [](S& s) { s.activation_checkpointing = false; },
     "belongs to the script: model.gradient_checkpointing_enable()"},
    {"fsdp_ignored_modules", [](const S& s) { return !s.ignored_modules.empty(); },
     [](S& s) { s.ignored_modules.clear(); },
     "DDP shards nothing, so there is nothing to leave out"},
    {"fsdp_cpu_ram_efficient_loading", [](const S& s) { return !s.efficient_loading; },
     [](S& s) { s.efficient_loading = true; }, "every DDP process loads the weights"},
    {"fsdp_state_dict_type", [](const S& s) { return s.state_dict != StateDict::full; },
     [](S& s) { s.state_dict = StateDict::full; }, "every DDP rank holds the whole model"},
};

bool whole_parameters(const S& s) {
  return s.sharding == ShardingStrategy::no_shard || s.sharding == ShardingStrategy::zero1 ||
         s.sharding == ShardingStrategy::shard_grad_op;
}

constexpr Rule deepspeed_rules[] = {
    {"fsdp_sharding_strategy",
     [](const S& s) { return s.sharding == ShardingStrategy::hybrid_shard_zero2; },
     [](S& s) {
       s.sharding = ShardingStrategy::shard_grad_op;
       s.shard_group = 0;
     },
     "HYBRID_SHARD_ZERO2 has no equal: stage 2 shards over all ranks, not inside each node"},
    {"fsdp_sharding_strategy", [](const S& s) { return is_hybrid(s) && s.shard_group <= 1; },
     [](S& s) {
       s.sharding = ShardingStrategy::no_shard;
       s.shard_group = 0;
     },
     "sharding groups of one rank shard nothing: it is DDP, stage 0"},
    {"num_processes", [](const S& s) { return s.world.has_value(); },
     [](S& s) {
       s.world.reset();
       s.machines = 1;
     },
     "is the launcher's: deepspeed --num_nodes ... --num_gpus ..."},
    {"mixed_precision", [](const S& s) { return s.mixed_precision == "fp8"; },
     [](S& s) { s.mixed_precision = "bf16"; }, "fp8 has no key in DeepSpeed: bf16 is the nearest"},
    {"fsdp_auto_wrap_policy", [](const S& s) { return s.wrap != deepspeed_wrap(); },
     [](S& s) { s.wrap = deepspeed_wrap(); },
     "DeepSpeed has no units: it gathers what each module needs and prefetches by size"},
    {"fsdp_offload_params",
     [](const S& s) { return offloads(s.offload_parameters) && whole_parameters(s); },
     [](S& s) { s.offload_parameters = OffloadDevice::none; },
     "only stage 3 offloads parameters; optimizer states still are"},
    {"fsdp_offload_params",
     [](const S& s) {
       return offloads(s.offload_optimizer) && s.sharding == ShardingStrategy::no_shard;
     },
     [](S& s) { s.offload_optimizer = OffloadDevice::none; }, "stage 0 offloads nothing"},
    {"fsdp_activation_checkpointing", [](const S& s) { return s.activation_checkpointing; },
     [](S& s) { s.activation_checkpointing = false; },
     "belongs to the script: model.gradient_checkpointing_enable()"},
    {"fsdp_ignored_modules", [](const S& s) { return !s.ignored_modules.empty(); },
     [](S& s) { s.ignored_modules.clear(); }, "DeepSpeed shards every parameter"},
    {"fsdp_backward_prefetch",
     [](const S& s) { return s.backward_prefetch != BackwardPrefetch::pre; },
     [](S& s) { s.backward_prefetch = BackwardPrefetch::pre; },
     "DeepSpeed prefetches by stage3_prefetch_bucket_size in both directions"},
    {"fsdp_forward_prefetch", [](const S& s) { return s.forward_prefetch; },
     [](S& s) { s.forward_prefetch = false; },
     "DeepSpeed prefetches by stage3_prefetch_bucket_size in both directions"},
    {"fsdp_use_orig_params", [](const S& s) { return !s.use_original_parameters; },
     [](S& s) { s.use_original_parameters = true; },
     "DeepSpeed always keeps the original parameters"},
    {"fsdp_sync_module_states", [](const S& s) { return !s.sync_module_states; },
     [](S& s) { s.sync_module_states = true; }, "DeepSpeed always broadcasts rank 0's weights"},
    {"fsdp_cpu_ram_efficient_loading", [](const S& s) { return !s.efficient_loading; },
     [](S& s) { s.efficient_loading = true; }, "is zero.Init's in DeepSpeed, called by the script"},
    {"fsdp_state_dict_type",
     [](const S& s) { return s.state_dict == StateDict::local && !whole_parameters(s); },
     [](S& s) { s.state_dict = StateDict::sharded; }, "DeepSpeed saves its own shards"},
    {"fsdp_state_dict_type",
     [](const S& s) { return s.state_dict != StateDict::full && whole_parameters(s); },
     [](S& s) { s.state_dict = StateDict::full; },
     "below stage 3 every rank holds, and rank 0 saves, the whole model"},
};

void apply(std::span<const Rule> rules, FittedStrategy& fit) {
  for (const Rule& rule : rules) {
    if (!rule.applies(fit.strategy)) continue;
    rule.mend(fit.strategy);
    fit.losses.push_back({.key = std::string(rule.key), .why = std::string(rule.why)});
  }
}

void drop_settings_of(ConfigTool tool, FittedStrategy& fit) {
  std::erase_if(fit.strategy.own, [&](const OwnSetting& setting) {
    if (setting.tool != tool) return false;
    if (!setting.why.empty()) fit.losses.push_back({.key = setting.key, .why = setting.why});
    return true;
  });
}

}  // namespace

bool is_hybrid(const PortableStrategy& strategy) { return is_hybrid(strategy.sharding); }

FittedStrategy fitted(const PortableStrategy& strategy, ConfigFormat format) {
  FittedStrategy fit{.strategy = strategy, .losses = {}};
  if (format == ConfigFormat::deepspeed) {
    apply(deepspeed_rules, fit);
    drop_settings_of(ConfigTool::accelerate, fit);
    return fit;
  }
  apply(accelerate_rules, fit);
  if (format == ConfigFormat::accelerate_v1) {
    apply(accelerate_v1_rules, fit);
  } else {
    apply(accelerate_v2_rules, fit);
    if (fit.strategy.sharding == ShardingStrategy::no_shard) apply(ddp_rules, fit);
  }
  drop_settings_of(ConfigTool::deepspeed, fit);
  return fit;
}

}  // namespace shardscope
