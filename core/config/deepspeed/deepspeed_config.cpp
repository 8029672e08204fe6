#include "core/config/deepspeed/deepspeed_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "core/base/refusal.h"
#include "core/config/deepspeed/base64.h"
#include "core/config/deepspeed/batch_sizes.h"
#include "core/config/deepspeed/hf_config.h"
#include "core/config/deepspeed/hjson.h"
#include "core/config/deepspeed/other_sections.h"
#include "core/config/deepspeed/precision_config.h"
#include "core/config/deepspeed/removed_keys.h"
#include "core/config/deepspeed/zero_config.h"
#include "core/config/values/python_arithmetic.h"
#include "core/format/python_text.h"

namespace shardscope {
namespace {

Refusal refused(std::string type, std::string_view key, std::string what,
                std::string way_out = {}) {
  return Refusal(
      std::move(type),
      {.where = std::string(key), .what = std::move(what), .way_out = std::move(way_out)});
}

ConfigValue of_base64(const std::string& text) {
  if (std::any_of(text.begin(), text.end(), [](char c) { return static_cast<signed char>(c) < 0; }))
    throw refused("ValueError", "config", "there is no such file");
  const std::optional<std::string> decoded = decode_base64_url(text);
  if (!decoded) throw refused("Error", text.substr(0, 200), "there is no such file");
  try {
    return read_hjson(*decoded, "config (base64)", DuplicateKeys::last_wins);
  } catch (const Refusal& refusal) {
    if (refusal.exception() != "UnicodeDecodeError") throw;
    throw refused("ValueError", text.substr(0, 200), "there is no such file");
  }
}

ConfigValue loaded(const ConfigValue& config, const ReadFile& read_file) {
  if (config.is_dict()) return config;
  if (!config.is_string())
    throw refused("TypeError", "config", "expected a path or a dict, got " + config.repr());
  const std::optional<std::string> text = read_file(config.string());
  ConfigValue read = text ? read_hjson(*text, config.string()) : of_base64(config.string());
  if (read.is_dict()) return read;
  const bool iterable = read.is_list() || read.is_string();
  throw refused(iterable ? "AttributeError" : "TypeError", config.string(),
                "expected a section with keys, got " + read.repr());
}

/// The ranks that data is spread over; a float where sequence_parallel_size divides them.
ConfigValue data_parallel_world(const ConfigValue& given, const ConfigValue& config,
                                std::int64_t world) {
  // DeepSpeed asks the path, not the file behind it, when it was given one.
  if (given.is_dict() && config.has("sequence_parallel_size"))
    return divided(ConfigValue(world), config.at("sequence_parallel_size"));
  return ConfigValue(world);
}

/// config.get(key, otherwise).
ConfigValue scalar(const ConfigValue& config, std::string_view key, const ConfigValue& otherwise) {
  const ConfigValue* value = config.find(key);
  return value != nullptr ? *value : otherwise;
}

using WordMeaning = std::pair<std::string_view, std::string_view>;

/// get_communication_data_type: a torch dtype, or None.
ConfigValue communication_type(const ConfigValue& config, std::string_view key) {
  constexpr std::array<WordMeaning, 3> types{
      {{"fp32", "torch.float32"}, {"fp16", "torch.float16"}, {"bf16", "torch.bfloat16"}}};
  const ConfigValue value = config.get(key);
  if (value.is_null()) return {};
  if (!value.is_string())
    throw refused("AttributeError", key, "expected fp16, bf16 or fp32, got " + value.repr());
  const std::string word = lower_of(value.string());
  const auto* found =
      std::find_if(types.begin(), types.end(), [&](const auto& t) { return t.first == word; });
  if (found == types.end())
    throw refused("ValueError", key, "expected fp16, bf16 or fp32, got " + value.repr());
  return found->second;
}

ConfigValue allreduce_op(const ConfigValue& config) {
  ConfigValue value = scalar(config, "gradient_allreduce_op", "mean");
  if (value.is_string()) value = lower_of(value.string());
  if (!value.is("mean") && !value.is("sum"))
    throw refused("ValueError", "gradient_allreduce_op",
                  "expected mean or sum, got " + value.repr());
  return value;
}

struct Autocast {
  ConfigValue enabled = false;
  ConfigValue dtype;
};

/// torch_autocast, whose dtype may be any name that DtypeEnum knows.
Autocast autocast_of(const ConfigValue& config) {
  constexpr std::array<WordMeaning, 13> dtypes{{{"torch.float16", "torch.float16"},
                                                {"fp16", "torch.float16"},
                                                {"float16", "torch.float16"},
                                                {"half", "torch.float16"},
                                                {"torch.float32", "torch.float32"},
                                                {"fp32", "torch.float32"},
                                                {"float32", "torch.float32"},
                                                {"float", "torch.float32"},
                                                {"torch.int8", "torch.int8"},
                                                {"int8", "torch.int8"},
                                                {"torch.bfloat16", "torch.bfloat16"},
                                                {"bf16", "torch.bfloat16"},
                                                {"bfloat16", "torch.bfloat16"}}};
  const ConfigValue* section = config.find("torch_autocast");
  if (section == nullptr) return {};
  get_of_dict(*section, "enabled");
  Autocast autocast{.enabled = scalar(*section, "enabled", false), .dtype = {}};
  if (const ConfigValue* dtype = section->find("dtype")) {
    const auto* found = std::find_if(dtypes.begin(), dtypes.end(),
                                     [&](const auto& d) { return dtype->is(d.first); });
    if (found == dtypes.end())
      throw refused("ValueError", "torch_autocast.dtype", "unknown dtype " + dtype->repr());
    autocast.dtype = found->second;
  }
  return autocast;
}

void check_autocast_modules(const ConfigValue& config) {
  const ConfigValue* section = config.find("torch_autocast");
  if (section == nullptr) return;
  const ConfigValue* names = section->find("lower_precision_safe_modules");
  if (names == nullptr || names->is_string() || names->is_dict()) return;
  if (!names->is_list())
    throw refused("TypeError", "torch_autocast.lower_precision_safe_modules", "expected a list");
  for (const ConfigValue& name : names->elements())
    if (!name.is_string())
      throw refused("ValueError", "torch_autocast.lower_precision_safe_modules",
                    "expected a list of texts");
}

struct NamedPart {
  ConfigValue name;
  ConfigValue params;
};

/// "optimizer" or "scheduler": {"type": ..., "params": ...}.
NamedPart named_part(const ConfigValue& config, std::string_view key) {
  const ConfigValue* section = config.find(key);
  if (section == nullptr) return {};
  NamedPart part{.name = get_of_dict(*section, "type"), .params = {}};
  if (!part.name.is_null()) part.params = section->get("params");
  return part;
}

NamedPart optimizer_of(const ConfigValue& config) {
  constexpr std::array<std::string_view, 9> own{"adagrad", "adam",  "adamw", "lamb", "muadam",
                                                "muadamw", "musgd", "lion",  "muon"};
  NamedPart part = named_part(config, "optimizer");
  if (part.name.is_null()) return part;
  if (!part.name.is_string())
    throw refused("AttributeError", "optimizer.type", "expected a name, got " + part.name.repr());
  const std::string lower = lower_of(part.name.string());
  if (std::find(own.begin(), own.end(), lower) != own.end()) part.name = lower;
  return part;
}

/// wall_clock_breakdown | flops_profiler.enabled.
ConfigValue breakdown_of(const ConfigValue& config) {
  const ConfigValue asked = scalar(config, "wall_clock_breakdown", false);
  const ConfigValue profiled = flops_profiler_enabled(config);
  const auto whole = [](const ConfigValue& v) { return v.is_boolean() || v.is_integer(); };
  if (!whole(asked) || !whole(profiled))
    throw refused("TypeError", "wall_clock_breakdown", "expected true or false");
  if (asked.is_boolean() && profiled.is_boolean()) return asked.boolean() || profiled.boolean();
  return asked.integer() | profiled.integer();
}

ConfigValue checkpointing_of(const ConfigValue& config) {
  const std::pair<const char*, ConfigValue> keys[] = {{"partition_activations", false},
                                                      {"contiguous_memory_optimization", false},
                                                      {"cpu_checkpointing", false},
                                                      {"number_checkpoints", {}},
                                                      {"synchronize_checkpoint_boundary", false},
                                                      {"profile", false}};
  const ConfigValue* section = config.find("activation_checkpointing");
  if (section != nullptr) get_of_dict(*section, {});
  ConfigValue result = ConfigValue::dict();
  for (const auto& [key, otherwise] : keys)
    result.set(key, section != nullptr ? scalar(*section, key, otherwise) : otherwise);
  return result;
}

ConfigValue data_types_of(const ConfigValue& config) {
  ConfigValue types = scalar(config, "data_types", ConfigValue::dict());
  const ConfigValue names = get_of_dict(types, "keep_in_fp32_modules");
  const bool given = types.has("keep_in_fp32_modules") && !names.is("auto");
  const bool texts =
      names.is_list() && std::all_of(names.elements().begin(), names.elements().end(),
                                     [](const auto& n) { return n.is_string(); });
  if (given && !texts)
    throw refused("DeepSpeedConfigError", "data_types.keep_in_fp32_modules",
                  "expected \"auto\" or a list of name patterns, got " + names.repr());
  return types;
}

void require_stage_for(const ConfigValue& section, std::string_view section_name,
                       std::string_view key, std::int64_t stage) {
  if (section.at(key).truthy() && stage == 0)
    throw refused("AssertionError", fmt::format("{}.{}", section_name, key),
                  "goes only with ZeRO stage 1, 2 or 3");
}

/// _do_error_check.
void check_together(const ConfigValue& values, const ConfigValue& config) {
  const std::int64_t stage = values.at("zero_optimization_stage").integer();
  const bool sum = values.at("gradient_allreduce_op").is("sum");
  if (sum && stage == 3)
    throw refused("ValueError", "gradient_allreduce_op", "sum does not go with ZeRO stage 3");
  if (sum && !values.at("zero_optimization").at("zenflow").is_null())
    throw refused("ValueError", "gradient_allreduce_op", "sum does not go with ZenFlow");
  const ConfigValue compiled = config.get("compile").get("deepcompile");
  if (sum &&
      (compiled == ConfigValue(true) || (compiled.is_string() && str_to_bool(compiled.string()))))
    throw refused("ValueError", "gradient_allreduce_op", "sum does not go with DeepCompile");
  const ConfigValue& bf16 = values.at("bf16");
  require_stage_for(values.at("fp16"), "fp16", "fp16_master_weights_and_grads", stage);
  require_stage_for(bf16, "bf16", "bf16_master_weights_and_grads", stage);
  require_stage_for(bf16, "bf16", "bf16_optimizer_states", stage);
  if (bf16.at("bf16_optimizer_states").truthy() &&
      !bf16.at("bf16_master_weights_and_grads").truthy())
    throw refused("AssertionError", "bf16.bf16_optimizer_states",
                  "needs bf16_master_weights_and_grads");
}

/// _do_warning_check.
void add_warnings(DeepSpeedConfig& result, const ConfigValue& config) {
  const ConfigValue vocabulary = config.get("vocabulary_size");
  if (vocabulary.truthy()) {
    const ConfigValue eighths = floor_divided(vocabulary, ConfigValue(8));
    if (!(multiplied(eighths, ConfigValue(8)) == vocabulary))
      result.warnings.push_back("vocabulary_size is no multiple of 8");
  }
  const ConfigValue& params = result.values.at("optimizer_params");
  if (params.is_null()) return;
  get_of_dict(params, {});
  if (params.has("max_grad_norm") && is_greater(params.at("max_grad_norm"), ConfigValue(0)))
    result.warnings.push_back("optimizer.params.max_grad_norm is not used; set gradient_clipping");
}

bool is_above_one(const ConfigValue& size) { return size.is_number() && size.number() > 1; }

/// Ulysses, AutoTP and AutoEP. Source: deepspeed 0.19.8 runtime/config.py,
/// runtime/tensor_parallel/config.py, module_inject/auto_ep_config.py.
std::string dividing_key_of(const ConfigValue& config) {
  if (is_above_one(config.get("sequence_parallel_size"))) return "sequence_parallel_size";
  if (is_above_one(config.get("tensor_parallel").get("autotp_size")))
    return "tensor_parallel.autotp_size";
  const ConfigValue experts = config.get("expert_parallel");
  if (experts.get("enabled").truthy() && is_above_one(experts.get("autoep_size")))
    return "expert_parallel.autoep_size";
  return {};
}

/// _initialize_params, in its order: where several things are wrong, the first is what is raised.
DeepSpeedConfig initialized(const ConfigValue& config, const ConfigValue& world) {
  DeepSpeedConfig result;
  const ConfigValue communication = communication_type(config, "communication_data_type");
  communication_type(config, "seq_parallel_communication_data_type");
  const ConfigValue reduction = allreduce_op(config);
  const ConfigValue zero = zero_config_of(config, &result.warnings);
  const ConfigValue checkpointing = checkpointing_of(config);
  check_monitors(config);
  const ConfigValue fp16 = fp16_config_of(config);
  const ConfigValue bf16 = bf16_config_of(config);
  if (fp16.at("enabled").boolean() && bf16.at("enabled").boolean())
    throw refused("AssertionError", "fp16.enabled", "fp16 and bf16 cannot both be enabled",
                  "enable only one of them");
  const Autocast autocast = autocast_of(config);
  check_autocast_modules(config);
  const NamedPart optimizer = optimizer_of(config);
  const NamedPart scheduler = named_part(config, "scheduler");
  const ConfigValue breakdown = breakdown_of(config);
  check_tuning_and_data(config);
  check_checkpoint(config);
  const ConfigValue types = data_types_of(config);
  check_engine_sections(config);
  const ConfigValue& stage = zero.at("stage");
  result.values = ConfigValue::dict({
      {"world_size", world},
      {"train_batch_size", config.get("train_batch_size")},
      {"train_micro_batch_size_per_gpu", config.get("train_micro_batch_size_per_gpu")},
      {"gradient_accumulation_steps", config.get("gradient_accumulation_steps")},
      {"gradient_clipping", scalar(config, "gradient_clipping", 1.0)},
      {"prescale_gradients", scalar(config, "prescale_gradients", false)},
      {"gradient_predivide_factor", scalar(config, "gradient_predivide_factor", 1.0)},
      {"communication_data_type", communication},
      {"grad_accum_dtype", types.get("grad_accum_dtype")},
      {"zero_optimization_stage", stage},
      {"zero_enabled", stage.integer() > 0},
      {"zero_allow_untested_optimizer", scalar(config, "zero_allow_untested_optimizer", false)},
      {"zero_force_ds_cpu_optimizer", scalar(config, "zero_force_ds_cpu_optimizer", true)},
      {"optimizer_name", optimizer.name},
      {"optimizer_params", optimizer.params},
      {"scheduler_name", scheduler.name},
      {"scheduler_params", scheduler.params},
      {"torch_autocast_enabled", autocast.enabled},
      {"torch_autocast_dtype", autocast.dtype},
      {"param_dtype", types.get("param_dtype")},
      {"buffer_dtype", types.get("buffer_dtype")},
      {"gradient_allreduce_op", reduction},
      {"steps_per_print", config.get("steps_per_print")},
      {"wall_clock_breakdown", breakdown},
      {"disable_allgather", scalar(config, "disable_allgather", false)},
      {"zero_optimization", zero},
      {"fp16", fp16},
      {"bf16", bf16},
      {"activation_checkpointing", checkpointing},
  });
  return result;
}

}  // namespace

DeepSpeedConfig effective_deepspeed_config(const ConfigValue& config, std::int64_t world,
                                           const ReadFile& read_file) {
  const ConfigValue read = loaded(config, read_file);
  refuse_removed_keys(read);
  const ConfigValue ranks = data_parallel_world(config, read, world);
  DeepSpeedConfig result = initialized(read, ranks);
  result.dividing_key = dividing_key_of(read);
  const DeepSpeedBatch batch =
      completed_batch({.train = result.values.get("train_batch_size"),
                       .micro = result.values.get("train_micro_batch_size_per_gpu"),
                       .accumulation = result.values.get("gradient_accumulation_steps")},
                      ranks);
  result.values.set("train_batch_size", batch.train);
  result.values.set("train_micro_batch_size_per_gpu", batch.micro);
  result.values.set("gradient_accumulation_steps", batch.accumulation);
  check_together(result.values, read);
  add_warnings(result, read);
  return result;
}

}  // namespace shardscope
