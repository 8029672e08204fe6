// training_args: TrainingArguments, the plugin that they make, and the Trainer's Accelerator.
#include <fmt/format.h>

#include <optional>

#include "core/config/accelerate/fsdp_plugin_arguments.h"
#include "core/config/accelerate/launch.h"
#include "core/config/trainer/training_args.h"
#include "tests/recordings/configs.h"
#include "tests/recordings/configs_launch.h"
#include "tests/recordings/configs_models.h"
#include "tests/recordings/configs_plain.h"
#include "tests/recordings/configs_stage.h"
#include "tests/recordings/ports/trainer.h"
#include "tests/recordings/ports/training_args_words.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;

Json shown(const Environment& environment) {
  Json variables = Json::object();
  for (const auto& [name, value] : shown_environment(environment)) variables[name] = value;
  return variables;
}

/// `accelerate launch --config_file config.yaml train.py`: what it leaves to the worker.
Environment launched(const Json& input, const Environment& shell) {
  accelerate::LaunchRequest request{.words = {"--config_file", "config.yaml", "train.py"}};
  request.shell = shell;
  request.machine.gpus = input.value("gpus", 8);
  request.machine.free_port = 54321;
  request.config = accelerate::attempt([&] {
    return accelerate::load_config(
        accelerate::read_config(input.at("launch_yaml").get<std::string>(), "config.yaml"));
  });
  const accelerate::Launch launch = accelerate::launch(request);
  if (launch.error) throw *launch.error;
  return shown_environment(launch.environment);
}

ConfigValue given_of(const Json& input) {
  if (!input.contains("command_line") || input.at("command_line").is_null())
    return config_value(input.at("args"));
  return training_arguments_of_words(input.at("command_line").get<std::vector<std::string>>());
}

Json arguments_of(const TrainingArguments& arguments) {
  return {{"fsdp", plain(arguments.fsdp)},
          {"fsdp_config", plain(arguments.fsdp_config)},
          {"fsdp_plugin_args", plain(arguments.fsdp_plugin_args)},
          {"mixed_precision", arguments.mixed_precision},
          {"env", shown(arguments.environment)}};
}

Json trainer_of(const TrainingArguments& arguments, const accelerate::PreparedModel& model) {
  const TrainerSetup setup = set_up_trainer(arguments, model.tree, model.facts.no_split_classes);
  Json result{{"distributed_type", setup.distributed_type},
              {"mixed_precision", setup.mixed_precision},
              {"is_fsdp_enabled", setup.fsdp.has_value()},
              {"is_deepspeed_enabled", setup.deepspeed}};
  if (!setup.fsdp) return result;
  ConfigValue fields = accelerate::plugin_fields(*setup.fsdp);
  fields.set("auto_wrap_policy", accelerate::auto_wrap_policy(*setup.fsdp));
  result["plugin"] = plain(fields);
  return result;
}

}  // namespace

Json training_args_result(const Json& input) {
  Json result = Json::object();
  Environment environment;
  if (input.contains("env"))
    for (const auto& [name, value] : input.at("env").items()) environment[name] = value;
  if (input.contains("launch_yaml") && !stage(result, "launch", [&] {
        environment = launched(input, environment);
        return Json{{"env", shown(environment)}};
      }))
    return result;
  const bool trainer = input.value("trainer", false);
  std::optional<TrainingArguments> arguments;
  const bool made = stage(result, "training_arguments", [&] {
    arguments = make_training_arguments(given_of(input), environment, files_of(input),
                                        trainer ? input.value("world", 8) : 1);
    return arguments_of(*arguments);
  });
  if (!made) return result;
  if (!arguments->fsdp_plugin_args.is_null())
    stage(result, "plugin", [&] {
      return Json{{"fields", plain(accelerate::plugin_fields(accelerate::make_fsdp_plugin(
                                 arguments->fsdp_plugin_args, arguments->environment)))}};
    });
  if (trainer)
    stage(result, "trainer",
          [&] { return trainer_of(*arguments, tiny_model(input.value("model", "bert"))); });
  return result;
}

}  // namespace shardscope::recordings
