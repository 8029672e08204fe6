#include "tests/recordings/training_run.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "backend/comm/single/communicator.h"
#include "backend/train/save_model.h"
#include "backend/train/train.h"
#include "backend/train/trainer.h"
#include "core/base/error.h"
#include "core/model/model_weights.h"
#include "core/model/read_model.h"
#include "tests/backend/comm/forked_ranks.h"
#include "tests/backend/train/temporary_folder.h"
#include "tests/recordings/ops_device.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;

Optimizer optimizer_of(const Json& recorded) {
  Optimizer optimizer;
  optimizer.kind = parse_optimizer(recorded.at("kind").get<std::string>(), "optimizer.kind");
  optimizer.weight_decay = recorded.at("weight_decay").get<double>();
  if (optimizer.kind == OptimizerKind::adamw) {
    optimizer.beta1 = recorded.at("betas").at(0).get<double>();
    optimizer.beta2 = recorded.at("betas").at(1).get<double>();
    optimizer.epsilon = recorded.at("eps").get<double>();
  } else {
    optimizer.momentum = recorded.value("momentum", 0.0);
    optimizer.nesterov = recorded.value("nesterov", false);
  }
  return optimizer;
}

LearningRate learning_rate_of(const Json& recorded) {
  return {.kind = parse_learning_rate_kind(recorded.at("kind").get<std::string>(), "lr.kind"),
          .peak = recorded.at("peak").get<double>(),
          .min = recorded.value("min", 0.0),
          .warmup = recorded.value("warmup", std::int64_t{0}),
          .total = recorded.value("total", std::int64_t{0})};
}

void read_metrics(const std::filesystem::path& path, TrainingResult& result) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const Json step = Json::parse(line);
    result.loss.push_back(step.at("loss").get<double>());
    result.gradient_norm.push_back(step.at("gradient_norm").get<double>());
    result.learning_rate.push_back(step.at("learning_rate").get<double>());
  }
}

void read_parameters(const std::filesystem::path& folder, TrainingResult& result) {
  const Model model = read_model(folder);
  const ModelWeights weights(folder, model);
  for (std::size_t i = 0; i < model.parameters.size(); ++i) {
    std::vector<float>& values = result.parameters[model.parameters[i].name];
    values.resize(static_cast<std::size_t>(model.parameters[i].elements()));
    weights.read(ParameterId::of(i), 0, values);
  }
}

}  // namespace

Job training_job(const std::filesystem::path& root, const Json& recorded) {
  Job job;
  job.model = root / "models" / recorded.at("model").get<std::string>();
  job.weights = StartWeights::pretrained;
  job.data = {root / "tokens" / (recorded.at("tokens").get<std::string>() + ".bin")};
  job.token_format = TokenFormat::uint16;
  job.token_start = recorded.value("token_start", std::int64_t{0});
  job.steps = recorded.at("steps").get<std::int64_t>();
  job.batch = recorded.at("batch").get<std::int64_t>();
  job.seq = recorded.at("seq").get<std::int64_t>();
  job.accumulate = recorded.at("accum").get<int>();
  job.optimizer = optimizer_of(recorded.at("optimizer"));
  job.learning_rate = learning_rate_of(recorded.at("lr"));
  job.clip = recorded.at("clip").is_null() ? 0 : recorded.at("clip").get<double>();
  if (recorded.contains("trainable") && !recorded.at("trainable").is_null()) {
    job.trainable = recorded.at("trainable").get<std::vector<std::string>>();
  }
  job.threads = 1;
  job.check = true;
  return job;
}

namespace {

TrainingResult run_here(Job job, Device& device) {
  job.check = false;  // of the host's memory only
  const std::unique_ptr<Communicator> world = make_single_communicator(device.memory());
  Trainer trainer(job, *world, device);
  TrainingResult result;
  for (std::int64_t step = 0; step < job.steps; ++step) {
    const StepMetrics metrics = trainer.run_step().metrics;
    result.loss.push_back(metrics.loss);
    result.gradient_norm.push_back(metrics.gradient_norm);
    result.learning_rate.push_back(metrics.learning_rate);
  }
  save_model(job.output / "model", job.model, trainer, *world);
  read_parameters(job.output / "model", result);
  return result;
}

}  // namespace

TrainingResult run_training(Job job, const OwnRun& run) {
  if (job.batch % (run.data_parallel() * run.split) != 0) {
    throw Error({.where = "batch",
                 .what = fmt::format("{} sequences do not divide among {} ranks and {} parts",
                                     job.batch, run.data_parallel(), run.split),
                 .way_out = {}});
  }
  job.batch /= run.data_parallel() * run.split;
  job.accumulate *= run.split;
  job.ranks = run.world;
  if (run.pipeline) {
    job.strategy.mesh = {.pipeline = run.world};
    job.pipeline = {.schedule = *run.pipeline, .stages_per_rank = run.stages_per_rank};
  }
  job.strategy.sharding = run.sharding;
  job.strategy.checkpointing = run.checkpointing ? full_checkpointing : Checkpointing{};
  job.strategy.precision = run.precision;
  job.strategy.reduce_every_micro_batch = run.reduce_every_micro_batch;
  const TemporaryFolder folder;
  job.output = folder.path();
  if (uses_other_device()) return run_here(std::move(job), device_in_use());
  const auto outcomes = shardscope::testing::run_ranks(
      run.world,
      [&](const Environment& environment) { return train(job, environment, {.quiet = true}); });
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    if (outcomes[rank] == shardscope::testing::RankOutcome{}) continue;
    throw Error({.where = fmt::format("rank {} of {}", rank, run.world),
                 .what = fmt::format("exit code {}, signal {}: {}", outcomes[rank].exit_code,
                                     outcomes[rank].signal, outcomes[rank].message),
                 .way_out = {}});
  }
  TrainingResult result;
  read_metrics(folder.path() / "metrics.jsonl", result);
  read_parameters(folder.path() / "model", result);
  return result;
}

}  // namespace shardscope::recordings
