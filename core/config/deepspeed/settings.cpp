#include "core/config/deepspeed/settings.h"

#include <array>
#include <cmath>
#include <utility>

#include "core/base/error.h"

namespace shardscope {
namespace {

Error no_number(std::string_view key, const ConfigValue& value) {
  return Error({.where = std::string(key),
                .what = "expected a number, got " + value.repr(),
                .way_out = "give a number where nothing fills \"auto\" in"});
}

/// An int, or a float that is whole.
std::int64_t whole(const ConfigValue& values, std::string_view key) {
  const ConfigValue& value = values.at(key);
  if (value.is_integer()) return value.integer();
  const bool fits = value.is_double() && std::trunc(value.number()) == value.number() &&
                    std::abs(value.number()) < 0x1p62;
  if (!fits) throw no_number(key, value);
  return static_cast<std::int64_t>(value.number());
}

DeepSpeedOffload offload_of(const ConfigValue& section) {
  if (!section.is_dict()) return {};
  DeepSpeedOffload offload{.device = section.at("device").is("cpu")    ? OffloadDevice::cpu
                                     : section.at("device").is("nvme") ? OffloadDevice::nvme
                                                                       : OffloadDevice::none,
                           .nvme_path = {},
                           .pin_memory = section.at("pin_memory").boolean(),
                           .ratio = 1};
  if (section.at("nvme_path").is_string()) offload.nvme_path = section.at("nvme_path").string();
  if (const ConfigValue* ratio = section.find("ratio")) offload.ratio = ratio->number();
  return offload;
}

/// A dtype in any of DeepSpeed's spellings; nothing for None.
std::optional<Dtype> dtype_of(const ConfigValue& value, std::string_view key) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> shorter{
      {{"fp32", "float32"}, {"fp16", "float16"}, {"bf16", "bfloat16"}, {"half", "float16"}}};
  if (value.is_null()) return std::nullopt;
  if (!value.is_string()) throw no_number(key, value);
  for (const auto& [name, full] : shorter)
    if (value.is(name)) return parse_dtype(full, key);
  return parse_dtype(value.string(), key);
}

using Elements = std::int64_t DeepSpeedSettings::*;
using Flag = bool DeepSpeedSettings::*;

constexpr std::array<std::pair<std::string_view, Elements>, 9> element_keys{{
    {"reduce_bucket_size", &DeepSpeedSettings::reduce_bucket_elements},
    {"allgather_bucket_size", &DeepSpeedSettings::allgather_bucket_elements},
    {"stage3_prefetch_bucket_size", &DeepSpeedSettings::prefetch_bucket_elements},
    {"stage3_param_persistence_threshold", &DeepSpeedSettings::param_persistence_elements},
    {"stage3_model_persistence_threshold", &DeepSpeedSettings::model_persistence_elements},
    {"stage3_max_live_parameters", &DeepSpeedSettings::max_live_elements},
    {"stage3_max_reuse_distance", &DeepSpeedSettings::max_reuse_elements},
    {"sub_group_size", &DeepSpeedSettings::sub_group_elements},
    {"zero_hpz_partition_size", &DeepSpeedSettings::hpz_partition_size},
}};

constexpr std::array<std::pair<std::string_view, Flag>, 10> flag_keys{{
    {"overlap_comm", &DeepSpeedSettings::overlap_comm},
    {"contiguous_gradients", &DeepSpeedSettings::contiguous_gradients},
    {"reduce_scatter", &DeepSpeedSettings::reduce_scatter},
    {"round_robin_gradients", &DeepSpeedSettings::round_robin_gradients},
    {"use_multi_rank_bucket_allreduce", &DeepSpeedSettings::multi_rank_all_reduce},
    {"parameter_alignment", &DeepSpeedSettings::parameter_alignment},
    {"stage3_gather_16bit_weights_on_model_save", &DeepSpeedSettings::gathers_on_save},
    {"zero_quantized_weights", &DeepSpeedSettings::quantized_weights},
    {"zero_quantized_nontrainable_weights", &DeepSpeedSettings::quantized_nontrainable_weights},
    {"zero_quantized_gradients", &DeepSpeedSettings::quantized_gradients},
}};

void add_precision(DeepSpeedSettings& settings, const ConfigValue& values) {
  const ConfigValue& fp16 = values.at("fp16");
  const ConfigValue& bf16 = values.at("bf16");
  if (fp16.at("enabled").boolean()) settings.precision = Dtype::float16;
  if (bf16.at("enabled").boolean()) settings.precision = Dtype::bfloat16;
  settings.masters_in_precision = fp16.at("fp16_master_weights_and_grads").boolean() ||
                                  bf16.at("bf16_master_weights_and_grads").boolean();
  settings.immediate_gradients = bf16.at("immediate_grad_update").boolean();
  settings.communication_dtype =
      dtype_of(values.at("communication_data_type"), "communication_data_type");
  settings.accumulation_dtype =
      dtype_of(values.at("grad_accum_dtype"), "data_types.grad_accum_dtype");
}

}  // namespace

DeepSpeedSettings settings_of(const DeepSpeedConfig& config) {
  const ConfigValue& values = config.values;
  const ConfigValue& zero = values.at("zero_optimization");
  DeepSpeedSettings settings;
  settings.stage = static_cast<int>(whole(zero, "stage"));
  for (const auto& [key, field] : element_keys) settings.*field = whole(zero, key);
  for (const auto& [key, field] : flag_keys) settings.*field = zero.at(key).boolean();
  settings.offload_optimizer = offload_of(zero.at("offload_optimizer"));
  settings.offload_param = offload_of(zero.at("offload_param"));
  add_precision(settings, values);
  settings.has_own_optimizer = !values.at("optimizer_name").is_null();
  settings.train_batch_size = whole(values, "train_batch_size");
  settings.micro_batch_size = whole(values, "train_micro_batch_size_per_gpu");
  settings.accumulation_steps = whole(values, "gradient_accumulation_steps");
  const ConfigValue& clipping = values.at("gradient_clipping");
  if (!clipping.is_number()) throw no_number("gradient_clipping", clipping);
  settings.gradient_clipping = clipping.number();
  return settings;
}

}  // namespace shardscope
