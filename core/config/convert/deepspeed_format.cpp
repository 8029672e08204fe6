// DeepSpeed's JSON to and from PortableStrategy.
#include <fmt/format.h>

#include <cmath>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/config/convert/convert.h"
#include "core/config/convert/formats.h"

namespace shardscope {
namespace {

/// Keys that go into fields of PortableStrategy, or that follow from them.
constexpr std::string_view understood[] = {
    "zero_optimization.stage",
    "zero_optimization.zero_hpz_partition_size",
    "zero_optimization.zero_quantized_weights",
    "zero_optimization.zero_quantized_gradients",
    "zero_optimization.offload_param.device",
    "zero_optimization.offload_optimizer.device",
    "zero_optimization.stage3_gather_16bit_weights_on_model_save",
    "bf16.enabled",
    "bfloat16.enabled",
    "fp16.enabled",
    "train_micro_batch_size_per_gpu",
    "train_batch_size",
    "gradient_accumulation_steps",
    "gradient_clipping",
};

constexpr std::int64_t largest_group = 1 << 20;  ///< ranks; larger is a typing error

struct Reason {
  std::string_view prefix;  ///< of the key
  std::string_view why;
};
/// Why FSDP has no place for a key; the first that fits.
constexpr Reason reasons[] = {
    {"optimizer", "is made in the training script"},
    {"scheduler", "is made in the training script"},
    {"zero_optimization.reduce_bucket_size", "FSDP reduces unit by unit; there are no buckets"},
    {"zero_optimization.allgather_bucket_size", "FSDP gathers unit by unit; there are no buckets"},
    {"zero_optimization.stage3_prefetch_bucket_size", "FSDP prefetches whole units"},
    {"zero_optimization.stage3_param_persistence_threshold",
     "FSDP shards small parameters too; none stays gathered"},
    {"zero_optimization.stage3_model_persistence_threshold",
     "FSDP shards small parameters too; none stays gathered"},
    {"zero_optimization.stage3_max", "FSDP frees a unit when its forward or backward ends"},
    {"zero_optimization.sub_group_size", "FSDP's optimizer steps over all shards at once"},
    {"zero_optimization.overlap_comm", "FSDP always overlaps communication with compute"},
    {"zero_optimization.contiguous_gradients", "FSDP's gradients are contiguous by unit"},
    {"zero_optimization.offload_", "FSDP's offload has no such setting"},
    {"fp16.", "the loss scale is the gradient scaler's, in the training script"},
    {"activation_checkpointing", "is called by the model's code"},
    {"steps_per_print", ""},
    {"wall_clock_breakdown", ""},
    {"", "FSDP has no such setting"},
};

std::string_view reason_for(std::string_view key) {
  for (const Reason& reason : reasons)
    if (key.starts_with(reason.prefix)) return reason.why;
  return {};
}

bool is_understood(std::string_view key) {
  for (const std::string_view known : understood)
    if (known == key) return true;
  return false;
}

/// Leaves of nested dicts with their dotted keys.
void collect_own(const ConfigValue& value, const std::string& prefix, PortableStrategy& strategy) {
  for (const ConfigValue::Entry& entry : value.entries()) {
    const std::string key = prefix.empty() ? entry.key : prefix + "." + entry.key;
    if (entry.value.is_dict() && entry.value.size() > 0) {
      collect_own(entry.value, key, strategy);
      continue;
    }
    if (entry.value.is("auto") && (key == "bf16.enabled" || key == "fp16.enabled")) {
      strategy.own.push_back({.tool = ConfigTool::deepspeed,
                              .key = key,
                              .value = entry.value,
                              .why = "\"auto\" is for the Trainer to decide; here mixed_precision "
                                     "must say it"});
      continue;
    }
    if (is_understood(key) || entry.value.is("auto") || entry.value.is_null()) continue;
    // accelerate adds "steps_per_print": inf to what it hands on; no file can say that.
    if (entry.value.is_double() && !std::isfinite(entry.value.number())) continue;
    strategy.own.push_back({.tool = ConfigTool::deepspeed,
                            .key = key,
                            .value = entry.value,
                            .why = std::string(reason_for(key))});
  }
}

/// The value under a dotted key; None where there is none or it stands at "auto".
ConfigValue get(const ConfigValue& config, std::string_view key) {
  const std::size_t dot = key.find('.');
  if (dot == std::string_view::npos) {
    const ConfigValue value = config.get(key);
    return value.is("auto") ? ConfigValue() : value;
  }
  const ConfigValue* section = config.find(key.substr(0, dot));
  return section && section->is_dict() ? get(*section, key.substr(dot + 1)) : ConfigValue();
}

bool on(const ConfigValue& config, std::string_view key) { return get(config, key).truthy(); }

std::int64_t integer(const ConfigValue& config, std::string_view key, std::int64_t otherwise) {
  const ConfigValue value = get(config, key);
  return value.is_integer() ? value.integer() : otherwise;
}

OffloadDevice offload(const ConfigValue& config, std::string_view key) {
  const ConfigValue device = get(config, key);
  if (device.is("cpu")) return OffloadDevice::cpu;
  if (device.is("nvme")) return OffloadDevice::nvme;
  return OffloadDevice::none;
}

std::string mixed_precision(const ConfigValue& config) {
  if (on(config, "bf16.enabled") || on(config, "bfloat16.enabled")) return "bf16";
  return on(config, "fp16.enabled") ? "fp16" : "no";
}

ShardingStrategy sharding_of(std::int64_t stage, std::int64_t hpz) {
  if (stage == 0) return ShardingStrategy::no_shard;
  if (stage == 1) return ShardingStrategy::zero1;
  if (stage == 2) return ShardingStrategy::shard_grad_op;
  return hpz > 1 ? ShardingStrategy::hybrid_shard : ShardingStrategy::full_shard;
}

void set(ConfigValue& config, std::string_view key, ConfigValue value) {
  const std::size_t dot = key.find('.');
  if (dot == std::string_view::npos) {
    config.set(key, std::move(value));
    return;
  }
  ConfigValue* section = config.find(key.substr(0, dot));
  if (!section) section = &config.set(key.substr(0, dot), ConfigValue::dict());
  set(*section, key.substr(dot + 1), std::move(value));
}

void set_offload(ConfigValue& config, std::string_view key, OffloadDevice device) {
  if (device == OffloadDevice::none) return;
  set(config, key, device == OffloadDevice::cpu ? "cpu" : "nvme");
}

ConfigValue or_auto(const std::optional<std::int64_t>& value) {
  return value ? ConfigValue(*value) : ConfigValue("auto");
}

}  // namespace

PortableStrategy read_deepspeed_strategy(const ConfigValue& config) {
  const std::int64_t stage = integer(config, "zero_optimization.stage", 0);
  const std::int64_t hpz = integer(config, "zero_optimization.zero_hpz_partition_size", 1);
  if (hpz < 0 || hpz > largest_group)
    throw Error({.where = "zero_optimization.zero_hpz_partition_size",
                 .what = fmt::format("expected 0 to {}, got {}", largest_group, hpz)});
  PortableStrategy strategy{
      .sharding = sharding_of(stage, hpz),
      .mixed_precision = mixed_precision(config),
      .wrap = deepspeed_wrap(),
      .offload_parameters = offload(config, "zero_optimization.offload_param.device"),
      .offload_optimizer = offload(config, "zero_optimization.offload_optimizer.device")};
  if (is_hybrid(strategy)) strategy.shard_group = hpz;
  const bool gathers_weights =
      stage < 3 || on(config, "zero_optimization.stage3_gather_16bit_weights_on_model_save");
  strategy.state_dict = gathers_weights ? StateDict::full : StateDict::sharded;
  strategy.quantized_weights = on(config, "zero_optimization.zero_quantized_weights");
  strategy.quantized_gradients = on(config, "zero_optimization.zero_quantized_gradients");
  const auto count = [&](std::string_view key) -> std::optional<std::int64_t> {
    const ConfigValue value = get(config, key);
    return value.is_integer() ? std::optional(value.integer()) : std::nullopt;
  };
  strategy.micro_batch = count("train_micro_batch_size_per_gpu");
  strategy.accumulation = count("gradient_accumulation_steps");
  if (const ConfigValue clip = get(config, "gradient_clipping"); clip.is_number())
    strategy.clip = clip.number();
  collect_own(config, "", strategy);
  return strategy;
}

ConfigValue deepspeed_config(const PortableStrategy& strategy) {
  const int stage = zero_stage(strategy.sharding);
  ConfigValue config = ConfigValue::dict();
  if (strategy.mixed_precision != "no") set(config, strategy.mixed_precision + ".enabled", true);
  set(config, "zero_optimization.stage", stage);
  if (strategy.sharding == ShardingStrategy::hybrid_shard)
    set(config, "zero_optimization.zero_hpz_partition_size", strategy.shard_group);
  if (strategy.quantized_weights) set(config, "zero_optimization.zero_quantized_weights", true);
  if (strategy.quantized_gradients) set(config, "zero_optimization.zero_quantized_gradients", true);
  set_offload(config, "zero_optimization.offload_param.device", strategy.offload_parameters);
  set_offload(config, "zero_optimization.offload_optimizer.device", strategy.offload_optimizer);
  if (stage == 3 && strategy.state_dict == StateDict::full)
    set(config, "zero_optimization.stage3_gather_16bit_weights_on_model_save", true);
  set(config, "train_micro_batch_size_per_gpu", or_auto(strategy.micro_batch));
  set(config, "gradient_accumulation_steps", or_auto(strategy.accumulation));
  set(config, "gradient_clipping",
      strategy.clip ? ConfigValue(*strategy.clip) : ConfigValue("auto"));
  for (const OwnSetting& setting : strategy.own)
    if (setting.tool == ConfigTool::deepspeed) set(config, setting.key, setting.value);
  return config;
}

}  // namespace shardscope
