#include "cli/plan_inputs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "cli/allocator_option.h"
#include "cli/expert_load.h"
#include "cli/hardware_choice.h"
#include "cli/native_scenario.h"
#include "cli/pytorch_scenario.h"
#include "cli/refused_option.h"
#include "cli/torchtitan_scenario.h"
#include "core/base/error.h"
#include "core/base/utf8.h"
#include "core/model/exported_step.h"
#include "core/pytorch/parallel/model_shape.h"
#include "core/pytorch/plans/runtime_request.h"
#include "core/pytorch/runtimes/training/float8_layers.h"

namespace shardscope {
namespace {

constexpr std::int64_t usual_length = 2048;
constexpr std::int64_t usual_length_without_positions = 512;

bool only_native(const std::vector<Runtime>& runtimes) {
  return runtimes == std::vector{Runtime::native};
}

/// FSDP2's parameters are DTensors, which updates of bitsandbytes and Adafactor do not take;
/// DeepSpeed's own masters under them are not modelled.
bool takes_whole_parameters(Runtime runtime) {
  return runtime == Runtime::ddp || runtime == Runtime::fsdp1;
}

/// torchao's layers.
bool takes_float8(Runtime runtime) { return runtime == Runtime::ddp || runtime == Runtime::fsdp2; }

/// What torchtitan's loop cannot be told, or plan does not weigh of it.
void refuse_under_torchtitan(const PlanOptions& options, const HardwareProfile& profile) {
  constexpr std::string_view way_out = "leave it out, or leave torchtitan out of --runtime";
  refuse_if(
      profile.device == "cpu", "--runtime",
      fmt::format("torchtitan trains on GPUs, and the hardware is the CPU of {}", profile.name),
      "give a --cluster with GPUs, as h100_sxm, or leave torchtitan out of --runtime");
  refuse_under_torchtitan(options.pytorch);
  refuse_if(options.pytorch.attention.has_value(), "--attention",
            "plan weighs torchtitan with the kernels that it uses: cuDNN's, and flash with an axis "
            "context",
            way_out);
  refuse_if(options.pytorch.optimizer_implementation.value_or("fused") != "fused",
            "--optimizer-implementation", "plan weighs torchtitan with its fused optimizer",
            way_out);
  const std::string layers = options.pytorch.layers.value_or("torchtitan");
  refuse_if(layers != "torchtitan", "--layers",
            fmt::format("plan does not weigh {}", shown(layers)), way_out);
  torchtitan_compile_scope(options.pytorch);
  refuse_if(options.lengths.has_value(), "--lengths",
            "lengths are not weighed under torchtitan, which packs its sequences", way_out);
}

std::vector<Runtime> runtimes_of(const PlanOptions& options, const HardwareProfile& profile) {
  std::vector<Runtime> asked = options.asked_runtimes();
  const bool muon = options.job.optimizer == "muon";  // of whole matrices
  const bool one_by_one =
      is_of_bitsandbytes(options.job.optimizer) || options.job.optimizer == "adafactor" || muon;
  const auto refuse = [&](std::string_view runtime) {
    return Error(
        {.where = "--optimizer",
         .what = fmt::format("{} is not for {}", *options.job.optimizer, runtime),
         .way_out = muon ? "give --runtime ddp, or adamw" : "give --runtime ddp,fsdp1, or adamw"});
  };
  for (const Runtime runtime : asked)
    if ((one_by_one && !takes_whole_parameters(runtime)) || (muon && runtime != Runtime::ddp))
      throw refuse(name_of(runtime));
  if (one_by_one && options.asks_torchtitan()) throw refuse("torchtitan");
  for (const Runtime runtime : asked)
    if (options.pytorch.float8 && !takes_float8(runtime))
      throw Error({.where = "--float8",
                   .what = fmt::format("float8 is not predicted under {}", name_of(runtime)),
                   .way_out = "give --runtime ddp,fsdp2, or torchtitan"});
  if (options.asks_torchtitan()) {
    refuse_under_torchtitan(options, profile);
    return asked;
  }
  if (!asked.empty()) return asked;
  if (muon) return {Runtime::ddp};
  if (one_by_one) return {Runtime::ddp, Runtime::fsdp1};
  if (options.pytorch.float8 && !options.has_file()) return {Runtime::ddp, Runtime::fsdp2};
  if (profile.device == "cpu" && !options.has_file()) return {Runtime::native};
  return {Runtime::ddp, Runtime::fsdp2, Runtime::fsdp1, Runtime::deepspeed};
}

HardwareProfile profile_of(const PlanOptions& options) {
  return require_hardware(options.cluster, options.device_memory).profile;
}

std::optional<Bytes> host_memory_of(const PlanOptions& options) {
  if (!options.host_memory) return std::nullopt;
  const Bytes memory = parse_bytes(*options.host_memory, "--host-memory");
  if (memory <= Bytes{})
    throw Error(
        {.where = "--host-memory",
         .what = fmt::format("expected more than 0 bytes, got \"{}\"", *options.host_memory)});
  return memory;
}

/// What both the file's run and every candidate are told.
JobOptions shared_options(const PlanOptions& options) {
  JobOptions job = options.job;
  job.strategy = job.precision = std::nullopt;
  job.batch = job.tokens_per_batch = std::nullopt;
  return job;
}

std::int64_t usual_seq(const Model& model) {
  if (model.step) return model.step->sequences().front();
  if (model.decoder) return std::min(usual_length, model.decoder->max_positions);
  return model.positions > 0 ? std::min(usual_length_without_positions, model.positions)
                             : usual_length_without_positions;
}

/// A micro-batch is one that the model was exported with.
void check_exported_batch(const planner::Inputs& inputs) {
  if (!inputs.model.step) return;
  const std::vector<std::int64_t> batches =
      inputs.model.step->batches(inputs.question.training.length);
  const std::int64_t sequences = planner::sequences_per_rank(inputs.question);
  if (std::ranges::none_of(batches, [&](std::int64_t batch) { return sequences % batch == 0; }))
    throw Error({.where = "--tokens-per-batch",
                 .what = fmt::format("{} sequences a rank are no multiple of {}, which the model "
                                     "was exported with",
                                     sequences, fmt::join(batches, ", ")),
                 .way_out = "export it with --batch 1, too, or give other tokens"});
}

/// Of those that share a rank's sequences evenly.
std::int64_t largest_exported_batch(const planner::Inputs& inputs) {
  const std::int64_t sequences = planner::sequences_per_rank(inputs.question);
  std::int64_t largest = 1;
  for (const std::int64_t batch : inputs.model.step->batches(inputs.question.training.length))
    if (sequences % batch == 0) largest = batch;
  return largest;
}

/// Whether an export has steps for it.
bool has_steps_for(const Model& model, TrainingPrecision precision) {
  if (!model.step) return true;
  const Dtype computes = compute_dtype(precision).value_or(parameter_dtype(precision));
  return std::ranges::any_of(model.step->programs, [&](const ExportedProgram& program) {
    return program.parameters == computes && !program.autocast;
  });
}

/// Resolves stage by stage.
class Resolver {
 public:
  /// `worlds`: to weigh; the options have the largest of them.
  Resolver(const PlanOptions& options, std::vector<int> worlds)
      : options_(options),
        worlds_(std::move(worlds)),
        profile_(profile_of(options)),
        runtimes_(runtimes_of(options, profile_)) {}

  planner::Inputs resolve() {
    refuse_if(options_.pytorch.fine_tuning.peft_version.has_value(), "--peft-version",
              "plan weighs adapters as PEFT 0.21 makes them", "leave it out, or ask simulate");
    planner::Inputs inputs =
        only_native(runtimes_) && !options_.has_file() ? of_native() : of_pytorch();
    check_kernels(inputs.question.training);
    inputs.question.runtimes = runtimes_;
    inputs.question.torchtitan = options_.asks_torchtitan();
    inputs.question.all_layouts = options_.asks_all_layouts();
    inputs.question.tensor = options_.asked_tensor();
    refuse_if(!inputs.question.tensor.empty() &&
                  std::ranges::find(runtimes_, Runtime::fsdp2) == runtimes_.end(),
              "--tensor", "it is an axis beside fsdp2, and --runtime does not name fsdp2",
              "add fsdp2 to --runtime, or leave --tensor out");
    if (inputs.question.all_layouts) check_layouts(inputs.question.training);
    inputs.question.tokens_per_batch = *options_.job.tokens_per_batch;
    set_worlds(inputs);
    planner::check_tokens(inputs.question);
    check_exported_batch(inputs);
    set_precisions(inputs);
    if (options_.has_file()) set_given(inputs);
    if (options_.recipe_run) set_run_of_recipe(inputs);
    set_allocator(inputs);
    inputs.margin = margin_of(options_.margin, profile_.memory);
    inputs.host_memory = host_memory_of(options_);
    set_wishes(inputs);
    assume(inputs);
    return inputs;
  }

 private:
  planner::Inputs of_native() {
    const Job job = job_of(job_options());
    planner::Inputs inputs = inputs_of(job, trained_model(job), JsonValue::parse("{}", ""));
    inputs.question.world = world_without_file();
    if (!options_.job.seq) inputs.job.seq = usual_seq(inputs.model);
    fill_training(inputs);
    return inputs;
  }

  planner::Inputs of_pytorch() {
    JobOptions job = job_options();
    PlaceOptions place = options_.place;
    ShardingOptions sharding = options_.sharding;
    if (options_.has_file()) {
      if (sharding.deepspeed) job.precision = options_.job.precision;
    } else {
      sharding.runtime = "ddp";
      place.world = world_without_file();
    }
    if (!sharding.ranks_per_node && profile_.ranks_per_node > 0 && !options_.has_file())
      sharding.ranks_per_node = profile_.ranks_per_node;
    PytorchScenario scenario = resolve(job, sharding, place);
    if (!options_.job.seq) {
      job.seq = usual_seq(base_of(scenario));
      scenario = resolve(job, sharding, place);
    }
    planner::Inputs inputs = inputs_of(scenario.job, scenario.model, scenario.config);
    const eager::TrainingSetup& setup = scenario.training.setup;
    inputs.question.world = setup.world;
    inputs.question.training = training_of(scenario, true);
    if (is_torchtitan_alone()) {
      inputs.question.training.compiled = torchtitan_compile_scope(options_.pytorch);
      inputs.question.training.float8 = float8_recipe_of(options_.pytorch);
      inputs.question.training.expert_load = expert_load_of(inputs.model);
    }
    if (options_.has_file()) inputs.given = given_of(std::move(scenario.training));
    fill_training(inputs);
    return inputs;
  }

  planner::Inputs inputs_of(const Job& job, Model model, JsonValue config) const {
    return {.model = std::move(model),
            .config = std::move(config),
            .profile = profile_,
            .native_target =
                native_target(job, {.kind = profile_.device, .threads = profile_.threads_per_rank}),
            .job = job};
  }

  planner::Given given_of(planner::PytorchTraining training) const {
    const ShardingOptions& files = options_.sharding;
    return {.name = files.accelerate ? *files.accelerate : *files.deepspeed,
            .training = std::move(training)};
  }

  JobOptions job_options() const { return shared_options(options_); }

  /// What `simulate` refuses of each way.
  void check_kernels(const planner::Training& training) const {
    constexpr int usual_capability = 90;
    if (training.float8 != eager::parallel::Float8Recipe::none)
      eager::check_float8_device(gpu_of(profile_).compute_capability.value_or(usual_capability));
    if (asks_pytorch_pipelines() && name_of(training.compiled) == name_of(CompileScope::model))
      throw Error({.where = "--compile",
                   .what = "stages of a pipeline are compiled block by block, not as a model",
                   .way_out = "give --compile blocks, or leave pipeline out of --strategy"});
  }

  /// Groups of layouts are bounded by the kernels of eager code in 16 and 32 bits.
  static void check_layouts(const planner::Training& training) {
    const bool compiled = training.compiled != CompileScope::none;
    if (!compiled && training.float8 == eager::parallel::Float8Recipe::none) return;
    throw Error({.where = "--layouts",
                 .what = fmt::format("all layouts are not weighed with {}",
                                     compiled ? "--compile" : "--float8"),
                 .way_out = "leave --layouts out, or leave --compile and --float8 out"});
  }

  bool asks_pytorch_pipelines() const {
    const planner::PipelinesAsked asked = options_.asked_pipelines();
    return std::ranges::count(runtimes_, Runtime::fsdp2) > 0 &&
           (asked == planner::PipelinesAsked::beside || asked == planner::PipelinesAsked::alone);
  }

  /// Of the busiest rank's experts; says so in what is assumed.
  double expert_load_of(const Model& model) {
    const auto& given = options_.pytorch.expert_load;
    const bool mixture = eager::parallel::is_mixture(model);
    refuse_if(given && !mixture, "--expert-load",
              "the model has no experts that are predicted under torchtitan", "leave it out");
    const ExpertLoad load = parse_expert_load(given);
    refuse_if(load.range.has_value(), "--expert-load", "plan takes one factor, not a range",
              "give the factor alone, as 1.3");
    if (mixture)
      assumed_.push_back(
          given ? fmt::format("where experts are spread, the busiest rank's get {} times the "
                              "average tokens, at most all of them (--expert-load)",
                              load.factor)
                : "all experts get the same tokens (--expert-load)");
    return load.factor;
  }

  bool is_torchtitan_alone() const {
    return options_.asks_torchtitan() && options_.asked_runtimes().empty() && !options_.has_file();
  }

  PytorchScenario resolve(const JobOptions& job, const ShardingOptions& sharding,
                          const PlaceOptions& place) const {
    PytorchOptions pytorch = options_.pytorch;
    // Its loop computes the loss after the model, and says itself what it compiles and casts.
    if (is_torchtitan_alone())
      pytorch.compile = pytorch.float8 = pytorch.expert_load = std::nullopt;
    set_base_dtype(pytorch.fine_tuning);
    return resolve_pytorch_scenario({.job = job,
                                     .sharding = sharding,
                                     .pytorch = pytorch,
                                     .place = place,
                                     .gpu = gpu_of(profile_)});
  }

  TrainingPrecision usual_precision() const {
    return profile_.device == "cpu" ? TrainingPrecision::fp32 : TrainingPrecision::bf16_mixed;
  }

  /// All ways have one base. It is loaded as `simulate` loads it where one precision is weighed.
  void set_base_dtype(FineTuningOptions& tuning) const {
    if (!tuning.peft || tuning.base_dtype || options_.has_file() || options_.recipe_run) return;
    std::vector<TrainingPrecision> precisions = options_.asked_precisions();
    if (precisions.empty()) precisions = {usual_precision()};
    if (precisions.size() == 1) tuning.base_dtype = name_of(loaded_dtype(precisions.front()));
  }

  /// Those of a range that share the tokens of a step evenly; the others are said.
  void set_worlds(planner::Inputs& inputs) {
    if (worlds_.size() < 2) return;
    for (const int world : worlds_)
      if (planner::shares_evenly(inputs.question, world))
        inputs.worlds.push_back(world);
      else
        assumed_.push_back(
            fmt::format("{} ranks are left out: {} tokens a step are not a whole "
                        "number of sequences of {} for each",
                        world, inputs.question.tokens_per_batch, inputs.job.seq));
    if (!inputs.worlds.empty()) inputs.question.world = inputs.worlds.back();
  }

  int world_without_file() {
    if (options_.place.world) {
      if (*options_.place.world < 1 || *options_.place.world > 1 << 20)
        throw Error(
            {.where = "--world",
             .what = fmt::format("expected 1 to {}, got {}", 1 << 20, *options_.place.world)});
      return static_cast<int>(*options_.place.world);
    }
    const int world = ranks_of_a_node(profile_);
    assumed_.push_back(
        fmt::format("{} rank{}, one node of the cluster (--world)", world, world == 1 ? "" : "s"));
    return world;
  }

  void fill_training(planner::Inputs& inputs) const {
    planner::Training& training = inputs.question.training;
    training.length = inputs.job.seq;
    training.optimizer = inputs.job.optimizer;
    training.clip = inputs.job.clip;
  }

  /// Those asked for, else the file's, else those that keep float32 weights.
  void set_precisions(planner::Inputs& inputs) {
    std::vector<TrainingPrecision>& precisions = inputs.question.precisions;
    precisions = options_.asked_precisions();
    inputs.has_usual_precisions = precisions.empty();
    if (!precisions.empty()) return;
    if (inputs.given) {
      precisions = {precision_of(inputs.given->training)};
    } else if (profile_.device == "cpu") {
      precisions = {usual_precision()};
    } else {
      precisions = {usual_precision()};
      // The base of adapters is loaded in one dtype.
      if (!inputs.question.training.fine_tuning) precisions.push_back(TrainingPrecision::fp32);
      std::erase_if(precisions, [&](TrainingPrecision precision) {
        return !has_steps_for(inputs.model, precision);
      });
      if (precisions.empty()) precisions = {TrainingPrecision::bf16};
    }
    std::vector<std::string_view> names;
    for (const TrainingPrecision precision : precisions) names.push_back(name_of(precision));
    assumed_.push_back(fmt::format("precision {}{} (--precision)", fmt::join(names, " and "),
                                   inputs.given ? ", as the file has it" : ""));
  }

  static TrainingPrecision precision_of(const planner::PytorchTraining& given) {
    for (const TrainingPrecision precision :
         {TrainingPrecision::bf16_mixed, TrainingPrecision::fp16_mixed})
      if (given.precision.starts_with(name_of(precision).substr(0, 4))) return precision;
    return TrainingPrecision::fp32;
  }

  /// The file's run with the plan's tokens: its own micro-batch where it says one.
  void set_given(planner::Inputs& inputs) {
    const std::int64_t sequences = planner::sequences_per_rank(inputs.question);
    const eager::TrainingSetup& file = inputs.given->training.setup;
    JobOptions job = job_options();
    job.seq = inputs.job.seq;
    if (options_.sharding.deepspeed) job.precision = options_.job.precision;
    job.tokens_per_batch = options_.job.tokens_per_batch;
    const std::int64_t micro_batches = file.loop.micro_batches;
    job.batch = options_.job.batch.value_or(
        sequences % micro_batches == 0 ? sequences / micro_batches : sequences);
    if (const auto* zero = std::get_if<eager::DeepSpeedSetup>(&file.runtime);
        zero && zero->settings.micro_batch_size > 0 && !options_.job.batch)
      job.batch = zero->settings.micro_batch_size;
    if (inputs.model.step && !options_.job.batch) job.batch = largest_exported_batch(inputs);
    inputs.given = given_of(resolve(job, options_.sharding, options_.place).training);
    if (!options_.job.batch)
      assumed_.push_back(fmt::format("{} is run with micro-batches of {} sequence{} (--batch)",
                                     inputs.given->name, *job.batch, *job.batch == 1 ? "" : "s"));
  }

  /// What the tool's own file does with the plan's tokens, on the plan's ranks.
  void set_run_of_recipe(planner::Inputs& inputs) {
    const RecipeRun& run = *options_.recipe_run;
    JobOptions job = run.job;
    PlaceOptions place = run.place;
    job.tokens_per_batch = options_.job.tokens_per_batch;
    job.accumulate.reset();
    place.world = inputs.question.world;
    try {
      inputs.given = planner::Given{.name = run.file,
                                    .training = resolve_pytorch_scenario({.job = job,
                                                                          .sharding = run.sharding,
                                                                          .pytorch = run.pytorch,
                                                                          .place = place,
                                                                          .gpu = gpu_of(profile_)})
                                                    .training};
    } catch (const Error& error) {
      assumed_.push_back(fmt::format("{} itself has no place: {}", run.file, error.what()));
    }
  }

  void set_allocator(planner::Inputs& inputs) {
    if (only_native(runtimes_) && !options_.has_file())
      return options_.pytorch.refuse_under_native();
    inputs.allocator = allocator_settings(options_.pytorch.allocator, assumed_);
    if (inputs.given) inputs.given->training.allocator = inputs.allocator;
  }

  void set_wishes(planner::Inputs& inputs) const {
    inputs.goals = options_.asked_goals();
    inputs.objective = options_.asked_objective();
    inputs.strategies = options_.asked_strategies();
    inputs.pipelines = options_.asked_pipelines();
    inputs.places = options_.asked_places().value_or(inputs.places);
  }

  void assume(planner::Inputs& inputs) {
    if (!options_.job.seq)
      assumed_.push_back(fmt::format("sequences of {} tokens (--seq)", inputs.job.seq));
    if (!options_.job.optimizer) assumed_.emplace_back("optimizer adamw (--optimizer)");
    if (!options_.job.clip && inputs.job.clip > 0)
      assumed_.push_back(
          fmt::format("gradients are clipped to a norm of {} (--clip)", inputs.job.clip));
    if (!options_.pytorch.dropout && inputs.model.dropout > 0 && !only_native(runtimes_))
      assumed_.push_back(
          fmt::format("dropout up to {} as the config says (--dropout)", inputs.model.dropout));
    assume_kernels(inputs.question.training);
    if (inputs.given)
      for (const std::string& text : inputs.given->training.setup.assumed) assumed_.push_back(text);
    for (const std::string& text : inputs.model.assumed) assumed_.push_back(text);
    inputs.assumed = std::move(assumed_);
  }

  /// What is the same of every way that is not native.
  void assume_kernels(const planner::Training& training) {
    if (training.compiled != CompileScope::none)
      assumed_.push_back(
          fmt::format("every way under PyTorch is compiled: {}{}", name_of(training.compiled),
                      options_.pytorch.compile ? " (--compile)" : ", as the file says"));
    if (training.float8 == eager::parallel::Float8Recipe::none) return;
    assumed_.push_back(fmt::format("linear layers of every way under PyTorch are in float8, {}{}",
                                   name_of(training.float8),
                                   options_.pytorch.float8 ? " (--float8)" : ", as the file says"));
    if (training.compiled == CompileScope::none) assumed_.emplace_back(eager_float8_note);
  }

  const PlanOptions& options_;
  std::vector<int> worlds_;
  HardwareProfile profile_;
  std::vector<Runtime> runtimes_;
  std::vector<std::string> assumed_;
};

/// `--compile weigh` says what eager ways would gain.
void check_weighed(const planner::Inputs& inputs) {
  refuse_if(inputs.question.training.compiled != CompileScope::none, "--compile",
            "weigh ranks eager code, but the file asks for compiled code", "leave --compile out");
  refuse_if(only_native(inputs.question.runtimes) && !inputs.question.torchtitan, "--compile",
            "the native runtime does not use torch.compile", "leave --compile out");
}

}  // namespace

int ranks_of_a_node(const HardwareProfile& profile) {
  return std::max({profile.ranks_per_node, profile.ranks, 1});
}

planner::Inputs resolve_plan(const PlanOptions& options) {
  if (!options.job.model)
    throw Error({.where = "--model",
                 .what = "no model was given",
                 .way_out = "give a Hugging Face folder or config.json"});
  if (options.job.batch && !options.has_file() && !options.recipe_run)
    throw Error({.where = "--batch",
                 .what = "is the micro-batch of your own file, and no file was given",
                 .way_out = "leave it out: all micro-batches are weighed; or give --accelerate or "
                            "--deepspeed"});
  if (!options.job.tokens_per_batch)
    throw Error({.where = "--tokens-per-batch",
                 .what = "the tokens of one optimizer step were not given, and every strategy "
                         "must be asked about the same",
                 .way_out = "give sequences x tokens of a sequence x ranks, as in "
                            "--tokens-per-batch 262144"});
  const std::vector<int> worlds = options.asked_worlds();
  if (worlds.size() > 1 && options.has_file())
    throw Error(
        {.where = "--world",
         .what = fmt::format("a file runs on one number of ranks, not on {}", *options.worlds),
         .way_out = "give one number, or leave the file out"});
  PlanOptions on_most = options;
  if (!worlds.empty()) on_most.place.world = worlds.back();
  const bool weighs_compilation = options.pytorch.compile == "weigh";
  if (weighs_compilation) on_most.pytorch.compile.reset();
  planner::Inputs inputs = Resolver(on_most, worlds).resolve();
  if (weighs_compilation) check_weighed(inputs);
  inputs.weighs_compilation = weighs_compilation;
  return inputs;
}

}  // namespace shardscope
