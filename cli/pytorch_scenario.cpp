#include "cli/pytorch_scenario.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <variant>

#include "cli/allocator_option.h"
#include "cli/pytorch_given.h"
#include "cli/refused_option.h"
#include "cli/trained_model.h"
#include "core/base/error.h"
#include "core/base/refusal.h"
#include "core/base/utf8.h"
#include "core/config/configured_setup.h"
#include "core/model/exported_step.h"
#include "core/pytorch/engine/iterator.h"
#include "core/pytorch/runtimes/training/requested_setup.h"
#include "sim/cost/cost_model.h"
#include "sim/planner/choice_json.h"
#include "sim/planner/trial.h"

namespace shardscope {
namespace {

/// What the Trainer tells FSDP of a base in 4 bits.
void take_quantized_storage(const std::optional<eager::FineTuningSetup>& tuning,
                            RuntimeChoice& choice) {
  auto* run = std::get_if<ConfiguredRun>(&choice);
  if (!run || !tuning || !tuning->quantization || !tuning->adapter) return;
  const Dtype storage = tuning->quantization->storage_dtype;
  if (storage != Dtype::uint8) run->model.quantized_storage = storage;
}

/// What older releases do is known in part.
void check_versions(const PytorchQuestion& question, bool casts_frozen,
                    std::optional<eager::FineTuningSetup>& tuning) {
  if (casts_frozen && tuning && tuning->quantization)
    throw Error({.where = "--accelerate-version",
                 .what = "a quantised base under FSDP2 before accelerate 1.13 is not predicted",
                 .way_out = "leave it out, or give 1.13 or later"});
  const std::optional<std::string>& peft = question.pytorch.fine_tuning.peft_version;
  refuse_if(peft && !(tuning && tuning->adapter), "--peft-version", "there are no adapters",
            "add --peft, or leave it out");
  if (!adapters_as_base(peft) || tuning->trainable_dtype) return;
  const Dtype held =
      tuning->quantization ? tuning->quantization->storage_dtype : tuning->base->dtype;
  if (eager::is_floating(held)) tuning->trainable_dtype = held;
}

/// The options that mean the same under every runtime; the others are the runtime's to read.
JobOptions sizes_of(const JobOptions& given) {
  JobOptions sizes = given;
  sizes.strategy = sizes.mesh = sizes.wrap = sizes.checkpointing = sizes.precision =
      sizes.optimizer = sizes.prefetch = std::nullopt;
  return sizes;
}

/// What plans know of optimizers: how many states a parameter has.
JobOptions with_planned_optimizer(JobOptions given) {
  if (!given.optimizer) return given;
  check_optimizer(*given.optimizer);
  if (*given.optimizer != "sgd") given.optimizer = "adamw";
  return given;
}

ModelOptions model_options(const PytorchQuestion& question) {
  return {.transformers = parse_transformers_version(question.pytorch.transformers.value_or("5"),
                                                     "--transformers"),
          .quantized_base = true};
}

/// Release 4 of these is known by its parameters alone (`shardscope model`).
void refuse_forwards_of_4(const Model& model, TransformersVersion version) {
  constexpr std::array<std::string_view, 4> families{"deepseek_v3", "gemma3_text", "mixtral",
                                                     "qwen3_moe"};
  if (version != TransformersVersion::v4 ||
      std::ranges::find(families, model.family) == families.end())
    return;
  throw Error(
      {.where = "--transformers",
       .what = fmt::format("a step of {} is predicted with transformers 5 only", model.family),
       .way_out = "leave out --transformers 4"});
}

void refuse_native_options(const JobOptions& job) {
  if (job.prefetch)
    throw Error({.where = "--prefetch",
                 .what = "PyTorch's runtimes have settings of their own for it",
                 .way_out = "set fsdp_backward_prefetch and fsdp_forward_prefetch in accelerate's "
                            "file"});
  if (job.memory_budget)
    throw Error({.where = "--memory-budget",
                 .what = "it chooses the native runtime's checkpointing",
                 .way_out = "give --checkpointing, or --runtime native"});
  if (job.offload)
    throw Error({.where = "--offload",
                 .what = "PyTorch's runtimes have settings of their own for it",
                 .way_out =
                     "set fsdp_offload_params in accelerate's file, or offload_optimizer and "
                     "offload_param in DeepSpeed's"});
}

eager::TrainingSetup setup_of(const Model& model, const RuntimeChoice& choice) {
  if (const auto* request = std::get_if<RuntimeRequest>(&choice))
    return eager::requested_setup(model, *request);
  const ConfiguredRun& run = std::get<ConfiguredRun>(choice);
  try {
    return eager::configured_setup(run.model, run.workers, files_beside(run.file));
  } catch (const Refusal& refusal) {
    throw refused(run.file, refusal);
  }
}

bool divides_layers(const RuntimeChoice& choice) {
  const auto* request = std::get_if<RuntimeRequest>(&choice);
  return request != nullptr && request->tensor > 1;
}

/// How a summary calls it; units are those of the training's setup.
ShardingPlan divided_plan(const RuntimeChoice& choice) {
  const RuntimeRequest& request = std::get<RuntimeRequest>(choice);
  const Mesh mesh = request.mesh.value_or(Mesh{});
  std::string strategy = fmt::format("tensor {}", request.tensor);
  if (mesh.shard > 1)
    strategy += mesh.replicate > 1
                    ? fmt::format(" x hybrid_shard {} x {}", mesh.replicate, mesh.shard)
                    : fmt::format(" x full_shard {}", mesh.shard);
  ShardingPlan plan;
  plan.runtime = Runtime::fsdp2;
  plan.strategy = std::move(strategy);
  plan.precision = name_of(request.precision);
  return plan;
}

/// What transformers' tensor parallelism has no place for, or was never recorded beside it.
void check_divided(const PytorchQuestion& question, const PytorchScenario& scenario) {
  const eager::TrainingSetup& setup = scenario.training.setup;
  if (!setup.tensor) return;
  constexpr std::string_view way_out = "leave it out, or leave tensor out of --mesh";
  const auto refuse = [&](bool given, std::string_view option, std::string_view what) {
    refuse_if(given, option, fmt::format("{} is not predicted beside an axis tensor", what),
              way_out);
  };
  const PytorchOptions& given = question.pytorch;
  refuse(setup.fine_tuning.has_value(), "--peft", "a model with adapters or a quantised one");
  refuse(given.float8.has_value(), "--float8", "float8");
  refuse(given.compile.has_value(), "--compile", "compiled code");
  refuse(given.liger.value_or("off") != "off", "--liger", "Liger's kernels");
  refuse(given.loss.value_or("model") != "model", "--loss", "another loss than the model's");
  refuse(given.layers.value_or("transformers") != "transformers", "--layers",
         "another attention than transformers'");
  refuse(given.optimizer_in_backward.value_or("off") != "off", "--optimizer-in-backward",
         "an update in the backward");
  refuse(given.activation_offloading.value_or("off") != "off", "--activation-offloading",
         "moving activations to the host");
  refuse(given.transformers.value_or("5") != "5", "--transformers", "an older transformers");
  refuse(given.optimizer_implementation.value_or("fused") != "fused", "--optimizer-implementation",
         "another update than the Trainer's, which is fused,");
  const std::string optimizer = question.job.optimizer.value_or("adamw");
  refuse(optimizer != "adamw" && optimizer != "adam" && optimizer != "sgd", "--optimizer",
         optimizer);
  refuse(question.job.checkpointing.value_or("none") == "selective", "--checkpointing",
         "selective checkpointing");
  const int ranks = setup.tensor->ranks;
  for (const char* key : {"num_attention_heads", "num_key_value_heads"}) {
    const auto heads = scenario.config.find(key);
    if (!heads || heads->is_null() || heads->integer() % ranks == 0) continue;
    throw Error({.where = "--mesh",
                 .what = fmt::format("{} is {}, which {} ranks of tensor do not divide: each rank "
                                     "must get whole heads, otherwise the model fails",
                                     key, heads->integer(), ranks),
                 .way_out = fmt::format("give an axis tensor that divides {}", heads->integer())});
  }
}

/// A tool may make no reentrant checkpoints under one runtime: Recipe::not_reentrant_under.
void leave_reentrant(const std::optional<Runtime>& without, const eager::TrainingSetup& setup,
                     PytorchGiven& given) {
  if (!given.not_reentrant || setup.world == 1) return;
  const bool ddp = std::holds_alternative<eager::ddp::Options>(setup.runtime);
  const bool fsdp2 = std::holds_alternative<eager::Fsdp2Setup>(setup.runtime);
  if ((ddp && without == Runtime::ddp) || (fsdp2 && without == Runtime::fsdp2))
    given.job.checkpointing = given.not_reentrant;
}

/// Of a model that is fine-tuned, transformers checkpoints its own layers.
void apply_checkpointing(const PytorchQuestion& question, PytorchScenario& scenario) {
  const auto& text = question.job.checkpointing;
  if (!text || scenario.training.setup.fine_tuning) return;
  if (!scenario.training.setup.checkpointing.modules.empty())
    throw Error({.where = "--checkpointing",
                 .what = "the configuration file turns activation checkpointing on already",
                 .way_out = "leave one of the two out"});
  const auto choice = eager::parse_checkpoint_choice(*text, "--checkpointing");
  scenario.training.setup.checkpointing = eager::checkpointing_of(scenario.model, choice);
}

/// Recorded were 4 bits that are kept as floats, under ZeRO-3 (tests/data/peft_example).
void assume_of_quantized(planner::PytorchTraining& training) {
  const auto* zero = std::get_if<eager::DeepSpeedSetup>(&training.setup.runtime);
  const auto& quantization = training.setup.fine_tuning->quantization;
  if (zero == nullptr || !quantization) return;
  if (zero->settings.stage == 3 && quantization->is_4bit() &&
      eager::is_floating(quantization->storage_dtype))
    return;
  training.assumed.emplace_back(
      "quantised weights are partitioned as other parameters are: no recording of DeepSpeed "
      "confirms it");
}

/// What the config says of attention counts where no option does. FlashAttention's own package has
/// the kernels that PyTorch's flash is made of.
void take_attention(const JsonValue& config, PytorchGiven& given) {
  refuse_attention_weights(config);
  if (given.pytorch.attention) return;
  const std::string name = attention_of_config(config);
  if (name == "eager") given.pytorch.attention = "eager";
  if (!name.starts_with("flash_attention")) return;
  given.pytorch.attention = "flash";
  given.notes.push_back(fmt::format(
      "{} as the config says: PyTorch's flash kernel stands for it (--attention)", name));
}

/// One of the sizes that a model was exported with; the first of them where nobody says.
std::int64_t exported_size(const std::optional<std::int64_t>& given,
                           const std::vector<std::int64_t>& sizes, const char* option) {
  if (!given) return sizes.front();
  if (std::find(sizes.begin(), sizes.end(), *given) != sizes.end()) return *given;
  throw Error({.where = option,
               .what = fmt::format("the model was exported with {}, got {}", fmt::join(sizes, ", "),
                                   *given),
               .way_out = fmt::format("export it again with {} {}", option, *given)});
}

/// An export's steps were traced with a batch and a length, and adapters are part of a model.
void follow_export(const PytorchQuestion& question, PytorchScenario& scenario) {
  if (!scenario.model.step) return;
  const ExportedStep& step = *scenario.model.step;
  scenario.job.seq = exported_size(question.job.seq, step.sequences(), "--seq");
  scenario.job.batch = exported_size(question.job.batch, step.batches(scenario.job.seq), "--batch");
  const auto refuse = [](const char* option, const char* what) {
    throw Error({.where = option,
                 .what = fmt::format("an export holds the whole step, with its {}", what),
                 .way_out = "change the model and export it again"});
  };
  if (question.pytorch.loss) refuse("--loss", "loss");
  if (question.pytorch.dropout) refuse("--dropout", "dropout");
  const FineTuningOptions& tuning = question.pytorch.fine_tuning;
  if (tuning.peft) refuse("--peft", "adapters");
  if (tuning.quantization) refuse("--quantization", "adapters");
}

/// torch/amp/grad_scaler.py, _unscale_grads_.
void check_scaled_gradients(const PytorchScenario& scenario) {
  const eager::TrainingSetup& setup = scenario.training.setup;
  if (!setup.loop.scales_loss || setup.trainable_dtype || setup.dtype_of_shards) return;
  for (const Parameter& p : scenario.model.parameters)
    if (p.trainable && p.dtype == Dtype::float16)
      throw Error({.where = p.name,
                   .what = "ValueError: Attempting to unscale FP16 gradients. The weights that "
                           "train are float16, and fp16 scales the loss",
                   .way_out = "load them in float32 (--base-dtype float32), or train in bf16"});
}

/// A table of positions ends where the GPU's indexing would fail.
void check_length(const PytorchScenario& scenario) {
  const std::int64_t positions = base_of(scenario).positions;
  const std::int64_t length = scenario.training.setup.loop.length;
  if (positions == 0 || length <= positions) return;
  throw Error({.where = "--seq",
               .what = fmt::format("the model has {} positions, got {} tokens", positions, length),
               .way_out = "give a shorter sequence"});
}

/// What nobody said of the training loop.
void assume(const PytorchQuestion& question, const PytorchScenario& scenario,
            std::vector<std::string>& assumed) {
  const JobOptions& given = question.job;
  const eager::TrainingSettings& loop = scenario.training.setup.loop;
  const auto unless = [&](bool is_given, std::string text) {
    if (!is_given && !given.job) assumed.push_back(std::move(text));
  };
  unless(given.batch.has_value(), fmt::format("batch {} (--batch)", loop.batch));
  unless(given.seq.has_value(), fmt::format("sequences of {} tokens (--seq)", loop.length));
  unless(given.optimizer.has_value(), "optimizer adamw (--optimizer)");
  unless(given.clip.has_value(), loop.clips ? "gradients are clipped to a norm (--clip)"
                                            : "gradients are not clipped (--clip)");
  if (!question.pytorch.loss && !scenario.model.step)
    assumed.emplace_back("the model computes the loss (--loss)");
  if (!question.pytorch.dropout && scenario.model.dropout > 0)
    assumed.push_back(
        fmt::format("dropout up to {} as the config says (--dropout)", scenario.model.dropout));
}

}  // namespace

GpuKind gpu_of(const HardwareProfile& profile) {
  if (profile.device != "cuda")
    throw Error({.where = "--cluster",
                 .what = fmt::format("the profile \"{}\" is of a CPU; PyTorch's runtimes are "
                                     "predicted on GPUs",
                                     profile.name),
                 .way_out = "give a GPU's, such as --cluster h100_sxm"});
  const Bytes memory = profile.memory - profile.context_memory.value_or(Bytes{});
  if (profile.compute_capability == 0) return {.compute_capability = {}, .memory = memory};
  return {.compute_capability = profile.compute_capability, .memory = memory};
}

JsonValue config_of(const std::filesystem::path& model) {
  const std::filesystem::path path = config_path(model);
  std::error_code ignored;
  if (model.empty())
    throw Error({.where = "--model",
                 .what = "no model was given",
                 .way_out = "give a model's folder or config.json"});
  if (!std::filesystem::exists(model, ignored))
    throw Error({.where = model.string(),
                 .what = "no such file or folder",
                 .way_out = "give a model's folder or config.json"});
  if (path.filename().extension() != ".json" || !std::filesystem::is_regular_file(path, ignored))
    throw Error({.where = model.string(),
                 .what = "PyTorch's operators follow from a model's config.json",
                 .way_out = "give its folder or that file"});
  JsonValue config = JsonValue::read_file(path, DuplicateKeys::last_wins);
  if (config.is_object() && config.has("modules")) {
    if (config.find("programs")) return config;
    const auto reason = config.find("program_error");
    throw Error(
        {.where = path.string(),
         .what = fmt::format("this export has no training step ({})",
                             reason && reason->is_string() ? shown(reason->string())
                                                           : "an older export_model.py wrote it"),
         .way_out = "export the model again; `shardscope model` reads this file"});
  }
  if (!config.is_object() || !config.has("model_type") || config.at("model_type").is_null())
    throw Error({.where = path.string(),
                 .what = "PyTorch's operators follow from a model's config.json, and this file "
                         "names no model_type",
                 .way_out = "give the model's folder or config.json"});
  return config;
}

void apply_free_memory(const GpuKind& gpu, const Model& model,
                       std::optional<eager::FineTuningSetup>& tuning) {
  if (!tuning || !gpu.memory) return;
  tuning->free_memory = *gpu.memory;
  if (!tuning->unsloth) return;
  Bytes free = *gpu.memory;
  for (const Parameter& p : model.parameters) free -= p.elements() * size_of(p.dtype);
  tuning->unsloth->loss_memory = eager::unsloth_loss_memory(free);
}

PytorchScenario resolve_pytorch_scenario(const PytorchQuestion& asked) {
  refuse_native_options(asked.job);
  PytorchGiven given = with_keys_of_files(
      {.job = asked.job, .pytorch = asked.pytorch, .place = asked.place}, asked.sharding);
  Job job = job_of(sizes_of(given.job));
  JsonValue config = config_of(job.model);
  take_attention(config, given);
  const PytorchQuestion question{.job = given.job,
                                 .sharding = asked.sharding,
                                 .pytorch = given.pytorch,
                                 .place = given.place,
                                 .gpu = asked.gpu};
  PytorchScenario scenario{.job = job,
                           .model = trained_model(job, model_options(question)),
                           .config = std::move(config)};
  refuse_forwards_of_4(scenario.model, model_options(question).transformers);
  follow_export(question, scenario);
  const bool casts_frozen = casts_frozen_weights(question.sharding, question.place);
  scenario.eval_batch = question.pytorch.eval_batch.value_or(0);
  const FineTuningOptions& tuned = question.pytorch.fine_tuning;
  if (casts_frozen)
    scenario.training.assumed.emplace_back(
        "frozen weights become float32, as accelerate before 1.13 makes them under FSDP2");
  auto tuning = fine_tuning_of(tuned, question.job, scenario.model, scenario.config,
                               scenario.training.assumed);
  check_versions(question, casts_frozen, tuning);
  if (tuning)
    scenario.model =
        eager::fine_tuned_model({scenario.config, eager::usual_settings(scenario.model), *tuning});
  else
    scenario.model = in_given_dtypes(tuned, std::move(scenario.model));
  JobOptions for_runtime = with_planned_optimizer(question.job);
  for_runtime.model = job.model.string();
  RuntimeChoice choice = runtime_choice(scenario.model, question.sharding, for_runtime,
                                        question.place, scenario.training.assumed);
  take_quantized_storage(tuning, choice);
  const ShardingPlan plan =
      divides_layers(choice) ? divided_plan(choice) : plan_of(scenario.model, choice);
  refuse_if(plan.runtime != Runtime::ddp && adapters_as_base(tuned.peft_version), "--peft-version",
            "adapters of PEFT before 0.12 are predicted on one device and under DDP",
            "leave it out, or give 0.12 or later");
  scenario.training.runtime = plan.runtime;
  scenario.training.strategy = plan.strategy;
  scenario.training.precision = plan.precision;
  scenario.training.setup = setup_of(scenario.model, choice);
  leave_reentrant(question.sharding.not_reentrant_under, scenario.training.setup, given);
  if (tuning) {
    tuning->loads_as_transformers_4 =
        model_options(question).transformers == TransformersVersion::v4;
    apply_fine_tuning(std::move(*tuning), question.job.checkpointing, scenario.training.setup);
    apply_free_memory(question.gpu, scenario.model, scenario.training.setup.fine_tuning);
    assume_of_quantized(scenario.training);
  }
  apply_checkpointing(question, scenario);
  check_divided(question, scenario);
  apply_tokens_per_batch(question.job, eager::batches_of(scenario.training.setup), scenario.job);
  apply_pytorch_options(question.pytorch, question.job, scenario.job, question.gpu, scenario.model,
                        scenario.training.setup);
  check_length(scenario);
  check_scaled_gradients(scenario);
  assume(question, scenario, scenario.training.assumed);
  for (const std::string& text : given.notes) scenario.training.assumed.push_back(text);
  for (const std::string& text : question.sharding.recipe_notes)
    scenario.training.assumed.push_back(text);
  for (const std::string& text : scenario.training.setup.assumed)
    scenario.training.assumed.push_back(text);
  for (const std::string& text : scenario.model.assumed) scenario.training.assumed.push_back(text);
  return scenario;
}

namespace {

bool of_trl(const eager::TrainingSetup& setup) {
  return setup.model.loss == eager::LanguageLoss::tiled;
}

/// Whether processes load with device_map=None, so that the model comes from the host: under DDP
/// TRL's trainers, and scripts that accelerate or the Trainer starts. Other tools name the GPU.
bool loads_on_host(const eager::TrainingSetup& setup, const ShardingOptions& sharding) {
  if (setup.fine_tuning && setup.fine_tuning->quantization) return false;
  const bool script = (sharding.accelerate || sharding.training_arguments) && !sharding.recipe;
  if (std::holds_alternative<eager::PlainSetup>(setup.runtime))
    return sharding.loads_on_host || (script && setup.fine_tuning);
  if (!std::holds_alternative<eager::ddp::Options>(setup.runtime) || !setup.fine_tuning)
    return false;
  return script || of_trl(setup);
}

/// A whole model whose weights go straight to the device. `loaded` is their dtype then.
void load_to_device(PytorchScenario& scenario, Model loaded, bool automatic_map) {
  eager::TrainingSetup& setup = scenario.training.setup;
  eager::FineTuningSetup tuning;
  tuning.trainable_dtype = setup.trainable_dtype;
  if (scenario.model.dtype != loaded.dtype) tuning.trainable_dtype = scenario.model.dtype;
  tuning.base = std::make_shared<const Model>(std::move(loaded));
  tuning.automatic_map = automatic_map;
  eager::set_fine_tuning(std::move(tuning), setup);
}

}  // namespace

void place_loading(PytorchScenario& scenario, const ShardingOptions& sharding,
                   const FineTuningOptions& dtypes) {
  eager::TrainingSetup& setup = scenario.training.setup;
  const bool plain = setup.world == 1 && std::holds_alternative<eager::PlainSetup>(setup.runtime);
  const bool ddp = std::holds_alternative<eager::ddp::Options>(setup.runtime);
  const bool float8 = setup.float8.recipe != eager::parallel::Float8Recipe::none;
  if (loads_on_host(setup, sharding)) {
    if (setup.fine_tuning) setup.fine_tuning->from_pretrained = false;
    setup.made_on = eager::Device::cpu;
    if (plain) return;
  }
  if (float8 || scenario.model.step) return;
  if (of_trl(setup)) {
    if (plain && setup.fine_tuning)
      setup.fine_tuning->automatic_map = !sharding.loads_on_host;
    else if (plain)
      load_to_device(scenario, scenario.model, true);
  } else if (sharding.recipe && !setup.fine_tuning && (plain || ddp)) {
    load_to_device(scenario, as_loaded(dtypes, scenario.config, scenario.model), false);
  }
}

planner::Training training_of(const PytorchScenario& scenario, bool through_accelerate) {
  const eager::TrainingSetup& setup = scenario.training.setup;
  return {.length = scenario.job.seq,
          .optimizer = scenario.job.optimizer,
          .clip = scenario.job.clip,
          .loop = setup.loop,
          .session = setup.session,
          .model = setup.model,
          .through_accelerate = through_accelerate,
          .fine_tuning = setup.fine_tuning,
          .compiled = setup.compiled,
          .float8 = setup.float8.recipe};
}

namespace {

/// The place of a plan that a job names, as the plan weighs it.
void take_place(PytorchScenario& scenario, const std::string& file,
                const HardwareProfile& profile) {
  const planner::Training training = training_of(scenario, true);
  const CostModel costs(profile);
  const Target native_target;
  std::vector<std::string> assumed = std::move(scenario.training.assumed);
  scenario.training =
      planner::pytorch_training(planner::read_choice(file), {.model = scenario.model,
                                                             .config = scenario.config,
                                                             .training = training,
                                                             .profile = profile,
                                                             .costs = costs,
                                                             .native_target = native_target});
  scenario.training.assumed = std::move(assumed);
}

}  // namespace

PytorchScenario scenario_of_one_run(const PytorchQuestion& question,
                                    const HardwareProfile& profile) {
  PytorchScenario scenario = resolve_pytorch_scenario(question);
  if (question.sharding.choice)
    take_place(scenario, *question.sharding.choice, profile);
  else
    place_loading(scenario, question.sharding, question.pytorch.fine_tuning);
  planner::PytorchTraining& training = scenario.training;
  training.allocator = allocator_settings(question.pytorch.allocator, training.assumed);
  return scenario;
}

const Model& base_of(const PytorchScenario& scenario) {
  const auto& tuning = scenario.training.setup.fine_tuning;
  return tuning ? *tuning->base : scenario.model;
}

Schedule schedule_of(const PytorchScenario& scenario) {
  return schedule_of(scenario.training, scenario.model, scenario.config);
}

Prediction predict(const PytorchScenario& scenario, const HardwareProfile& profile) {
  return predict(schedule_of(scenario), scenario.training, scenario.model, profile);
}

}  // namespace shardscope
