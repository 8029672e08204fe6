// Real training of a part of the parameters.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "backend/train/random_weights.h"
#include "core/base/bfloat16.h"
#include "core/model/model_weights.h"
#include "core/model/read_model.h"
#include "core/model/trainable.h"
#include "tests/backend/train/tiny_models.h"
#include "tests/backend/train/training_fixture.h"

namespace shardscope {
namespace {

using Weights = std::map<std::string, std::vector<float>>;

Model model_of(const Job& job) {
  Model model = read_model(job.model, {.class_name = {}, .dtype = Dtype::float32});
  freeze_all_but(model, job.trainable);
  return model;
}

/// Those that the job left.
Weights saved_weights(const Job& job) {
  const Model model = read_model(job.output / "model");
  const ModelWeights saved(job.output / "model", model);
  Weights weights;
  for (std::size_t p = 0; p < model.parameters.size(); ++p) {
    const Parameter& parameter = model.parameters[p];
    std::vector<float>& values = weights[parameter.name];
    values.resize(static_cast<std::size_t>(parameter.elements()));
    saved.read(ParameterId::of(p), 0, values);
  }
  return weights;
}

Weights random_weights(const Job& job) {
  Weights weights;
  for (const Parameter& parameter : model_of(job).parameters) {
    std::vector<float>& values = weights[parameter.name];
    values.resize(static_cast<std::size_t>(parameter.elements()));
    draw(parameter, job.seed, 0, values);
  }
  return weights;
}

/// Bit for bit the frozen ones are as at the start, and each trained one is not.
void expect_only_trained_changed(const Job& job, const Weights& start, const Weights& end) {
  for (const Parameter& parameter : model_of(job).parameters)
    EXPECT_EQ(end.at(parameter.name) == start.at(parameter.name), !parameter.trainable)
        << parameter.name;
}

struct Case {
  std::string_view name;
  std::string_view config;
  int ranks;
  std::vector<std::string> trainable;
  Precision precision = Precision::fp32;
  int accumulate = 1;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name << " on " << c.ranks << " in " << name_of(c.precision);
}

class FrozenTrainingTest : public TrainingFixture {};
class FrozenStrategiesTest : public TrainingFixture, public ::testing::WithParamInterface<Case> {
 protected:
  Job job_of(ShardingStrategy sharding, int ranks) const {
    const Case& c = GetParam();
    Job one =
        job(c.config, ranks, sharding, std::string(name_of(sharding)) + std::to_string(ranks));
    one.steps = 12;
    one.trainable = c.trainable;
    one.accumulate = c.accumulate;
    one.strategy.precision = c.precision;
    return one;
  }
};

TEST_P(FrozenStrategiesTest, GiveBitEqualLossesNormsAndWeights) {
  using enum ShardingStrategy;
  const Case& c = GetParam();
  const Job whole = job_of(no_shard, c.ranks);
  const std::vector<double> metrics = run_forked(whole);
  const Weights weights = saved_weights(whole);
  ASSERT_EQ(metrics.size(), 24U);
  expect_only_trained_changed(whole, random_weights(whole), weights);
  for (const ShardingStrategy sharding :
       {zero1, shard_grad_op, full_shard, hybrid_shard, hybrid_shard_zero2}) {
    // Sums of bfloat16 over shards and then over replicas are rounded twice.
    if (is_hybrid(sharding) && (c.ranks < 4 || c.precision == Precision::bf16)) continue;
    const Job one = job_of(sharding, c.ranks);
    EXPECT_EQ(run_forked(one), metrics) << name_of(sharding);
    EXPECT_EQ(saved_weights(one), weights) << name_of(sharding);
  }
  for (const auto& [sharding, offload] :
       {std::pair(zero1, Offload::optimizer), std::pair(full_shard, Offload::all)}) {
    Job one = job_of(sharding, c.ranks);
    one.strategy.offload = offload;
    EXPECT_EQ(run_forked(one), metrics) << name_of(sharding) << " offload " << name_of(offload);
    EXPECT_EQ(saved_weights(one), weights) << name_of(sharding) << " offload " << name_of(offload);
  }
  const std::vector<double> single = run_forked(job_of(full_shard, 1));
  ASSERT_EQ(single.size(), metrics.size());
  const double rounding = c.precision == Precision::fp32 ? 1e-5 : 0.02;
  for (std::size_t i = 0; i < single.size(); ++i)
    ASSERT_NEAR(single[i], metrics[i], rounding * metrics[i]) << i / 2;
}

INSTANTIATE_TEST_SUITE_P(
    TinyModels, FrozenStrategiesTest,
    ::testing::Values(
        Case{"gpt2 attention and positions", tiny_gpt2, 2, {"attn", "wpe"}},
        Case{"gpt2 biases and the tied embedding", tiny_gpt2, 4, {"bias$", "wte"}},
        Case{"gpt2 biases", tiny_gpt2, 4, {"bias$"}, Precision::bf16_mixed},
        Case{"gpt2 attention", tiny_gpt2, 2, {"attn"}, Precision::bf16, 2},
        Case{"llama queries, values and norms", tiny_llama, 4, {"q_proj", "v_proj", "norm"}},
        Case{"llama queries of the last block", tiny_llama, 2, {"layers.2.*q_proj"}},
        Case{
            "llama head and norms", tiny_llama, 2, {"lm_head", "norm"}, Precision::bf16_mixed, 2}));

TEST_F(FrozenTrainingTest, ReducesEveryMicroBatchToTheSameBits) {
  using enum ShardingStrategy;
  std::vector<std::vector<double>> metrics;
  for (const ShardingStrategy sharding :
       {shard_grad_op, full_shard, hybrid_shard, hybrid_shard_zero2}) {
    Job one = job(tiny_gpt2, 4, sharding, std::string(name_of(sharding)));
    one.steps = 4;
    one.accumulate = 3;
    one.trainable = {"attn"};
    one.strategy.reduce_every_micro_batch = true;
    metrics.push_back(run_forked(one));
  }
  ASSERT_EQ(metrics[0].size(), 8U);
  EXPECT_EQ(metrics[1], metrics[0]);
  EXPECT_EQ(metrics[2], metrics[0]);
}

// One step of plain SGD moves each weight by rate * gradient. So the norm of the move is that of
// the gradients of what moved.
TEST_F(FrozenTrainingTest, TheNormIsOfTrainedParametersOnly) {
  const auto run = [&](const char* output, std::vector<std::string> trainable) {
    Job one = job(tiny_gpt2, 2, ShardingStrategy::full_shard, output);
    one.steps = 1;
    one.clip = 0;
    one.trainable = std::move(trainable);
    one.optimizer = {.kind = OptimizerKind::sgd, .momentum = 0, .weight_decay = 0};
    one.learning_rate = {.kind = LearningRate::Kind::constant, .peak = 0.5};
    const std::vector<double> metrics = run_forked(one);
    const Weights start = random_weights(one), end = saved_weights(one);
    double squares = 0;
    for (const auto& [name, values] : start)
      for (std::size_t i = 0; i < values.size(); ++i)
        squares += std::pow((end.at(name)[i] - values[i]) / 0.5, 2);
    EXPECT_NEAR(metrics[1], std::sqrt(squares), 1e-4 * metrics[1]);
    return metrics[1];
  };
  EXPECT_LT(run("part", {"attn"}), 0.9 * run("all", {}));
}

// Pretrained weights in float32 that are computed with in bfloat16.
TEST_F(FrozenTrainingTest, SavesFrozenWeightsBitForBitInEveryPrecision) {
  Job first = job(tiny_llama, 1, ShardingStrategy::no_shard, "first");
  first.steps = 2;
  run_forked(first);
  const Weights start = saved_weights(first);
  const std::vector<float>& frozen = start.at("model.layers.0.mlp.up_proj.weight");
  EXPECT_NE(to_float(to_bfloat16(frozen[0])), frozen[0]);
  for (const Precision precision : {Precision::fp32, Precision::bf16_mixed, Precision::bf16}) {
    Job next = job(tiny_llama, 2, ShardingStrategy::full_shard, std::string(name_of(precision)));
    next.model = first.output / "model";
    next.weights = StartWeights::pretrained;
    next.trainable = {"layers.0.self_attn", "lm_head"};
    next.strategy.precision = precision;
    next.steps = 3;
    run_forked(next);
    SCOPED_TRACE(name_of(precision));
    expect_only_trained_changed(next, start, saved_weights(next));
  }
}

}  // namespace
}  // namespace shardscope
