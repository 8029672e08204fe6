// What pipelines cannot fall below, against closed forms of the literature.
#include "sim/planner/pipeline_costs.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/pipeline/compute_order.h"
#include "sim/planner/pipeline_layers.h"

namespace shardscope::planner {
namespace {

using enum PipelineScheduleKind;

PipelineSetup setup_of(PipelineScheduleKind kind, int ranks, int stages, int micro_batches) {
  return {.kind = kind,
          .ranks = ranks,
          .stages_per_rank = stages,
          .micro_batches = micro_batches,
          .options = {}};
}

/// Equal stages: a forward of 30 us and a backward of 60 us.
StageCosts equal_stages(int stages) {
  const auto count = static_cast<std::size_t>(stages);
  return {.chunks = std::vector<ChunkTime>(count, {30_us, 40_us, 20_us}),
          .again = std::vector<Duration>(count, 30_us),
          .kept = std::vector<Bytes>(count, 10_B),
          .launches = std::vector<Duration>(count, 7_us)};
}

double bubble_share(const PipelineSetup& setup) {
  const Duration bound = pipeline_time_bound(setup, equal_stages(setup.stages()), 0);
  const Duration work{90'000 * setup.stages_per_rank * setup.micro_batches};
  return 1 - work.seconds() / bound.seconds();
}

// Huang et al. (arXiv:1811.06965), 2.3: (p-1)/(m+p-1).
TEST(PipelineTimeBound, OfEqualStagesHasTheBubbleOfGpipe) {
  for (const auto kind : {gpipe, one_f_one_b})
    for (const int p : {2, 4, 8})
      for (const int m : {p, 3 * p})
        EXPECT_NEAR(bubble_share(setup_of(kind, p, 1, m)), (p - 1.0) / (m + p - 1), 1e-12)
            << p << ' ' << m;
}

// Narayanan et al. (arXiv:2104.04473), 2.2.2: (p-1)/(v m + p-1).
TEST(PipelineTimeBound, OfInterleavedStagesHasASmallerBubble) {
  EXPECT_NEAR(bubble_share(setup_of(interleaved_1f1b, 4, 2, 8)), 3.0 / (2 * 8 + 3), 1e-12);
}

// Qi et al. (arXiv:2401.10241), table 2: (p-1)(t_F + t_I - t_W) beside the work. The bound knows of
// (p-1) t_F alone: 3 x 30 us of 3 x 50 us.
TEST(PipelineTimeBound, OfAZeroBubbleIsNotAboveItsClosedForm) {
  const PipelineSetup zero_bubble = setup_of(interleaved_zero_bubble, 4, 1, 16);
  const Duration bound = pipeline_time_bound(zero_bubble, equal_stages(4), 0);
  EXPECT_EQ(bound, Duration{16 * 90'000 + 3 * 30'000});
}

// Two stages of 10 + 20 and 40 + 80 us, 3 micro-batches: 10 + 3 x 120 + 20.
TEST(PipelineTimeBound, TheDearestRankDecides) {
  const StageCosts stages{.chunks = {{10_us, 20_us, 0_us}, {40_us, 80_us, 0_us}},
                          .again = {8_us, 40_us},
                          .kept = {},
                          .launches = {1_us, 2_us}};
  EXPECT_EQ(pipeline_time_bound(setup_of(one_f_one_b, 2, 1, 3), stages, 0), 390_us);
  // Two of the three run the last stage's forward again.
  EXPECT_EQ(pipeline_time_bound(setup_of(gpipe, 2, 1, 3), stages, 2), 470_us);
  EXPECT_EQ(pipeline_host_bound(setup_of(gpipe, 2, 1, 3), stages), 6_us);
}

// Narayanan et al. (arXiv:2006.09503): 1F1B's rank r of p keeps min(p - r, m) micro-batches,
// GPipe's all of them.
TEST(KeptInOrder, IsThatOfTheSchedule) {
  for (const int m : {4, 6}) {
    const auto of_1f1b = compute_orders(setup_of(one_f_one_b, 4, 1, m));
    const auto of_gpipe = compute_orders(setup_of(gpipe, 4, 1, m));
    for (int rank = 0; rank < 4; ++rank) {
      const auto at = static_cast<std::size_t>(rank);
      EXPECT_EQ(kept_in_order(of_1f1b[at], equal_stages(4), 0), 10_B * std::min(4 - rank, m));
      EXPECT_EQ(kept_in_order(of_gpipe[at], equal_stages(4), 0), 10_B * m);
    }
  }
}

// Those that run again keep nothing until their backward: one at a time, beside the last one's.
TEST(KeptInOrder, OfStagesThatRunAgainIsOneMicroBatch) {
  const auto orders = compute_orders(setup_of(gpipe, 2, 1, 4));
  EXPECT_EQ(kept_in_order(orders[0], equal_stages(2), 4), 10_B);
  EXPECT_EQ(kept_in_order(orders[0], equal_stages(2), 3), 20_B);
}

// An embedding of 1 + 2 us before, a head of 5 + 7 us behind blocks of 10 + 20 us, the last
// operator of whose forward takes 4 us.
TEST(StageCosts, EndsHaveEmbeddingAndHead) {
  const PartCost block{
      .time = {10_us, 15_us, 5_us}, .last_forward = 4_us, .kept = 3_B, .operations = 9};
  const ModelCosts model{
      .embedding = {.time = {1_us, 2_us, 0_us}, .last_forward = 1_us, .kept = {}},
      .head = {.time = {5_us, 7_us, 0_us}, .last_forward = 5_us, .kept = {}},
      .blocks = {block, block, block},
      .launch = 2_us};
  const StageCosts stages = stage_costs(model, {2, 1});
  EXPECT_EQ(stages.chunks[0].forward, 21_us);
  EXPECT_EQ(stages.chunks[0].input_backward, 32_us);
  EXPECT_EQ(stages.chunks[1].forward, 15_us);
  EXPECT_EQ(stages.chunks[1].weight_backward, 5_us);
  EXPECT_EQ(stages.again[0], 17_us);  // without the operator whose output is sent
  EXPECT_EQ(stages.again[1], 15_us);
  EXPECT_EQ(stages.kept, (std::vector{6_B, 3_B}));
  EXPECT_EQ(stages.launches, (std::vector{36_us, 18_us}));
}

// Eight blocks of 3 us and a head of 6 us: with 5 and 3 blocks both ranks have 15 us a micro-batch.
TEST(LayersByTime, TheHeadTakesTheTimeOfBlocks) {
  const PartCost block{.time = {1_us, 2_us, 0_us}, .last_forward = 1_us, .kept = {}};
  const ModelCosts model{.embedding = {},
                         .head = {.time = {0_us, 6_us, 0_us}, .last_forward = {}, .kept = {}},
                         .blocks = std::vector<PartCost>(8, block)};
  EXPECT_EQ(layers_by_time({4, 4}, setup_of(one_f_one_b, 2, 1, 8), model), (std::vector{5, 3}));
}

}  // namespace
}  // namespace shardscope::planner
