#include "cli/plan_ground.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "cli/pytorch_prediction.h"
#include "cli/scenario.h"
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

  PlanGround resolve() {
    PlanGround ground = only_native(runtimes_) && !options_.has_file() ? of_native() : of_pytorch();
    ground.question.runtimes = runtimes_;
    ground.question.tokens_per_batch = *options_.job.tokens_per_batch;
    planner::sequences_per_rank(ground.question);
    set_precisions(ground);
    if (options_.has_file()) set_given(ground);
    assume(ground);
    return ground;
  }

 private:
  PlanGround of_native() {
    const Job job = job_of(job_options());
    PlanGround ground{.hardware = hardware_,
                      .job = job,
                      .model = trained_model(job),
                      .config = JsonValue::parse("{}", "")};
    ground.question.world = world_without_file();
    fill_training(ground);
    return ground;
  }

  PlanGround of_pytorch() {
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
    PlanGround ground{.hardware = hardware_,
                      .job = scenario.job,
                      .model = scenario.model,
                      .config = scenario.config};
    ground.question.world = scenario.setup.world;
    ground.question.training = {.loop = scenario.setup.loop,
                                .session = scenario.setup.session,
                                .model = scenario.setup.model,
                                .through_accelerate = true};
    if (options_.has_file()) ground.given = std::move(scenario);
    fill_training(ground);
    return ground;
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

  void fill_training(PlanGround& ground) const {
    if (!options_.job.seq) ground.job.seq = usual_seq(ground.model);
    planner::Training& training = ground.question.training;
    training.length = ground.job.seq;
    training.optimizer = ground.job.optimizer;
    training.clip = ground.job.clip;
  }

  /// Those asked for, else the file's, else those that keep float32 weights.
  void set_precisions(PlanGround& ground) {
    std::vector<TrainingPrecision>& precisions = ground.question.precisions;
    precisions = options_.asked_precisions();
    if (!precisions.empty()) return;
    if (ground.given) {
      precisions = {precision_of(*ground.given)};
    } else if (hardware_.profile.device == "cpu") {
      precisions = {TrainingPrecision::fp32};
    } else {
      precisions = {TrainingPrecision::bf16_mixed, TrainingPrecision::fp32};
    }
    std::vector<std::string_view> names;
    for (const TrainingPrecision precision : precisions) names.push_back(name_of(precision));
    assumed_.push_back(fmt::format("precision {}{} (--precision)", fmt::join(names, " and "),
                                   ground.given ? ", as the file has it" : ""));
  }

  static TrainingPrecision precision_of(const PytorchScenario& given) {
    for (const TrainingPrecision precision :
         {TrainingPrecision::bf16_mixed, TrainingPrecision::fp16_mixed})
      if (given.precision.starts_with(name_of(precision).substr(0, 4))) return precision;
    return TrainingPrecision::fp32;
  }

  /// The file's run with the plan's tokens: its own micro-batch where it says one.
  void set_given(PlanGround& ground) {
    const std::int64_t sequences = planner::sequences_per_rank(ground.question);
    const PytorchScenario& file = *ground.given;
    JobOptions job = job_options();
    job.seq = ground.job.seq;
    if (options_.sharding.deepspeed) job.precision = options_.job.precision;
    job.tokens_per_batch = options_.job.tokens_per_batch;
    const std::int64_t micro_batches = file.setup.loop.micro_batches;
    job.batch = options_.job.batch.value_or(
        sequences % micro_batches == 0 ? sequences / micro_batches : sequences);
    if (const auto* zero = std::get_if<eager::DeepSpeedSetup>(&file.setup.runtime);
        zero && zero->settings.micro_batch_size > 0 && !options_.job.batch)
      job.batch = zero->settings.micro_batch_size;
    ground.given = resolve(job, options_.sharding, options_.place);
    ground.given_name =
        options_.sharding.accelerate ? *options_.sharding.accelerate : *options_.sharding.deepspeed;
    if (!options_.job.batch)
      assumed_.push_back(fmt::format("{} is run with micro-batches of {} sequence{} (--batch)",
                                     ground.given_name, *job.batch, *job.batch == 1 ? "" : "s"));
  }

  void assume(PlanGround& ground) {
    if (!options_.job.seq)
      assumed_.push_back(fmt::format("sequences of {} tokens (--seq)", ground.job.seq));
    if (!options_.job.optimizer) assumed_.emplace_back("optimizer adamw (--optimizer)");
    if (!options_.job.clip && ground.job.clip > 0)
      assumed_.push_back(
          fmt::format("gradients are clipped to a norm of {} (--clip)", ground.job.clip));
    if (!options_.pytorch.dropout && ground.model.dropout > 0 && !only_native(runtimes_))
      assumed_.push_back(
          fmt::format("dropout up to {} as the config says (--dropout)", ground.model.dropout));
    if (ground.given)
      for (const std::string& text : ground.given->setup.assumed) assumed_.push_back(text);
    for (const std::string& text : ground.model.assumed) assumed_.push_back(text);
    ground.assumed = std::move(assumed_);
  }

  const PlanOptions& options_;
  HardwareChoice hardware_;
  std::vector<Runtime> runtimes_;
  std::vector<std::string> assumed_;
};

void drop_precisions(const PlanGround& ground, const PlanOptions& options,
                     planner::Enumeration& all) {
  if (options.job.precision) return;
  for (const TrainingPrecision precision :
       {TrainingPrecision::bf16, TrainingPrecision::fp16_mixed}) {
    const auto& asked = ground.question.precisions;
    if (std::find(asked.begin(), asked.end(), precision) == asked.end())
      all.dropped.push_back({std::string(name_of(precision)),
                             precision == TrainingPrecision::bf16
                                 ? "weights and states in bfloat16 train differently: only where "
                                   "--precision asks for it"
                                 : "needs a loss scaler: only where --precision asks for it"});
  }
}

Prediction predict_native(const planner::Choice& choice, const PlanGround& ground) {
  Scenario scenario{.job = ground.job,
                    .model = ground.model,
                    .strategy = planner::native_strategy(choice, ground.model),
                    .workload = planner::native_workload(choice, ground.question.training),
                    .world = choice.mesh.world()};
  return predict(scenario, ground.hardware.profile);
}

}  // namespace

PlanGround resolve_plan(const PlanOptions& options) {
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

planner::Enumeration choices_of(const PlanGround& ground, const PlanOptions& options, int world) {
  planner::Question question = ground.question;
  question.world = world;
  planner::Enumeration all = planner::enumerate(ground.model, question);
  drop_precisions(ground, options, all);
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

Prediction predict(const planner::Choice& choice, const PlanGround& ground) {
  if (choice.runtime == Runtime::native) return predict_native(choice, ground);
  PytorchScenario scenario{
      .job = ground.job,
      .model = ground.model,
      .config = ground.config,
      .setup = planner::training_setup(choice, ground.model, ground.question.training)};
  scenario.runtime = choice.runtime;
  scenario.strategy = name_of(choice.sharding);
  scenario.precision = name_of(choice.precision);
  scenario.mesh = text_of(choice.mesh);
  return predict(scenario, ground.hardware.profile);
}

int ranks_per_node(const PlanGround& ground) {
  const int per_node = ground.hardware.profile.ranks_per_node;
  return per_node > 0 ? per_node : ground.question.world;
}

planner::WrittenFrom written_from(const PlanGround& ground) {
  return {.job = ground.job, .model = ground.model, .ranks_per_node = ranks_per_node(ground)};
}

}  // namespace shardscope
