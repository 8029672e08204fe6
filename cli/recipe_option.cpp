#include "cli/recipe_option.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/config/config_file.h"
#include "core/config/recipe_file.h"
#include "core/config/trainer/trainer_loop.h"
#include "core/config/values/config_json.h"
#include "core/format/is_there.h"
#include "core/model/huggingface.h"
#include "core/native/job.h"

namespace shardscope {
namespace {

template <class Value, class Given>
void fill_unset(std::optional<Value>& option, Given value) {
  if (!option) option = Value(std::move(value));
}

/// accelerate's, DeepSpeed's and the Trainer's files have options of their own.
bool take_other_file(const ConfigFile& file, ShardingOptions& sharding) {
  if (file.kind == ConfigKind::accelerate)
    return fill_unset(sharding.accelerate, file.name()), true;
  if (file.kind == ConfigKind::deepspeed) return fill_unset(sharding.deepspeed, file.name()), true;
  if (file.kind == ConfigKind::training_arguments)
    return fill_unset(sharding.training_arguments, file.name()), true;
  if (file.kind == ConfigKind::fsdp_config)
    return fill_unset(sharding.fsdp_config, file.name()), true;
  return false;
}

void take_model(const ConfigFile& file, const Recipe& recipe, JobOptions& job) {
  if (job.model || job.job) return;
  if (!recipe.model.empty() && is_there(config_path(recipe.model))) {
    job.model = recipe.model;
    return;
  }
  throw Error(
      {.where = file.name(),
       .what = recipe.model.empty()
                   ? std::string("names no model")
                   : fmt::format("there is no config.json of the model {} here", recipe.model),
       .way_out = "give --model FOLDER with its config.json"});
}

void take_adapter(const Recipe& recipe, FineTuningOptions& tuning) {
  if (!recipe.adapter.is_null()) fill_unset(tuning.peft, json_text(recipe.adapter));
  if (!recipe.quantization.empty()) fill_unset(tuning.quantization, recipe.quantization);
  tuning.keeps_magnitudes = recipe.keeps_magnitudes;
  tuning.casts_ends_and_back = recipe.casts_ends_and_back;
  if (recipe.prepares_for_kbit) fill_unset(tuning.prepare_kbit, "on");
  if (recipe.base_dtype) fill_unset(tuning.base_dtype, std::string(name_of(*recipe.base_dtype)));
  if (recipe.trainable_dtype)
    fill_unset(tuning.trainable_dtype, std::string(name_of(*recipe.trainable_dtype)));
}

void take_loop(const Recipe::OwnLoop& loop, const JobSettings& settings) {
  JobOptions& job = settings.job;
  fill_unset(job.batch, loop.batch);
  if (!job.tokens_per_batch && !job.accumulate) {
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    if (loop.sequences > 0 && job.seq && *job.seq <= most / loop.sequences)
      job.tokens_per_batch = loop.sequences * *job.seq;
    else
      job.accumulate = loop.micro_batches;
  }
  fill_unset(job.clip, loop.clip);
  if (!job.optimizer) {
    job.optimizer = loop.optimizer;
    if (!loop.implementation.empty())
      fill_unset(settings.pytorch.optimizer_implementation, loop.implementation);
  }
  if (!loop.checkpointing.empty()) fill_unset(job.checkpointing, loop.checkpointing);
  if (loop.steps_in_backward) fill_unset(settings.pytorch.optimizer_in_backward, "on");
  if (loop.offloads_activations) fill_unset(settings.pytorch.activation_offloading, "on");
  if (settings.sharding.names_file()) return;
  fill_unset(settings.sharding.runtime, loop.runtime);
  fill_unset(job.precision, loop.precision);
  if (settings.sharding.runtime != loop.runtime) return;
  if (!loop.mesh.empty()) fill_unset(job.mesh, loop.mesh);
  if (!loop.strategy.empty()) fill_unset(job.strategy, loop.strategy);
  if (!loop.compile.empty()) fill_unset(settings.pytorch.compile, loop.compile);
  if (!loop.float8.empty()) fill_unset(settings.pytorch.float8, loop.float8);
  if (!loop.layers.empty()) fill_unset(settings.pytorch.layers, loop.layers);
  if (!loop.pipeline_schedule.empty()) fill_unset(job.pipeline_schedule, loop.pipeline_schedule);
  if (!loop.pipeline_stages.empty()) fill_unset(job.pipeline_stages, loop.pipeline_stages);
}

/// The model_type of the config.json; "" where there is no such file, as for an exported model.
std::string family_of(const JobOptions& job) {
  if (!job.model && !job.job) return {};
  const auto config =
      config_path(job.model ? std::filesystem::path(*job.model) : read_job(*job.job).model);
  if (config.extension() != ".json" || !is_there(config)) return {};
  const JsonValue value = JsonValue::read_file(config, DuplicateKeys::last_wins);
  const auto family = value.is_object() ? value.find("model_type") : std::nullopt;
  return family ? family->string() : std::string();
}

bool is_of(const std::vector<std::string_view>& families, const JobOptions& job) {
  return !families.empty() && std::ranges::find(families, family_of(job)) != families.end();
}

ConfigValue arguments_for(const JobOptions& job, const Recipe& recipe) {
  ConfigValue arguments = recipe.training_arguments;
  if (is_of(recipe.not_reentrant_families, job)) set_reentrant(arguments, false);
  return arguments;
}

/// The Trainer's arguments, which an option that names a runtime makes say the loop alone.
void take_training_arguments(const ConfigFile& file, const Recipe& recipe,
                             const JobSettings& settings) {
  if (settings.sharding.runtime || settings.sharding.deepspeed) {
    const bool bf16 = recipe.training_arguments.get("bf16").truthy();
    if (bf16 || recipe.training_arguments.get("fp16").truthy())
      fill_unset(settings.job.precision, bf16 ? "bf16_mixed" : "fp16_mixed");
  }
  settings.sharding.recipe = ConfigFile{.path = file.path,
                                        .kind = ConfigKind::training_arguments,
                                        .text = json_text(arguments_for(settings.job, recipe))};
  settings.sharding.not_reentrant_under = recipe.not_reentrant_under;
}

/// A tool may turn Liger on for some families only (Recipe::liger_families).
void take_liger(const Recipe& recipe, const JobSettings& settings) {
  if (recipe.liger.empty() || settings.pytorch.liger) return;
  const std::string family = recipe.liger_families.empty() ? "" : family_of(settings.job);
  if (family.empty() ||
      std::ranges::find(recipe.liger_families, family) != recipe.liger_families.end()) {
    settings.pytorch.liger = recipe.liger;
    return;
  }
  settings.sharding.recipe_notes.push_back(
      fmt::format("no kernels of Liger: the tool does not turn them on for the family {}", family));
}

/// A loss of the command line has a reference and prompts of its own.
void take_loss(const Recipe& recipe, PytorchOptions& pytorch) {
  if (pytorch.loss && *pytorch.loss != recipe.loss) return;
  if (!recipe.loss.empty()) fill_unset(pytorch.loss, recipe.loss);
  if (!recipe.reference.empty()) fill_unset(pytorch.reference, recipe.reference);
  const bool makes_all_logits = recipe.prompt == 0;
  if (makes_all_logits && pytorch.prompt && *pytorch.prompt != 0)
    throw Error({.where = "--prompt",
                 .what = "the file's use_logits_to_keep: false makes logits of prompts, too",
                 .way_out = "leave it out, or remove use_logits_to_keep from the file"});
  if (recipe.prompt) fill_unset(pytorch.prompt, *recipe.prompt);
}

/// Variables of the shell that the tool leaves as they are count, too.
void take_allocator(const Recipe& recipe, const JobSettings& settings, std::int64_t world) {
  if (recipe.allocator.empty() || settings.pytorch.allocator) return;
  if (std::getenv("PYTORCH_ALLOC_CONF") != nullptr) return;
  if (recipe.allocator_of_several && (world == 1 || settings.sharding.accelerate)) return;
  settings.pytorch.allocator = recipe.allocator;
  settings.sharding.recipe_notes.push_back(fmt::format(
      "allocator settings \"{}\", which the tool sets (--allocator)", recipe.allocator));
}

void note(const Recipe& recipe, const OutputOptions& output) {
  for (const Finding& finding : recipe.findings)
    output.note(fmt::format("{}{}: {}: {}: {}{}", finding.file,
                            finding.line > 0 ? fmt::format(":{}", finding.line) : "",
                            name_of(finding.severity), finding.key, finding.message,
                            finding.mend.empty() ? "" : "; " + finding.mend));
}

}  // namespace

void declare_recipe_option(Command& command, ShardingOptions& options) {
  command.option("--config", options.config,
                 {"FILE",
                  "the file of TRL, axolotl, LLaMA-Factory, ms-swift, litgpt, torchtune or "
                  "torchtitan (TOML, or FILE.py:FUNCTION of its config_registry.py), recognised by "
                  "its keys, or a script with Megatron-LM's command line (simulate, plan); options "
                  "override it"});
}

void take_recipe(const JobSettings& settings, PlaceOptions& place, const OutputOptions& output,
                 int usual_world) {
  ShardingOptions& sharding = settings.sharding;
  if (!sharding.config) return;
  const ConfigFile file = read_config_file(*sharding.config);
  if (take_other_file(file, sharding)) return;
  const Recipe recipe = read_recipe(file);
  refuse_errors(recipe);
  note(recipe, output);
  take_model(file, recipe, settings.job);
  take_adapter(recipe, settings.pytorch.fine_tuning);
  if (recipe.length) fill_unset(settings.job.seq, *recipe.length);
  if (!recipe.attention.empty()) fill_unset(settings.pytorch.attention, recipe.attention);
  settings.pytorch.flattens = recipe.flattens;
  take_loss(recipe, settings.pytorch);
  take_liger(recipe, settings);
  if (recipe.world) fill_unset(place.world, *recipe.world);
  take_allocator(recipe, settings, place.world.value_or(usual_world));
  if (recipe.own_loop)
    take_loop(*recipe.own_loop, settings);
  else
    take_training_arguments(file, recipe, settings);
  sharding.loads_on_host = recipe.loads_on_host;
  sharding.recipe_notes.insert(sharding.recipe_notes.end(), recipe.assumed.begin(),
                               recipe.assumed.end());
}

std::optional<RecipeRun> take_recipe_to_plan(const JobSettings& settings, PlaceOptions& place,
                                             int ranks_of_a_node, const OutputOptions& output) {
  ShardingOptions& sharding = settings.sharding;
  if (!sharding.config) return std::nullopt;
  // A precision of the command line is a list of those to try.
  JobOptions& job = settings.job;
  const std::optional<std::string> precision = std::exchange(job.precision, std::nullopt);
  const std::optional<std::string> strategy = std::exchange(job.strategy, std::nullopt);
  const std::optional<std::string> mesh = std::exchange(job.mesh, std::nullopt);
  const std::optional<std::int64_t> batch = job.batch;
  const std::optional<std::string> layers = settings.pytorch.layers;
  take_recipe(settings, place, output, ranks_of_a_node);
  if (settings.pytorch.layers != layers) {
    settings.pytorch.layers = layers;
    sharding.recipe_notes.emplace_back(
        "a dense Llama's layers of torchtitan's TOML, since plan does not weigh those of 0.3");
  }
  const RecipeRun run{.file = *sharding.config,
                      .job = job,
                      .sharding = sharding,
                      .pytorch = settings.pytorch,
                      .place = place};
  std::int64_t sequences = job.batch.value_or(1) * job.accumulate.value_or(1);
  if (sharding.recipe) {
    const std::string name = sharding.recipe->name();
    settings.pytorch.by_trainer = true;
    const TrainerLoop loop = trainer_loop(read_json(sharding.recipe->text, name), name);
    sequences = loop.batch * loop.micro_batches;
    fill_unset(job.clip, loop.clip);
    if (!loop.liger.empty()) fill_unset(settings.pytorch.liger, loop.liger);
    if (!job.optimizer && loop.optimizer) {
      job.optimizer = loop.optimizer;
      if (!loop.implementation.empty())
        fill_unset(settings.pytorch.optimizer_implementation, loop.implementation);
    }
    sharding.recipe.reset();
  }
  const bool is_recipe = !sharding.accelerate && !sharding.deepspeed &&
                         !sharding.training_arguments && !sharding.fsdp_config;
  if (is_recipe && !job.tokens_per_batch && job.seq)
    job.tokens_per_batch = sequences * *job.seq * place.world.value_or(ranks_of_a_node);
  sharding.runtime.reset();
  job.precision = precision;
  job.strategy = strategy;
  job.mesh = mesh;
  // A loss that is compiled by itself is computed after the model.
  if (settings.pytorch.compile == name_of(CompileScope::blocks_and_loss))
    fill_unset(settings.pytorch.loss, "outside");
  job.batch = batch;
  job.accumulate.reset();
  job.checkpointing.reset();
  if (!is_recipe || run.sharding.runtime == "torchtitan") return std::nullopt;
  return run;
}

}  // namespace shardscope
