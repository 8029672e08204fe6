// A rank's part of a model, what its group sums over, and Megatron's update: counted by hand.
#include "sim/validate/published_tensor_parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "core/pytorch/runtimes/training/recorded_schedule.h"
#include "sim/validate/published_scenario.h"
#include "sim/validate/published_update.h"

namespace shardscope::testing {
namespace {

/// Two layers of 64 columns and 4 heads on two groups of two ranks, 16 tokens a micro-batch.
PublishedRow small_row() {
  PublishedRow row{.source = "a/b",
                   .model = "GPT",
                   .gpu = "A100-80GB-SXM",
                   .strategy = "Megatron-DeepSpeed 3D TP2 DP2 PP1 1F1B",
                   .precision = "fp16",
                   .checkpointing = "full"};
  row.hidden = 64;
  row.layers = 2;
  row.heads = 4;
  row.seq = 16;
  row.gpus = 4;
  row.tensor_parallel = 2;
  row.micro_batch = 1;
  row.global_batch = 2;
  return row;
}

Schedule schedule_of(const PublishedScenario& scenario) {
  return eager::recorded_schedule(scenario.played.model, scenario.played.config, scenario.setup);
}

TEST(PublishedTensorParallel, ARankHoldsItsHeadsColumnsAndTokens) {
  const PublishedScenario scenario = published_scenario(small_row());
  // A layer: norms 2 x 128, qkv 64 x 96 + 96, out 32 x 64 + 64, up 64 x 128 + 128, down 128 x 64 +
  // 64. Around them: 25,152 of 50,304 tokens and 16 positions of 64, and the last norm.
  constexpr std::int64_t layer = 256 + 6240 + 2112 + 8320 + 8256;
  EXPECT_EQ(scenario.played.model.parameter_elements(), 2 * layer + 25'152 * 64 + 16 * 64 + 128);
  EXPECT_EQ(scenario.world, 2);
  EXPECT_EQ(scenario.tokens_per_step, 32);
}

TEST(PublishedTensorParallel, SumsAreThoseOfMegatron) {
  const PublishedScenario scenario = published_scenario(small_row());
  const Schedule plain = schedule_of(scenario);
  const Schedule schedule = with_tensor_parallel(plain, scenario.tensor);
  std::map<std::int64_t, int> sums;  // by bytes
  for (std::size_t i = plain.operations.size(); i < schedule.operations.size(); ++i) {
    const Operation& op = schedule.operations[i];
    EXPECT_EQ(op.kind, OperationKind::all_reduce);
    const Group& group = schedule.groups[schedule.collectives[op.detail].group.value];
    EXPECT_EQ(group.ranks, Ranks::up_to(2));
    ++sums[op.bytes.count];
  }
  // 16 tokens of 64 in 16 bits: the embedding; of each layer two in the forward, two where it runs
  // again, two in the backward; the head's backward. The loss: three of 16 tokens in float32.
  EXPECT_THAT(sums, ::testing::ElementsAre(std::pair{16 * 4, 3}, std::pair{16 * 64 * 2, 14}));
}

/// Four GPUs in groups of two that share sequences of 16 tokens: each has 8 of them.
TEST(PublishedContextParallel, ARankHasItsPartOfASequence) {
  PublishedRow row = small_row();
  row.strategy = "DDP+dist.optimizer TP1 PP1 CP2";
  row.tensor_parallel = 1;
  row.precision = "bf16";
  EXPECT_EQ(why_not_predicted(row), "");
  const PublishedScenario scenario = published_scenario(row);
  EXPECT_EQ(scenario.setup.loop.length, 8);
  EXPECT_EQ(scenario.context, 2);
  EXPECT_EQ(scenario.world, 4);             // that reduce gradients
  EXPECT_EQ(scenario.tokens_per_step, 32);  // two sequences of 16
  row.strategy = "FSDP2 1 x CP 3";
  EXPECT_EQ(why_not_predicted(row), "context parallelism: 4 GPUs in groups of 3");
}

TEST(PublishedFloat8, IsAsItsStackCasts) {
  PublishedRow row = small_row();
  row.gpu = "H100-80GB-SXM";
  row.tensor_parallel = 1;
  row.strategy = "DDP+dist.optimizer TP1 PP1 CP1";
  row.precision = "FP8-CS";
  row.attention = "TE/cuDNN flash";
  const PublishedScenario megatron = published_scenario(row);
  EXPECT_EQ(megatron.float8.casts, Float8Casts::current);
  EXPECT_FALSE(megatron.float8.casts_weights);
  EXPECT_EQ(megatron.kernels.attention, AttentionLibrary::cudnn);
  row.source = "pytorch/torchtitan";
  row.strategy = "FSDP2 full shard";
  row.precision = "float8 rowwise";
  const PublishedScenario titan = published_scenario(row);
  EXPECT_EQ(titan.float8.casts, Float8Casts::compiled);
  EXPECT_FALSE(titan.float8.gathers_casts);
  EXPECT_TRUE(titan.float8.casts_weights);
  row.precision = "NVFP4";
  EXPECT_EQ(why_not_predicted(row), "FP8: precision \"NVFP4\"");
}

TEST(PublishedTensorParallel, OtherGroupsAreSpreadOut) {
  Schedule schedule;
  schedule.groups.push_back({.name = "world", .ranks = Ranks::up_to(3)});
  schedule.steps.push_back({.label = "steady"});
  schedule = with_tensor_parallel(std::move(schedule), {.ranks = 4, .tokens = 1, .hidden = 1});
  EXPECT_THAT(schedule.groups[0].ranks.list(), ::testing::ElementsAre(0, 4, 8));
}

TEST(PublishedTensorParallel, WhatDoesNotDivideIsNotPredicted) {
  PublishedRow row = small_row();
  row.heads = 3;
  EXPECT_EQ(why_not_predicted(row), "tensor parallelism: 3 heads on 2 ranks");
  row = small_row();
  row.gpus = 3;
  EXPECT_EQ(why_not_predicted(row), "tensor parallelism: 3 GPUs in groups of 2");
  row = small_row();
  row.tensor_parallel.reset();
  EXPECT_EQ(why_not_predicted(row), "tensor parallelism: tp not stated");
}

/// A terabyte a second, and nothing else.
HardwareProfile plain_device() {
  HardwareProfile profile;
  profile.peak = {1e15};
  profile.memory_bandwidth = {1e12};
  return profile;
}

TEST(PublishedUpdate, ReadsAndWritesFiftyTwoBytesOfAnElement) {
  // Copy 2 + 4, unscale 4 + 4, norm 4, Adam 16 + 12, copy back 4 + 2: 52 GB at 1 TB/s.
  const MegatronUpdate update{.elements = 1'000'000'000, .tensors = 10};
  EXPECT_NEAR(megatron_update_time(update, plain_device()).seconds(), 0.052, 1e-6);
  // A quarter of it where states are sharded over four; nothing is sent within one rank.
  MegatronUpdate sharded = update;
  sharded.shards = 4;
  EXPECT_NEAR(megatron_update_time(sharded, plain_device()).seconds(), 0.013, 1e-6);
}

TEST(PublishedUpdate, LaunchesACopyForEachTensor) {
  HardwareProfile profile = plain_device();
  profile.host = HostCosts{.operation = 10_us, .view = 1_us};
  // 1,000 tensors of 1,000 elements: the copies take 6 us on the device and 10 ms to launch.
  const MegatronUpdate update{.elements = 1'000'000, .tensors = 1000};
  EXPECT_NEAR(megatron_update_time(update, profile).seconds(), 0.010 + 46e-6, 1e-6);
}

}  // namespace
}  // namespace shardscope::testing
