#include "core/config/workers.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/config/accelerate/launch.h"
#include "core/config/deepspeed/hjson.h"
#include "core/config/recipe_file.h"
#include "core/config/script_arguments.h"
#include "core/config/trainer/training_args.h"
#include "core/config/values/config_json.h"
#include "core/format/atomic_file.h"
#include "core/format/python_text.h"

namespace shardscope {
namespace {

constexpr std::int64_t largest_file_bytes = 8 << 20;
constexpr std::int64_t largest_world = 1 << 20;

/// What a real tool raises while it reads a file, as an error about the file.
Error raised_by(const ConfigFile& file, std::string_view tool, const Refusal& refusal) {
  const std::string line = refusal.line() > 0 ? fmt::format(":{}", refusal.line()) : "";
  return Error(
      {.where = file.name() + line,
       .what = fmt::format("{} raises {}: {}", tool, refusal.exception(), refusal.what())});
}

std::int64_t machines_of(const ConfigPlace& place, std::int64_t world) {
  if (!place.ranks_per_node) return 1;
  if (world % *place.ranks_per_node != 0)
    throw Error(
        {.where = "--ranks-per-node",
         .what = fmt::format("{} ranks are not whole nodes of {}", world, *place.ranks_per_node),
         .way_out = "give a divisor of the world"});
  return std::max<std::int64_t>(1, world / *place.ranks_per_node);
}

/// The command line that says what the place says.
std::vector<std::string> launch_words(const ConfigPlace& place) {
  std::vector<std::string> words;
  if (place.world) {
    words.push_back(fmt::format("--num_processes={}", *place.world));
    if (place.ranks_per_node)
      words.push_back(fmt::format("--num_machines={}", machines_of(place, *place.world)));
  }
  words.emplace_back("train.py");
  return words;
}

std::int64_t count(const accelerate::Launch& launch, std::string_view name) {
  const ConfigValue value = launch.arguments->get(name);
  return value.is_integer() ? std::clamp<std::int64_t>(value.integer(), 1, largest_world) : 1;
}

Workers accelerate_workers(const ConfigFile& file, const ConfigValue& value,
                           const ConfigPlace& place) {
  const accelerate::Launch launch = accelerate::launch(
      {.words = launch_words(place),
       .config = accelerate::attempt([&] { return accelerate::load_config(value); }),
       .machine = {.has_fp8 = true}});
  if (launch.error) throw raised_by(file, "accelerate launch", *launch.error);
  return {.environment = launch.environment,
          .deepspeed = {},
          .world = count(launch, "num_processes"),
          .machines = count(launch, "num_machines"),
          .accelerate = place.accelerate,
          .launched = true,
          .assumed = {},
          .warnings = launch.warnings};
}

std::int64_t world_of(const ConfigPlace& place, std::vector<std::string>& assumed) {
  if (!place.world) assumed.emplace_back("1 rank (--world)");
  return place.world.value_or(1);
}

/// Arguments of FullyShardedDataParallelPlugin as the variables that it would read instead.
void set_plugin_arguments(const ConfigValue& arguments, Environment& environment) {
  constexpr std::pair<std::string_view, std::string_view> renamed[] = {
      {"fsdp_version", "FSDP_VERSION"},
      {"transformer_cls_names_to_wrap", "FSDP_TRANSFORMER_CLS_TO_WRAP"},
      {"cpu_offload", "FSDP_OFFLOAD_PARAMS"}};
  for (const ConfigValue::Entry& entry : arguments.entries()) {
    std::string name = "FSDP_" + upper_of(entry.key);
    for (const auto& [argument, variable] : renamed)
      if (argument == entry.key) name = variable;
    environment[name] = entry.value.is_boolean() ? lower_of(entry.value.str()) : entry.value.str();
  }
}

Workers ranks_of(const ConfigPlace& place) {
  Workers workers;
  workers.world = world_of(place, workers.assumed);
  workers.machines = machines_of(place, workers.world);
  workers.accelerate = place.accelerate;
  return workers;
}

/// propagate_args_to_deepspeed: of a configuration that the launcher made, the Trainer fills in
/// "auto" as of its own.
void propagate_to_deepspeed(std::int64_t world, TrainingArguments& arguments) {
  if (arguments.deepspeed_config || !arguments.deepspeed_plugin) return;
  arguments.deepspeed_config = processed_by_trainer(arguments.deepspeed_plugin->hf_ds_config,
                                                    arguments.with_defaults(), world);
}

/// What the Trainer makes of its arguments where the launcher has left `workers.environment`.
void add_trainer(const ConfigFile& file, const ConfigValue& given, Workers& workers) {
  try {
    TrainingArguments arguments =
        make_training_arguments(given, workers.environment, files_beside(file), workers.world);
    propagate_to_deepspeed(workers.world, arguments);
    workers.environment = arguments.environment;
    workers.warnings.insert(workers.warnings.end(), arguments.warnings.begin(),
                            arguments.warnings.end());
    workers.environment["ACCELERATE_MIXED_PRECISION"] = arguments.mixed_precision;
    if (!arguments.fsdp_plugin_args.is_null()) {
      workers.environment["ACCELERATE_USE_FSDP"] = "true";
      set_plugin_arguments(arguments.fsdp_plugin_args, workers.environment);
    }
    if (arguments.deepspeed_config) {
      workers.environment["ACCELERATE_USE_DEEPSPEED"] = "true";
      workers.deepspeed = arguments.deepspeed_config->hf.config();
    }
    workers.trainer = std::move(arguments);
  } catch (const Refusal& refusal) {
    throw raised_by(file, "TrainingArguments", refusal);
  }
}

Workers trainer_workers(const ConfigFile& file, const ConfigValue& given,
                        const ConfigPlace& place) {
  Workers workers = ranks_of(place);
  add_trainer(file, given, workers);
  return workers;
}

/// The Trainer's arguments of a tool for fine-tuning.
Recipe recipe_of(const ConfigFile& file) {
  Recipe recipe = read_recipe(file);
  if (recipe.training_arguments.is_dict()) return recipe;
  throw Error({.where = file.name(),
               .what = fmt::format("{} has a training loop of its own, without a file of "
                                   "accelerate, DeepSpeed or the Trainer",
                                   name_of(file.kind)),
               .way_out = "`shardscope simulate --config` predicts it"});
}

/// Of a tool for fine-tuning around the Trainer.
Workers recipe_workers(const ConfigFile& file, ConfigPlace place) {
  const Recipe recipe = recipe_of(file);
  if (!place.world) place.world = recipe.world;
  return trainer_workers(file, recipe.training_arguments, place);
}

bool has_auto(const ConfigValue& value) {
  if (!value.is_dict()) return value.is("auto");
  const auto& entries = value.entries();
  return std::any_of(entries.begin(), entries.end(),
                     [](const ConfigValue::Entry& entry) { return has_auto(entry.value); });
}

/// The value under a dotted key; None where there is none.
ConfigValue value_at(const ConfigValue& config, std::string_view key) {
  const std::size_t dot = key.find('.');
  if (dot == std::string_view::npos) return config.get(key);
  const ConfigValue* section = config.find(key.substr(0, dot));
  return section ? value_at(*section, key.substr(dot + 1)) : ConfigValue();
}

/// Arguments that a script has which goes with the file: the Trainer refuses others.
void set_agreeing_arguments(const ConfigValue& config, std::int64_t world, ConfigValue& arguments) {
  constexpr std::pair<std::string_view, std::string_view> agreeing[] = {
      {"train_micro_batch_size_per_gpu", "per_device_train_batch_size"},
      {"gradient_accumulation_steps", "gradient_accumulation_steps"},
      {"gradient_clipping", "max_grad_norm"},
      {"optimizer.params.lr", "learning_rate"},
      {"optimizer.params.eps", "adam_epsilon"},
      {"optimizer.params.weight_decay", "weight_decay"},
      {"scheduler.params.warmup_num_steps", "warmup_steps"},
      {"bf16.enabled", "bf16"},
      {"fp16.enabled", "fp16"}};
  for (const auto& [key, argument] : agreeing)
    if (const ConfigValue value = value_at(config, key); value.is_number())
      arguments.set(argument, value);
  const ConfigValue batch = config.get("train_batch_size");
  if (!batch.is_integer() || arguments.has("per_device_train_batch_size")) return;
  const ConfigValue accumulated = arguments.get("gradient_accumulation_steps");
  const std::int64_t steps = accumulated.is_integer() ? accumulated.integer() : 1;
  if (steps > 0 && steps <= largest_world)
    arguments.set("per_device_train_batch_size",
                  std::max<std::int64_t>(1, batch.integer() / (world * steps)));
}

/// With "auto" in it the file is the Trainer's, at its defaults.
Workers deepspeed_workers(const ConfigFile& file, const ConfigValue& value,
                          const ConfigPlace& place) {
  Workers workers = ranks_of(place);
  workers.deepspeed = value;
  workers.environment["ACCELERATE_USE_DEEPSPEED"] = "true";
  if (!has_auto(value)) return workers;
  ConfigValue arguments = ConfigValue::dict({{"output_dir", "out"}, {"deepspeed", value}});
  set_agreeing_arguments(value, workers.world, arguments);
  if (place.trainer_precision.empty())
    workers.assumed.emplace_back(
        "\"auto\" as TrainingArguments' defaults fill it in (--precision)");
  else
    arguments.set(place.trainer_precision, true);
  add_trainer(file, arguments, workers);
  return workers;
}

}  // namespace

bool Workers::casts_frozen_weights() const {
  return accelerate < 13 && uses_fsdp() && variable(environment, "FSDP_VERSION") == "2" &&
         variable(environment, "ACCELERATE_MIXED_PRECISION", "no") != "no";
}

ReadFile files_beside(const ConfigFile& file) {
  std::error_code failed;
  std::filesystem::path folder = std::filesystem::absolute(file.path, failed).parent_path();
  return [folder = std::move(folder)](const std::string& path) -> std::optional<std::string> {
    std::vector<std::filesystem::path> candidates{path, folder / path};
    // Tools open the path from the folder that they are started in, often the repository's.
    for (std::filesystem::path above = folder; above.has_relative_path();) {
      above = above.parent_path();
      candidates.push_back(above / path);
    }
    for (const std::filesystem::path& candidate : candidates) {
      std::error_code ignored;
      if (std::filesystem::is_regular_file(candidate, ignored))
        return read_whole(candidate, largest_file_bytes);
    }
    return std::nullopt;
  };
}

ConfigValue value_of(const ConfigFile& file) {
  switch (file.kind) {
    case ConfigKind::accelerate:
      return accelerate::read_config(file.text, file.name());
    case ConfigKind::deepspeed:
      return read_hjson(file.text, file.name());
    case ConfigKind::training_arguments:
      return script_arguments(file).arguments;
    case ConfigKind::fsdp_config:
      return read_json(file.text, file.name());
    case ConfigKind::megatron:
      throw not_a_recipe(file);
    default:
      return recipe_value(file.text, file.name());
  }
}

Workers workers_of(const ConfigFile& file, const ConfigValue& value, const ConfigPlace& place) {
  switch (file.kind) {
    case ConfigKind::accelerate:
      return accelerate_workers(file, value, place);
    case ConfigKind::deepspeed:
      return deepspeed_workers(file, value, place);
    case ConfigKind::training_arguments:
      return trainer_workers(file, value, place);
    case ConfigKind::fsdp_config:
      return trainer_workers(file, ConfigValue::dict({{"fsdp", true}, {"fsdp_config", value}}),
                             place);
    default:
      return recipe_workers(file, place);
  }
}

Workers workers_of_script(const ConfigFile& file, const ConfigFile& arguments_file,
                          const ConfigPlace& place) {
  Workers workers = accelerate_workers(file, value_of(file), place);
  const ConfigValue given = arguments_file.kind == ConfigKind::training_arguments
                                ? value_of(arguments_file)
                                : recipe_of(arguments_file).training_arguments;
  add_trainer(arguments_file, given, workers);
  return workers;
}

}  // namespace shardscope
