#include "cli/plan_inputs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "cli/allocator_option.h"
#include "cli/native_scenario.h"
#include "cli/pytorch_prediction.h"
#include "core/base/error.h"

namespace shardscope {
namespace {

constexpr std::int64_t usual_length = 2048;
constexpr std::int64_t usual_length_without_positions = 512;

bool only_native(const std::vector<Runtime>& runtimes) {
  return runtimes == std::vector{Runtime::native};
}

std::vector<Runtime> runtimes_of(const PlanOptions& options, const HardwareProfile& profile) {
  std::vector<Runtime> asked = options.asked_runtimes();
  for (std::size_t i = 0; i < asked.size(); ++i)
    if (std::find(asked.begin(), asked.begin() + static_cast<std::ptrdiff_t>(i), asked[i]) !=
        asked.begin() + static_cast<std::ptrdiff_t>(i))
      throw Error(
          {.where = "--runtime", .what = fmt::format("{} stands twice", name_of(asked[i]))});
  if (!asked.empty()) return asked;
  if (profile.device == "cpu" && !options.has_file()) return {Runtime::native};
  return {Runtime::ddp, Runtime::fsdp2, Runtime::fsdp1, Runtime::deepspeed};
}

/// What both the file's run and every candidate are told.
JobOptions shared_options(const PlanOptions& options) {
  JobOptions job = options.job;
  job.strategy = job.precision = std::nullopt;
  job.batch = job.tokens_per_batch = std::nullopt;
  return job;
}

std::int64_t usual_seq(const Model& model) {
  if (!model.decoder) return usual_length_without_positions;
  return std::min(usual_length, model.decoder->max_positions);
}

/// Resolves stage by stage.
class Resolver {
 public:
  explicit Resolver(const PlanOptions& options)
      : options_(options),
        hardware_(require_hardware(options.cluster)),
        runtimes_(runtimes_of(options, hardware_.profile)) {}

  PlanInputs resolve() {
    PlanInputs inputs = only_native(runtimes_) && !options_.has_file() ? of_native() : of_pytorch();
    inputs.question.runtimes = runtimes_;
    inputs.question.tokens_per_batch = *options_.job.tokens_per_batch;
    planner::sequences_per_rank(inputs.question);
    set_precisions(inputs);
    if (options_.has_file()) set_given(inputs);
    set_allocator(inputs);
    inputs.margin = margin_of(options_.margin, hardware_.profile.memory);
    assume(inputs);
    return inputs;
  }

 private:
  PlanInputs of_native() {
    const Job job = job_of(job_options());
    PlanInputs inputs{.hardware = hardware_,
                      .job = job,
                      .model = trained_model(job),
                      .config = JsonValue::parse("{}", "")};
    inputs.question.world = world_without_file();
    fill_training(inputs);
    return inputs;
  }

  PlanInputs of_pytorch() {
    JobOptions job = job_options();
    PlaceOptions place = options_.place;
    ShardingOptions sharding = options_.sharding;
    if (options_.has_file()) {
      if (sharding.deepspeed) job.precision = options_.job.precision;
    } else {
      sharding.runtime = "ddp";
      place.world = world_without_file();
    }
    if (!sharding.ranks_per_node && hardware_.profile.ranks_per_node > 0 && !options_.has_file())
      sharding.ranks_per_node = hardware_.profile.ranks_per_node;
    PytorchScenario scenario = resolve(job, sharding, place);
    if (!options_.job.seq) {
      job.seq = usual_seq(scenario.model);
      scenario = resolve(job, sharding, place);
    }
    PlanInputs inputs{.hardware = hardware_,
                      .job = scenario.job,
                      .model = scenario.model,
                      .config = scenario.config};
    inputs.question.world = scenario.setup.world;
    inputs.question.training = {.loop = scenario.setup.loop,
                                .session = scenario.setup.session,
                                .model = scenario.setup.model,
                                .through_accelerate = true};
    if (options_.has_file()) inputs.given = std::move(scenario);
    fill_training(inputs);
    return inputs;
  }

  JobOptions job_options() const { return shared_options(options_); }

  PytorchScenario resolve(const JobOptions& job, const ShardingOptions& sharding,
                          const PlaceOptions& place) const {
    return resolve_pytorch_scenario({.job = job,
                                     .sharding = sharding,
                                     .pytorch = options_.pytorch,
                                     .place = place,
                                     .gpu = gpu_of(hardware_.profile)});
  }

  int world_without_file() {
    if (options_.place.world) {
      if (*options_.place.world < 1 || *options_.place.world > 1 << 20)
        throw Error(
            {.where = "--world",
             .what = fmt::format("expected 1 to {}, got {}", 1 << 20, *options_.place.world)});
      return static_cast<int>(*options_.place.world);
    }
    const HardwareProfile& profile = hardware_.profile;
    const int world = std::max({profile.ranks_per_node, profile.ranks, 1});
    assumed_.push_back(
        fmt::format("{} rank{}, one node of the cluster (--world)", world, world == 1 ? "" : "s"));
    return world;
  }

  void fill_training(PlanInputs& inputs) const {
    if (!options_.job.seq) inputs.job.seq = usual_seq(inputs.model);
    planner::Training& training = inputs.question.training;
    training.length = inputs.job.seq;
    training.optimizer = inputs.job.optimizer;
    training.clip = inputs.job.clip;
  }

  /// Those asked for, else the file's, else those that keep float32 weights.
  void set_precisions(PlanInputs& inputs) {
    std::vector<TrainingPrecision>& precisions = inputs.question.precisions;
    precisions = options_.asked_precisions();
    if (!precisions.empty()) return;
    if (inputs.given) {
      precisions = {precision_of(*inputs.given)};
    } else if (hardware_.profile.device == "cpu") {
      precisions = {TrainingPrecision::fp32};
    } else {
      precisions = {TrainingPrecision::bf16_mixed, TrainingPrecision::fp32};
    }
    std::vector<std::string_view> names;
    for (const TrainingPrecision precision : precisions) names.push_back(name_of(precision));
    assumed_.push_back(fmt::format("precision {}{} (--precision)", fmt::join(names, " and "),
                                   inputs.given ? ", as the file has it" : ""));
  }

  static TrainingPrecision precision_of(const PytorchScenario& given) {
    for (const TrainingPrecision precision :
         {TrainingPrecision::bf16_mixed, TrainingPrecision::fp16_mixed})
      if (given.precision.starts_with(name_of(precision).substr(0, 4))) return precision;
    return TrainingPrecision::fp32;
  }

  /// The file's run with the plan's tokens: its own micro-batch where it says one.
  void set_given(PlanInputs& inputs) {
    const std::int64_t sequences = planner::sequences_per_rank(inputs.question);
    const PytorchScenario& file = *inputs.given;
    JobOptions job = job_options();
    job.seq = inputs.job.seq;
    if (options_.sharding.deepspeed) job.precision = options_.job.precision;
    job.tokens_per_batch = options_.job.tokens_per_batch;
    const std::int64_t micro_batches = file.setup.loop.micro_batches;
    job.batch = options_.job.batch.value_or(
        sequences % micro_batches == 0 ? sequences / micro_batches : sequences);
    if (const auto* zero = std::get_if<eager::DeepSpeedSetup>(&file.setup.runtime);
        zero && zero->settings.micro_batch_size > 0 && !options_.job.batch)
      job.batch = zero->settings.micro_batch_size;
    inputs.given = resolve(job, options_.sharding, options_.place);
    inputs.given_name =
        options_.sharding.accelerate ? *options_.sharding.accelerate : *options_.sharding.deepspeed;
    if (!options_.job.batch)
      assumed_.push_back(fmt::format("{} is run with micro-batches of {} sequence{} (--batch)",
                                     inputs.given_name, *job.batch, *job.batch == 1 ? "" : "s"));
  }

  void set_allocator(PlanInputs& inputs) {
    if (only_native(runtimes_) && !options_.has_file())
      return options_.pytorch.refuse_under_native();
    inputs.allocator = allocator_settings(options_.pytorch.allocator, assumed_);
    if (inputs.given) inputs.given->allocator = inputs.allocator;
  }

  void assume(PlanInputs& inputs) {
    if (!options_.job.seq)
      assumed_.push_back(fmt::format("sequences of {} tokens (--seq)", inputs.job.seq));
    if (!options_.job.optimizer) assumed_.emplace_back("optimizer adamw (--optimizer)");
    if (!options_.job.clip && inputs.job.clip > 0)
      assumed_.push_back(
          fmt::format("gradients are clipped to a norm of {} (--clip)", inputs.job.clip));
    if (!options_.pytorch.dropout && inputs.model.dropout > 0 && !only_native(runtimes_))
      assumed_.push_back(
          fmt::format("dropout up to {} as the config says (--dropout)", inputs.model.dropout));
    if (inputs.given)
      for (const std::string& text : inputs.given->setup.assumed) assumed_.push_back(text);
    for (const std::string& text : inputs.model.assumed) assumed_.push_back(text);
    inputs.assumed = std::move(assumed_);
  }

  const PlanOptions& options_;
  HardwareChoice hardware_;
  std::vector<Runtime> runtimes_;
  std::vector<std::string> assumed_;
};

void drop_precisions(const PlanInputs& inputs, const PlanOptions& options,
                     planner::Enumeration& all) {
  if (options.job.precision) return;
  for (const TrainingPrecision precision :
       {TrainingPrecision::bf16, TrainingPrecision::fp16_mixed}) {
    const auto& asked = inputs.question.precisions;
    if (std::find(asked.begin(), asked.end(), precision) == asked.end())
      all.dropped.push_back({std::string(name_of(precision)),
                             precision == TrainingPrecision::bf16
                                 ? "weights and states in bfloat16 train differently: only where "
                                   "--precision asks for it"
                                 : "needs a loss scaler: only where --precision asks for it"});
  }
}

Prediction predict_native(const planner::Choice& choice, const PlanInputs& inputs) {
  NativeScenario scenario{.job = inputs.job,
                          .model = inputs.model,
                          .strategy = planner::native_strategy(choice, inputs.model),
                          .workload = planner::native_workload(choice, inputs.question.training),
                          .world = choice.mesh.world()};
  return predict(scenario, inputs.hardware.profile);
}

}  // namespace

PlanInputs resolve_plan(const PlanOptions& options) {
  if (!options.job.model)
    throw Error({.where = "--model",
                 .what = "no model was given",
                 .way_out = "give a Hugging Face folder or config.json"});
  if (!options.job.tokens_per_batch)
    throw Error({.where = "--tokens-per-batch",
                 .what = "the tokens of one optimizer step were not given, and every strategy "
                         "must be asked about the same",
                 .way_out = "give sequences x tokens of a sequence x ranks, as in "
                            "--tokens-per-batch 262144"});
  return Resolver(options).resolve();
}

planner::Enumeration choices_of(const PlanInputs& inputs, const PlanOptions& options, int world) {
  planner::Question question = inputs.question;
  question.world = world;
  planner::Enumeration all = planner::enumerate(inputs.model, question);
  drop_precisions(inputs, options, all);
  const std::vector<ShardingStrategy> asked = options.asked_strategies();
  if (!asked.empty())
    std::erase_if(all.choices, [&](const planner::Choice& choice) {
      return std::find(asked.begin(), asked.end(), choice.sharding) == asked.end();
    });
  if (all.choices.empty())
    throw Error({.where = "--runtime and --strategy",
                 .what = all.dropped.empty()
                             ? "nothing that was asked for is a strategy"
                             : fmt::format("nothing is left to compare: {}: {}",
                                           all.dropped.front().strategy, all.dropped.front().why),
                 .way_out = "ask for more of them"});
  return all;
}

Prediction predict(const planner::Choice& choice, const PlanInputs& inputs) {
  if (choice.runtime == Runtime::native) return predict_native(choice, inputs);
  PytorchScenario scenario{
      .job = inputs.job,
      .model = inputs.model,
      .config = inputs.config,
      .setup = planner::training_setup(choice, inputs.model, inputs.question.training)};
  scenario.runtime = choice.runtime;
  scenario.strategy = name_of(choice.sharding);
  scenario.precision = name_of(choice.precision);
  scenario.mesh = text_of(choice.mesh);
  scenario.allocator = inputs.allocator;
  return predict(scenario, inputs.hardware.profile);
}

int ranks_per_node(const PlanInputs& inputs) {
  const int per_node = inputs.hardware.profile.ranks_per_node;
  return per_node > 0 ? per_node : inputs.question.world;
}

planner::WrittenFrom written_from(const PlanInputs& inputs) {
  return {.job = inputs.job, .model = inputs.model, .ranks_per_node = ranks_per_node(inputs)};
}

}  // namespace shardscope
