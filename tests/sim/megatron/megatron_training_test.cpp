// Settings of Megatron-LM beside published rows of the same runs: both are played alike.
#include "sim/megatron/training.h"

#include <gtest/gtest.h>

#include "sim/megatron/divided_step.h"
#include "sim/validate/published_scenario.h"

namespace shardscope::testing {
namespace {

using megatron::Recompute;
using megatron::Settings;

PublishedRow row_of(std::string strategy) {
  PublishedRow row;
  row.source = "NVIDIA/Megatron-LM";
  row.model = "GPT 1.7B";
  row.gpu = "A100-80GB";
  row.strategy = std::move(strategy);
  row.precision = "bf16";
  row.checkpointing = "none";
  row.attention = "flash";
  row.hidden = 2304;
  row.layers = 8;
  row.heads = 24;
  row.ffn = 4 * 2304;
  row.vocabulary = 51200;
  row.seq = 1024;
  row.gpus = 16;
  row.micro_batch = 2;
  row.global_batch = 64;
  return row;
}

Settings settings_of(const PublishedRow& row) {
  Settings s;
  s.shape = {.family = "gpt2",
             .hidden = *row.hidden,
             .layers = *row.layers,
             .heads = *row.heads,
             .kv_heads = row.kv_heads.value_or(*row.heads),
             .ffn = *row.ffn,
             .vocabulary = *row.vocabulary,
             .seq = *row.seq,
             .head_size = *row.hidden / *row.heads};
  s.attention = megatron::Attention::flash;
  s.hidden_dropout = s.attention_dropout = 0;
  s.world = static_cast<int>(*row.gpus);
  s.tensor = static_cast<int>(row.tensor_parallel.value_or(1));
  s.pipeline = static_cast<int>(row.pipeline_parallel.value_or(1));
  s.micro_batch = *row.micro_batch;
  s.global_batch = *row.global_batch;
  return s;
}

void expect_same(const PublishedRow& row, const Settings& settings) {
  ASSERT_EQ(why_not_predicted(row), "");
  megatron::check(settings, {.otherwise = "settings"});
  const DividedTraining published = published_scenario(row);
  const DividedTraining training = megatron_training(settings, published.profile);
  EXPECT_EQ(training.tokens_per_step, published.tokens_per_step);
  EXPECT_EQ(training.played.model.parameter_elements(),
            published.played.model.parameter_elements());
  EXPECT_EQ(predicted_step(training).time, predicted_step(published).time);
  EXPECT_EQ(played_step(training).step.time, predicted_step(published).time);
}

TEST(MegatronTraining, IsAPublishedRunOfTensorParallelStages) {
  PublishedRow row = row_of("Megatron TP4 PP2 + SP");
  row.tensor_parallel = 4;
  row.pipeline_parallel = 2;
  row.checkpointing = "selective";
  Settings s = settings_of(row);
  s.sequence_parallel = true;
  s.recompute = Recompute::selective;
  expect_same(row, s);
}

TEST(MegatronTraining, IsAPublishedRunOfTheDistributedOptimizer) {
  const PublishedRow row = row_of("dist.optimizer");
  Settings s = settings_of(row);
  s.distributed_optimizer = s.overlaps_gradients = s.overlaps_parameters = true;
  expect_same(row, s);
}

TEST(MegatronTraining, IsAPublishedRunOfVirtualStages) {
  PublishedRow row = row_of("dist.optimizer PP4 VP2");
  row.pipeline_parallel = 4;
  row.checkpointing = "full";
  Settings s = settings_of(row);
  s.stages_per_rank = 2;
  s.recompute = Recompute::full;
  s.distributed_optimizer = s.overlaps_gradients = s.overlaps_parameters = true;
  expect_same(row, s);
}

TEST(MegatronTraining, IsAPublishedRunOfContextParallelismInFp8) {
  PublishedRow row = row_of("dist.optimizer CP2 TP2");
  row.model = "Llama";
  row.gpu = "H100";
  row.tensor_parallel = 2;
  row.kv_heads = 8;
  row.attention = "TE";
  row.precision = "fp8";
  Settings s = settings_of(row);
  s.shape.family = "llama";
  s.gated = true;
  s.positions = megatron::Positions::rotary;
  s.tied = false;
  s.attention = megatron::Attention::engine;
  s.context = 2;
  s.float8 = megatron::Float8::delayed;
  s.distributed_optimizer = s.overlaps_gradients = s.overlaps_parameters = true;
  expect_same(row, s);
}

TEST(MegatronTraining, IsAPublishedRunOfExperts) {
  PublishedRow row = row_of("Megatron-LM EP4 dist.optimizer");
  row.model = "Mixtral";
  row.gpu = "H100";
  row.kv_heads = 8;
  row.experts = ExpertShape{.experts = 8, .chosen = 2, .inner = 4096};
  Settings s = settings_of(row);
  s.shape.family = "mixtral";
  s.shape.experts = *row.experts;
  s.gated = true;
  s.positions = megatron::Positions::rotary;
  s.tied = false;
  s.expert = 4;
  s.distributed_optimizer = s.overlaps_gradients = s.overlaps_parameters = true;
  expect_same(row, s);
}

}  // namespace
}  // namespace shardscope::testing
