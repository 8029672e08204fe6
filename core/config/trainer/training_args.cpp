#include "core/config/trainer/training_args.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/nearest_word.h"
#include "core/base/refusal.h"
#include "core/config/trainer/training_args_fields.h"
#include "core/config/trainer/training_args_fsdp.h"
#include "core/config/values/config_json.h"
#include "core/config/values/python_arithmetic.h"
#include "core/config/values/python_number.h"
#include "core/format/python_text.h"

namespace shardscope {
namespace {

Refusal refused(std::string type, std::string_view key, std::string what,
                std::string way_out = {}) {
  return Refusal(
      std::move(type),
      {.where = std::string(key), .what = std::move(what), .way_out = std::move(way_out)});
}

void refuse_unknown(const ConfigValue& given) {
  for (const ConfigValue::Entry& entry : given.entries()) {
    if (find_training_argument(entry.key) != nullptr) continue;
    std::vector<std::string_view> known;
    for (const TrainingArgumentField& field : training_argument_fields())
      known.push_back(field.name);
    const auto near = nearest_word(entry.key, known);
    throw refused("TypeError", entry.key,
                  "TrainingArguments of transformers 5 has no such argument",
                  near ? fmt::format("did you mean \"{}\"?", *near) : "remove it");
  }
}

bool all_digits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// _convert_str_dict: of a dict given as JSON text, texts that look like bools and numbers are
/// such.
void convert_texts(ConfigValue& dict) {
  for (ConfigValue::Entry& entry : dict.entries()) {
    ConfigValue& value = entry.value;
    if (value.is_dict()) convert_texts(value);
    if (!value.is_string()) continue;
    const std::string text = value.string();
    std::string without_point = text;
    if (const std::size_t point = text.find('.'); point != std::string::npos)
      without_point.erase(point, 1);
    if (lower_of(text) == "true" || lower_of(text) == "false")
      value = lower_of(text) == "true";
    else if (all_digits(text))
      value = python_integer(text);
    else if (all_digits(without_point))
      value = python_float_of(text);
  }
}

/// Fields that hold a dict may be given as JSON text, if it begins with a brace.
ConfigValue with_parsed_dicts(ConfigValue given) {
  for (const char* key :
       {"accelerator_config", "fsdp_config", "deepspeed", "activation_checkpointing_kwargs",
        "gradient_checkpointing_kwargs", "lr_scheduler_kwargs"}) {
    ConfigValue* value = given.find(key);
    if (value == nullptr || !value->is_string() || !value->string().starts_with('{')) continue;
    ConfigValue parsed = read_json(value->string(), key);
    convert_texts(parsed);
    *value = std::move(parsed);
  }
  return given;
}

/// Of _validate_args what goes with precision and warmup.
void check_values(const TrainingArguments& arguments) {
  const auto both = [&](const char* a, const char* b) {
    return arguments.argument(a).truthy() && arguments.argument(b).truthy();
  };
  if (both("fp16", "bf16"))
    throw refused("ValueError", "fp16", "at most one of fp16 and bf16 can be set");
  if (both("fp16_full_eval", "bf16_full_eval"))
    throw refused("ValueError", "fp16_full_eval",
                  "at most one of fp16_full_eval and bf16_full_eval can be set");
  if (is_greater(ConfigValue(0), arguments.argument("warmup_steps")))
    throw refused("ValueError", "warmup_steps", "must not be negative");
}

/// gradient_checkpointing is the old name, taken where the new one is not set.
bool checkpoints_activations(const TrainingArguments& arguments) {
  const ConfigValue value = arguments.argument("activation_checkpointing");
  return value.is_null() ? arguments.argument("gradient_checkpointing").truthy() : value.truthy();
}

std::string precision_of(const TrainingArguments& arguments) {
  if (arguments.argument("fp16").truthy()) return "fp16";
  if (arguments.argument("bf16").truthy()) return "bf16";
  return variable(arguments.environment, "ACCELERATE_MIXED_PRECISION", "no");
}

/// accelerate compiles by these variables. A backend or a mode turns compiling on.
void set_compilation(TrainingArguments& arguments) {
  const ConfigValue backend = arguments.argument("torch_compile_backend");
  const ConfigValue mode = arguments.argument("torch_compile_mode");
  if (!arguments.argument("torch_compile").truthy() && backend.is_null() && mode.is_null()) return;
  arguments.environment["ACCELERATE_DYNAMO_BACKEND"] =
      backend.is_string() ? backend.string() : "inductor";
  if (mode.is_string()) arguments.environment["ACCELERATE_DYNAMO_MODE"] = mode.string();
}

void add_fsdp(TrainingArguments& arguments, const ReadFile& read_file) {
  FsdpArguments fsdp =
      process_fsdp_arguments(arguments.argument("fsdp"), arguments.argument("fsdp_config"),
                             arguments.activation_checkpointing, read_file);
  arguments.fsdp = std::move(fsdp.fsdp);
  arguments.fsdp_config = std::move(fsdp.config);
  arguments.fsdp_plugin_args = std::move(fsdp.plugin_args);
  if (!fsdp.cpu_ram_efficient_loading.empty())
    arguments.environment["FSDP_CPU_RAM_EFFICIENT_LOADING"] = fsdp.cpu_ram_efficient_loading;
  arguments.warnings.insert(arguments.warnings.end(), fsdp.warnings.begin(), fsdp.warnings.end());
}

void add_deepspeed(TrainingArguments& arguments, const ReadFile& read_file, std::int64_t world) {
  const ConfigValue deepspeed = arguments.argument("deepspeed");
  if (deepspeed.truthy()) {
    arguments.deepspeed_config = processed_by_trainer(HfDeepSpeedConfig::load(deepspeed, read_file),
                                                      arguments.with_defaults(), world);
    arguments.deepspeed_plugin =
        make_deepspeed_plugin(arguments.deepspeed_config->hf, arguments.environment);
    return;
  }
  if (!str_to_bool(variable(arguments.environment, "ACCELERATE_USE_DEEPSPEED", "false"))) return;
  arguments.deepspeed_plugin =
      make_deepspeed_plugin(ConfigValue::dict(), arguments.environment, read_file);
  arguments.deepspeed_plugin->set_mixed_precision(arguments.mixed_precision);
}

}  // namespace

ConfigValue TrainingArguments::argument(std::string_view name) const {
  if (const ConfigValue* value = given.find(name)) return *value;
  const TrainingArgumentField* field = find_training_argument(name);
  return field != nullptr ? field->otherwise : ConfigValue();
}

ConfigValue TrainingArguments::with_defaults() const {
  ConfigValue all = ConfigValue::dict();
  for (const TrainingArgumentField& field : training_argument_fields())
    all.set(field.name, argument(field.name));
  return all;
}

TrainingArguments make_training_arguments(const ConfigValue& given, const Environment& environment,
                                          const ReadFile& read_file, std::int64_t world) {
  refuse_unknown(given);
  TrainingArguments arguments;
  arguments.given = with_parsed_dicts(given);
  arguments.environment = environment;
  arguments.activation_checkpointing = checkpoints_activations(arguments);
  check_values(arguments);
  arguments.mixed_precision = precision_of(arguments);
  set_compilation(arguments);
  add_fsdp(arguments, read_file);
  add_deepspeed(arguments, read_file, world);
  return arguments;
}

}  // namespace shardscope
