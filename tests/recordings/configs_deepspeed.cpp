// deepspeed, auto_transformers and auto_accelerate: DeepSpeed's effective values, and "auto" filled
// in by the Trainer and by Accelerator.
#include <fmt/format.h>

#include <map>

#include "core/config/deepspeed/accelerate_prepare.h"
#include "core/config/deepspeed/deepspeed_config.h"
#include "core/config/deepspeed/trainer_autos.h"
#include "core/config/trainer/training_args.h"
#include "tests/recordings/configs.h"
#include "tests/recordings/configs_plain.h"
#include "tests/recordings/configs_stage.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;

std::optional<std::string> no_files(const std::string&) { return std::nullopt; }

/// What the recorder shows: leaf_module is told once, in its README.
Json shown(const DeepSpeedConfig& config) {
  Json values = plain(config.values);
  values.at("zero_optimization").erase("leaf_module");
  return values;
}

Json effective(const ConfigValue& config, std::int64_t world) {
  return shown(effective_deepspeed_config(config, world, no_files));
}

/// The widths of the recorder's tiny models (record.py tiny_model).
ModelWidths widths_of(const Json& input, const std::string& otherwise) {
  const std::map<std::string, ModelWidths> widths{
      {"mlp", {.has_config = false}},
      {"bert", {.hidden_size = 32}},
      {"gpt2", {.hidden_size = 48}},
      {"llama", {.hidden_size = 64}},
      {"t5", {.hidden_size = 40}},
      {"mixtral", {.hidden_size = 32}},
      {"segformer", {.hidden_sizes = {8, 16, 24, 36}}},
  };
  ModelWidths model = widths.at(input.value("model", otherwise));
  if (input.value("drop_model_config", false)) model.has_config = false;
  return model;
}

Environment environment_of(const Json& input) {
  Environment environment;
  if (input.contains("env"))
    for (const auto& [name, value] : input.at("env").items()) environment[name] = value;
  return environment;
}

Json processed(const TrainerDeepSpeedConfig& config) {
  return {{"config", plain(config.hf.config())},  {"dtype", config.dtype},
          {"is_zero2", config.hf.is_zero2()},     {"is_zero3", config.hf.is_zero3()},
          {"is_offload", config.hf.is_offload()}, {"mismatches", config.mismatches}};
}

Json plugin_of(const DeepSpeedPlugin& plugin) {
  return {{"fields", plain(plugin.fields())},
          {"deepspeed_config", plain(plugin.deepspeed_config())}};
}

Json prepared_of(const PreparedDeepSpeed& prepared, std::int64_t world) {
  return {{"distributed_type", "DEEPSPEED"},
          {"num_processes", world},
          {"mixed_precision", prepared.mixed_precision},
          {"gradient_accumulation_steps", prepared.gradient_accumulation_steps},
          {"deepspeed_initialize_config", plain(prepared.config)}};
}

DeepSpeedPreparation preparation_of(const Json& input) {
  DeepSpeedPreparation given{.world = input.value("world", 8), .model = widths_of(input, "bert")};
  const Json batch_size = input.contains("batch_size") ? input.at("batch_size") : Json(4);
  if (!batch_size.is_null()) given.loader_batch_sizes = {batch_size.get<std::int64_t>()};
  const Json accelerator = input.value("accelerator", Json::object());
  given.gradient_accumulation_steps = accelerator.value("gradient_accumulation_steps", 1);
  return given;
}

}  // namespace

Json deepspeed_result(const Json& input) {
  const Json& config = input.at("config");
  const bool file = config.is_string() && input.value("as_file", true);
  const auto read = [&](const std::string& path) -> std::optional<std::string> {
    if (file && path == "ds.json") return config.get<std::string>();
    return std::nullopt;
  };
  Json result = Json::object();
  stage(result, "effective", [&] {
    return shown(effective_deepspeed_config(file ? ConfigValue("ds.json") : config_value(config),
                                            input.value("world", 1), read));
  });
  return result;
}

Json auto_transformers_result(const Json& input) {
  const std::int64_t world = input.value("world", 1);
  Json result = Json::object();
  ConfigValue arguments;
  std::optional<TrainerDeepSpeedConfig> config;
  const bool good = stage(result, "after_process", [&] {
    ConfigValue given = config_value(input.value("training_args", Json::object()));
    given.set("use_cpu", true);
    arguments = make_training_arguments(given, {}, no_files).with_defaults();
    config =
        processed_by_trainer(HfDeepSpeedConfig::load(config_value(input.at("config")), no_files),
                             arguments, world, input.value("auto_find_batch_size", false));
    return processed(*config);
  });
  if (!good) return result;
  const bool finalized = stage(result, "after_finalize", [&] {
    finalize_by_trainer(*config, arguments, widths_of(input, "bert"),
                        input.value("num_training_steps", 100));
    return Json{{"config", plain(config->hf.config())}};
  });
  if (finalized) stage(result, "effective", [&] { return effective(config->hf.config(), world); });
  return result;
}

Json auto_accelerate_result(const Json& input) {
  Environment environment = environment_of(input);
  environment["ACCELERATE_USE_DEEPSPEED"] = "true";
  environment["ACCELERATE_MIXED_PRECISION"] = input.value("mixed_precision", "no");
  const DeepSpeedPreparation given = preparation_of(input);
  ConfigValue arguments = config_value(input.value("plugin", Json::object()));
  if (input.contains("config")) arguments.set("hf_ds_config", config_value(input.at("config")));
  Json result = Json::object();
  std::optional<DeepSpeedPlugin> plugin;
  const bool made = stage(result, "plugin", [&] {
    plugin = make_deepspeed_plugin(arguments, environment, no_files);
    return plugin_of(*plugin);
  });
  if (!made) return result;
  PreparedDeepSpeed prepared;
  const bool good = stage(result, "prepared", [&] {
    prepared = prepare_deepspeed(*plugin, environment, given);
    return prepared_of(prepared, given.world);
  });
  if (!good) return result;
  prepared.config.erase("steps_per_print");
  stage(result, "effective", [&] { return effective(prepared.config, given.world); });
  return result;
}

}  // namespace shardscope::recordings
