#include "core/config/deepspeed/accelerate_plugin.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "core/base/refusal.h"
#include "core/config/values/python_arithmetic.h"
#include "core/config/values/python_number.h"
#include "core/format/python_text.h"

namespace shardscope {
namespace {

struct Mapped {
  std::string_view long_key;
  ConfigValue DeepSpeedPlugin::*field;
};

/// plugin_to_config_mapping of DeepSpeedPlugin.__post_init__.
constexpr std::array<Mapped, 8> plugin_to_config{{
    {"gradient_accumulation_steps", &DeepSpeedPlugin::gradient_accumulation_steps},
    {"gradient_clipping", &DeepSpeedPlugin::gradient_clipping},
    {"zero_optimization.stage", &DeepSpeedPlugin::zero_stage},
    {"zero_optimization.offload_optimizer.device", &DeepSpeedPlugin::offload_optimizer_device},
    {"zero_optimization.offload_param.device", &DeepSpeedPlugin::offload_param_device},
    {"zero_optimization.offload_param.nvme_path", &DeepSpeedPlugin::offload_param_nvme_path},
    {"zero_optimization.offload_optimizer.nvme_path",
     &DeepSpeedPlugin::offload_optimizer_nvme_path},
    {"zero_optimization.stage3_gather_16bit_weights_on_model_save",
     &DeepSpeedPlugin::zero3_save_16bit_model},
}};

struct Field {
  std::string_view name;
  ConfigValue DeepSpeedPlugin::*field;
};

/// The dataclass's fields in order, without hf_ds_config.
constexpr std::array<Field, 13> dataclass_fields{{
    {"gradient_accumulation_steps", &DeepSpeedPlugin::gradient_accumulation_steps},
    {"gradient_clipping", &DeepSpeedPlugin::gradient_clipping},
    {"zero_stage", &DeepSpeedPlugin::zero_stage},
    {"is_train_batch_min", &DeepSpeedPlugin::is_train_batch_min},
    {"offload_optimizer_device", &DeepSpeedPlugin::offload_optimizer_device},
    {"offload_param_device", &DeepSpeedPlugin::offload_param_device},
    {"offload_optimizer_nvme_path", &DeepSpeedPlugin::offload_optimizer_nvme_path},
    {"offload_param_nvme_path", &DeepSpeedPlugin::offload_param_nvme_path},
    {"zero3_init_flag", &DeepSpeedPlugin::zero3_init_flag},
    {"zero3_save_16bit_model", &DeepSpeedPlugin::zero3_save_16bit_model},
    {"transformer_moe_cls_names", &DeepSpeedPlugin::transformer_moe_cls_names},
    {"enable_msamp", &DeepSpeedPlugin::enable_msamp},
    {"msamp_opt_level", &DeepSpeedPlugin::msamp_opt_level},
}};

/// `text.isdigit()`.
bool all_digits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

ConfigValue accumulation_of(const std::string& text) {
  return all_digits(text) ? python_integer(text) : ConfigValue(text);
}

ConfigValue clipping_of(const std::string& text) {
  return text == "auto" ? ConfigValue(text) : ConfigValue(python_float_of(text));
}

ConfigValue truth_of(const std::string& text) { return ConfigValue(lower_of(text) == "true"); }

ConfigValue text_of(const std::string& text) { return ConfigValue(text); }

/// Fields that come from a variable where the caller gave nothing.
struct FromVariable {
  ConfigValue DeepSpeedPlugin::*field;
  std::string_view variable;
  std::string_view otherwise;
  ConfigValue (*converted)(const std::string&);
};

constexpr std::array<FromVariable, 8> from_variables{{
    {&DeepSpeedPlugin::gradient_accumulation_steps, "ACCELERATE_GRADIENT_ACCUMULATION_STEPS",
     "auto", accumulation_of},
    {&DeepSpeedPlugin::gradient_clipping, "ACCELERATE_GRADIENT_CLIPPING", "auto", clipping_of},
    {&DeepSpeedPlugin::zero_stage, "ACCELERATE_DEEPSPEED_ZERO_STAGE", "2",
     [](const std::string& text) { return python_integer(text); }},
    {&DeepSpeedPlugin::offload_optimizer_device, "ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE",
     "none", text_of},
    {&DeepSpeedPlugin::offload_param_device, "ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE", "none",
     text_of},
    {&DeepSpeedPlugin::offload_optimizer_nvme_path,
     "ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_NVME_PATH", "none", text_of},
    {&DeepSpeedPlugin::offload_param_nvme_path, "ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_NVME_PATH",
     "none", text_of},
    {&DeepSpeedPlugin::zero3_save_16bit_model, "ACCELERATE_DEEPSPEED_ZERO3_SAVE_16BIT_MODEL",
     "false", truth_of},
}};

void read_variables(DeepSpeedPlugin& plugin, const Environment& environment) {
  for (const FromVariable& row : from_variables)
    if ((plugin.*row.field).is_null())
      plugin.*row.field = row.converted(variable(environment, row.variable, row.otherwise));
  if (plugin.enable_msamp.is_null())
    plugin.enable_msamp = variable(environment, "ACCELERATE_FP8_BACKEND") == "MSAMP";
  if (plugin.msamp_opt_level.is_null())
    plugin.msamp_opt_level = variable(environment, "ACCELERATE_FP8_OPT_LEVEL", "O1");
}

/// DeepSpeedPlugin._deepspeed_config_checks: what may not stand in accelerate's file beside a
/// DeepSpeed file.
void check_fields_of_accelerate(const Environment& environment) {
  constexpr std::array<std::string_view, 9> ignored{
      "gradient_accumulation_steps", "gradient_clipping",      "zero_stage",
      "offload_optimizer_device",    "offload_param_device",   "offload_param_nvme_path",
      "offload_optimizer_nvme_path", "zero3_save_16bit_model", "mixed_precision"};
  const std::string given = variable(environment, "ACCELERATE_CONFIG_DS_FIELDS");
  for (std::size_t begin = 0; begin <= given.size();) {
    const std::size_t end = std::min(given.find(',', begin), given.size());
    const std::string_view name = std::string_view(given).substr(begin, end - begin);
    if (std::find(ignored.begin(), ignored.end(), name) != ignored.end())
      throw Refusal("ValueError",
                    {.where = std::string(name),
                     .what = "accelerate refuses this key beside deepspeed_config_file",
                     .way_out = "set it in the DeepSpeed file instead and drop it here"});
    begin = end + 1;
  }
}

/// The branch of __post_init__ for a configuration that was given.
void fill_from_config(DeepSpeedPlugin& plugin, const Environment& environment) {
  HfDeepSpeedConfig& config = plugin.hf_ds_config;
  if (!config.config().has("gradient_accumulation_steps"))
    config.config().set("gradient_accumulation_steps", 1);
  if (!config.config().has("zero_optimization"))
    throw Refusal("ValueError", {.where = {},
                                 .what = "the DeepSpeed configuration lacks zero_optimization, "
                                         "which accelerate requires",
                                 .way_out = "add \"zero_optimization\": {\"stage\": 0}"});
  check_fields_of_accelerate(environment);
  for (const Mapped& row : plugin_to_config)
    if (!(plugin.*row.field).is_null()) config.replace_auto(row.long_key, plugin.*row.field);
  config.set_stage_and_offload();
  for (const Mapped& row : plugin_to_config) {
    const ConfigValue value = config.value(row.long_key);
    if (!value.is_null() && !value.is("auto")) plugin.*row.field = value;
  }
}

ConfigValue offload_section(const ConfigValue& device, const ConfigValue& path) {
  return ConfigValue::dict(
      {{"device", device}, {"nvme_path", device.is("nvme") ? path : ConfigValue()}});
}

/// The branch of __post_init__ without a configuration: one is made from the fields.
ConfigValue config_of_fields(const DeepSpeedPlugin& plugin) {
  ConfigValue config = ConfigValue::dict(
      {{"train_batch_size", "auto"},
       {"train_micro_batch_size_per_gpu", "auto"},
       {"gradient_accumulation_steps", plugin.gradient_accumulation_steps},
       {"zero_optimization",
        ConfigValue::dict(
            {{"stage", plugin.zero_stage},
             {"offload_optimizer",
              offload_section(plugin.offload_optimizer_device, plugin.offload_optimizer_nvme_path)},
             {"offload_param",
              offload_section(plugin.offload_param_device, plugin.offload_param_nvme_path)},
             {"stage3_gather_16bit_weights_on_model_save", plugin.zero3_save_16bit_model}})}});
  if (plugin.gradient_clipping.truthy()) config.set("gradient_clipping", plugin.gradient_clipping);
  return config;
}

void set_zero3_init(DeepSpeedPlugin& plugin, const Environment& environment) {
  const bool zero3 = plugin.hf_ds_config.is_zero3();
  if (plugin.zero3_init_flag.is_null())
    plugin.zero3_init_flag = str_to_bool(
        variable(environment, "ACCELERATE_DEEPSPEED_ZERO3_INIT", zero3 ? "True" : "False"));
  if (!plugin.zero3_init_flag.truthy() || zero3) return;
  plugin.warnings.push_back("zero3_init_flag applies only to ZeRO stage 3 and is set to false");
  plugin.zero3_init_flag = false;
}

void add_msamp(DeepSpeedPlugin& plugin) {
  if (!plugin.enable_msamp.truthy() || plugin.deepspeed_config().has("msamp")) return;
  if (plugin.zero_stage == ConfigValue(3))
    throw Refusal("NotImplementedError", "MS-AMP does not go with ZeRO stage 3");
  if (!plugin.msamp_opt_level.is("O1") && !plugin.msamp_opt_level.is("O2"))
    throw Refusal("ValueError",
                  "msamp_opt_level must be O1 or O2, got " + plugin.msamp_opt_level.repr());
  plugin.deepspeed_config().set(
      "msamp", ConfigValue::dict({{"enabled", true}, {"opt_level", plugin.msamp_opt_level}}));
}

DeepSpeedPlugin finished(DeepSpeedPlugin plugin, const Environment& environment) {
  plugin.deepspeed_config().set("steps_per_print", std::numeric_limits<double>::infinity());
  set_zero3_init(plugin, environment);
  add_msamp(plugin);
  return plugin;
}

DeepSpeedPlugin with_arguments(const ConfigValue& arguments) {
  DeepSpeedPlugin plugin;
  for (const ConfigValue::Entry& entry : arguments.entries()) {
    const auto field = std::find_if(dataclass_fields.begin(), dataclass_fields.end(),
                                    [&](const Field& f) { return f.name == entry.key; });
    if (field != dataclass_fields.end())
      plugin.*field->field = entry.value;
    else if (entry.key != "hf_ds_config")
      throw Refusal("TypeError", fmt::format("DeepSpeedPlugin has no field \"{}\"", entry.key));
  }
  return plugin;
}

}  // namespace

ConfigValue DeepSpeedPlugin::fields() const {
  ConfigValue result = ConfigValue::dict();
  for (const Field& field : dataclass_fields) result.set(field.name, this->*field.field);
  return result;
}

void DeepSpeedPlugin::set_mixed_precision(std::string_view mixed_precision) {
  ConfigValue& config = deepspeed_config();
  const bool fp16 = mixed_precision == "fp16";
  const bool bf16 = mixed_precision == "bf16" || mixed_precision == "fp8";
  if (fp16 && !config.has("fp16"))
    config.set("fp16", ConfigValue::dict({{"enabled", true}, {"auto_cast", true}}));
  if (bf16 && !config.has("bf16")) config.set("bf16", ConfigValue::dict({{"enabled", true}}));
  if (mixed_precision == "fp8" && enable_msamp.truthy() && !config.has("msamp"))
    config.set("msamp", ConfigValue::dict({{"enabled", true}, {"opt_level", msamp_opt_level}}));
  if (mixed_precision != "no") {
    const std::string_view other = fp16 ? "bf16" : "fp16";
    const ConfigValue* section = config.find(other);
    if (section != nullptr && lower_of(get_of_dict(*section, "enabled").str()) == "true")
      throw Refusal("ValueError",
                    {.where = fmt::format("{}.enabled", other),
                     .what = fmt::format("mixed_precision is {}, and the DeepSpeed configuration "
                                         "enables {}",
                                         mixed_precision, other),
                     .way_out = "enable only one of them"});
  }
  for (const char* type : {"fp16", "bf16"})
    if (!config.has(type)) config.set(type, ConfigValue::dict({{"enabled", false}}));
  hf_ds_config.replace_auto("fp16.enabled", fp16);
  hf_ds_config.replace_auto("bf16.enabled", bf16);
}

DeepSpeedPlugin make_deepspeed_plugin(const ConfigValue& arguments, const Environment& environment,
                                      const ReadFile& read_file) {
  DeepSpeedPlugin plugin = with_arguments(arguments);
  read_variables(plugin, environment);
  ConfigValue given = arguments.get("hf_ds_config");
  if (given.is_null()) given = variable(environment, "ACCELERATE_DEEPSPEED_CONFIG_FILE", "none");
  if (given.is_dict() || (given.is_string() && !given.is("none"))) {
    plugin.hf_ds_config = HfDeepSpeedConfig::load(given, read_file);
    fill_from_config(plugin, environment);
  } else {
    plugin.hf_ds_config = HfDeepSpeedConfig(config_of_fields(plugin));
  }
  return finished(std::move(plugin), environment);
}

DeepSpeedPlugin make_deepspeed_plugin(HfDeepSpeedConfig config, const Environment& environment) {
  DeepSpeedPlugin plugin;
  read_variables(plugin, environment);
  plugin.hf_ds_config = std::move(config);
  fill_from_config(plugin, environment);
  return finished(std::move(plugin), environment);
}

}  // namespace shardscope
