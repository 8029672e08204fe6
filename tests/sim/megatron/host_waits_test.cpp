// What hosts of published runs wait for.
#include "sim/megatron/host_waits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "sim/cost/cost_model.h"
#include "sim/validate/published_pipeline.h"
#include "sim/validate/published_scenario.h"
#include "tests/sim/program_by_hand.h"

namespace shardscope::testing {
namespace {

using ::testing::ElementsAre;
using Kind = HostActionKind;

/// Two micro-batches: a forward of two operations and a backward of one.
Schedule two_micro_batches() {
  ProgramByHand program;
  program.begin_step("steady");
  for (int i = 0; i < 6; ++i) program.launch(0, 1);
  Schedule schedule = program.finish();
  for (std::size_t i = 0; i < 6; ++i) {
    schedule.operations[i].micro_batch = i < 3 ? 0 : 1;
    schedule.operations[i].phase = i % 3 == 2 ? Phase::backward : Phase::forward;
  }
  return schedule;
}

std::vector<Kind> kinds(const Schedule& schedule) {
  std::vector<Kind> kinds;
  const IndexRange steady = schedule.steps.back().actions;
  for (std::uint32_t i = steady.begin; i < steady.end; ++i)
    kinds.push_back(schedule.program.actions[i].kind);
  return kinds;
}

TEST(PublishedHost, SizesOfABatchAreReadBeforeItsForward) {
  const Schedule schedule = with_host_waits(two_micro_batches(), {.each_micro_batch = true});
  EXPECT_THAT(kinds(schedule),
              ElementsAre(Kind::host_sync, Kind::launch, Kind::launch, Kind::launch,
                          Kind::host_sync, Kind::launch, Kind::launch, Kind::launch));
}

TEST(PublishedHost, BlockingLaunchesEndBeforeTheNext) {
  const Schedule schedule = with_host_waits(two_micro_batches(), {.each_launch = true});
  const std::vector<Kind> all = kinds(schedule);
  ASSERT_EQ(all.size(), 12U);
  for (std::size_t i = 0; i < all.size(); ++i)
    EXPECT_EQ(all[i], i % 2 == 0 ? Kind::launch : Kind::host_sync);
}

/// bigscience's 72 layers of 14,336 columns on TP8 and PP12.
PublishedRow jean_zay(std::int64_t gpus) {
  PublishedRow row{.source = "bigscience-workshop/bigscience train/tr11-176B-ml",
                   .model = "GPT",
                   .gpu = "A100-80GB-SXM",
                   .strategy = "Megatron-DeepSpeed TP8 PP12 DP4 ZeRO-1",
                   .precision = "bf16",
                   .checkpointing = "full",
                   .attention = "unfused"};
  row.hidden = 14336;
  row.layers = 72;
  row.heads = 64;
  row.seq = 2048;
  row.gpus = gpus;
  row.gpus_per_node = 8;
  row.tensor_parallel = 8;
  row.pipeline_parallel = 12;
  row.micro_batch = 2;
  row.global_batch = 2048;
  return row;
}

TEST(PublishedHost, BigScienceBlocksLaunchesOnMoreThan160Gpus) {
  EXPECT_TRUE(published_scenario(jean_zay(384)).waits.each_launch);
  EXPECT_FALSE(published_scenario(jean_zay(96)).waits.each_launch);
  EXPECT_TRUE(published_scenario(jean_zay(96)).waits.each_micro_batch);
}

/// bigscience experiments/bandwidth: NCCL's log names two of four links and no GPUDirect; 40.5
/// Gbit/s went through each of them.
TEST(PublishedHost, JeanZayUsesTwoLinksOfANode) {
  const DividedTraining scenario = published_scenario(jean_zay(384));
  EXPECT_EQ(scenario.profile.interconnect.value().adapters, 2);
  EXPECT_DOUBLE_EQ(scenario.profile.interconnect.value().rate.bytes_per_s, 5.0625e9);
  EXPECT_FALSE(scenario.profile.interconnect.value().gpu_direct);
}

TEST(PublishedHost, DeepSpeedsPipelineDividesWhatItSends) {
  EXPECT_EQ(published_scenario(jean_zay(384)).pipeline.value().divided_over, 8);
}

/// chronicles-prequel.md, "Rebalancing layers": sums in float32 came with embeddings that count as
/// layers. 70 layers and two embeddings make 12 stages, 72 layers do without.
TEST(PublishedHost, BigScienceSumsBfloat16InFloat32WhereEmbeddingsCountAsLayers) {
  PublishedRow row = jean_zay(384);
  const auto reduced_in = [&] { return published_scenario(row).update.value().reduced_in; };
  EXPECT_EQ(reduced_in(), Dtype::bfloat16);
  row.layers = 70;
  EXPECT_EQ(reduced_in(), Dtype::float32);
  row.precision = "fp16";
  EXPECT_EQ(reduced_in(), Dtype::bfloat16);
}

// By hand, without any computing: a forward gathers its input once, and the backward of the stage
// that sent gathers its own output and the gradient. Two messages come with their shapes of 128 B.
TEST(PublishedHost, WhatStagesOfDeepSpeedSendInPartsIsGatheredThreeTimes) {
  const HardwareProfile profile = published_scenario(jean_zay(384)).profile;
  const CostModel model(profile);
  constexpr int parts = 8;
  constexpr Bytes activation{std::int64_t{1} << 24};
  const MegatronPipeline pipeline{.ranks = 2,
                                  .by_deepspeed = true,
                                  .layers = {1, 1},
                                  .activation = activation,
                                  .shared_gradient = {},
                                  .divided_over = parts,
                                  .rank_distance = parts};
  const auto time = [&](OperationKind kind, Bytes bytes, const Ranks& ranks) {
    return model.collectives().cost(kind, bytes, ranks).time;
  };
  const Duration gather = time(OperationKind::all_gather, activation, Ranks::up_to(parts));
  const Ranks neighbours = Ranks::spaced(0, parts, 2);
  const Duration sent = time(OperationKind::send, activation / parts, neighbours) +
                        time(OperationKind::send, Bytes{128}, neighbours);
  EXPECT_EQ(pipelined_step(pipeline, two_micro_batches(), 1, profile, Duration{}),
            gather + gather + gather + sent + sent);
}

}  // namespace
}  // namespace shardscope::testing
