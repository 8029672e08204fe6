// Pipelines in the event engine: closed forms of chunks, and schedules of stages played together.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/native/native_schedule.h"
#include "core/native/pipeline_stages.h"
#include "core/native/resolved_strategy.h"
#include "sim/engine/pipeline_timeline.h"
#include "sim/engine/simulate_together.h"
#include "sim/prediction/stage_balance.h"
#include "tests/core/small_models.h"

namespace shardscope {
namespace {

std::vector<Duration> ends_of(const PipelineSetup& setup, const ChunkTime& chunk,
                              Duration transfer = {}) {
  return pipeline_ends(
      pipeline_programs(setup),
      {.chunks = std::vector<ChunkTime>(static_cast<std::size_t>(setup.stages()), chunk),
       .transfer = [=](int, int) { return transfer; }});
}

PipelineSetup setup_of(PipelineScheduleKind kind, int ranks, int stages, int micro_batches) {
  return {.kind = kind,
          .ranks = ranks,
          .stages_per_rank = stages,
          .micro_batches = micro_batches,
          .options = {}};
}

// (m + p - 1) (t_F + t_B): a bubble of (p-1)/(m+p-1). Huang et al. (arXiv:1811.06965), 2.3.
TEST(PipelineTimeline, GpipeAnd1F1BTakeOneChunkMoreForEachHop) {
  for (const auto kind : {PipelineScheduleKind::gpipe, PipelineScheduleKind::one_f_one_b}) {
    for (const int p : {2, 4, 8}) {
      for (const int m : {p, 3 * p}) {
        const auto ends = ends_of(setup_of(kind, p, 1, m), {30_us, 40_us, 20_us});
        EXPECT_EQ(*std::ranges::max_element(ends), Duration{(m + p - 1) * 90'000});
      }
    }
  }
}

// (v m + p - 1) chunks: Narayanan et al. (arXiv:2104.04473), 2.2.2.
TEST(PipelineTimeline, InterleavingShrinksTheBubble) {
  for (const int v : {2, 4}) {
    const auto ends =
        ends_of(setup_of(PipelineScheduleKind::interleaved_1f1b, 4, v, 8), {30_us, 30_us, 30_us});
    EXPECT_EQ(*std::ranges::max_element(ends), Duration{(v * 8 + 3) * 90'000});
  }
}

// m (t_F + t_I + t_W) + (p-1)(t_F + t_I - t_W): Qi et al. (arXiv:2401.10241), table 2.
TEST(PipelineTimeline, Zb1pIdlesForForwardAndInputLessWeight) {
  const auto ends = ends_of(setup_of(PipelineScheduleKind::interleaved_zero_bubble, 4, 1, 16),
                            {40_us, 50_us, 30_us});
  EXPECT_EQ(ends[0], Duration{16 * 120'000 + 3 * 60'000});
}

// Two stages, one micro-batch: forward, transfer, forward, backward, transfer, backward.
TEST(PipelineTimeline, TransfersTakeTheirTime) {
  const auto ends =
      ends_of(setup_of(PipelineScheduleKind::gpipe, 2, 1, 1), {10_us, 20_us, 0_us}, 3_us);
  EXPECT_EQ(ends[0], 66_us);  // 10 + 3 + 10 + 20 + 3 + 20
  EXPECT_EQ(ends[1], 46_us);  // until its gradient has gone
}

// Rank 1 asks for micro-batch 1, which rank 0 sends after 50 us, before it sends micro-batch 0,
// which is there after 10. On channels of their own that arrives after 11; rank 2 then computes for
// 5. On one channel it leaves behind the other, from 51 to 52.
TEST(PipelineTimeline, OfOneChannelSendsInTheOrderOfPosting) {
  const auto act = [](int stage, int micro_batch) {
    return PipelineInstruction{.kind = InstructionKind::act,
                               .action = {ActionKind::forward, stage, micro_batch},
                               .transfers = {}};
  };
  const auto post = [](const Action& action, int peer) {
    return PipelineInstruction{
        .kind = InstructionKind::post, .action = {}, .transfers = {{action, peer}}};
  };
  const PipelineInstruction wait{
      .kind = InstructionKind::wait, .action = {}, .transfers = {}, .posted = 0};
  const std::vector<PipelineProgram> programs{
      {act(0, 1), post({ActionKind::send_forward, 0, 1}, 1)},
      {post({ActionKind::receive_forward, 1, 1}, 0), act(1, 0),
       post({ActionKind::send_forward, 1, 0}, 2)},
      {post({ActionKind::receive_forward, 2, 0}, 1), wait, act(2, 0)}};
  PipelineTimes times{.chunks = {{50_us, {}, {}}, {10_us, {}, {}}, {5_us, {}, {}}},
                      .transfer = [](int, int) { return 1_us; }};
  EXPECT_EQ(pipeline_ends(programs, times).back(), 16_us);
  times.one_channel = true;
  EXPECT_EQ(pipeline_ends(programs, times).back(), 57_us);
}

HardwareProfile machine(const std::string& device) {
  return {.name = "test",
          .device = device,
          .peak = {1e12},
          .memory_bandwidth = {100e9},
          .operation_overhead = 0_us,
          .link = Link{.bandwidth = {10e9}, .latency = 1_us}};
}

std::vector<Schedule> stages(const Model& model, int pipeline, int shard, int micro_batches,
                             const PipelineChoice& choice, HostRole host) {
  const Strategy strategy =
      resolved({.sharding = shard > 1 ? ShardingStrategy::full_shard : ShardingStrategy::no_shard,
                .mesh = {.pipeline = pipeline, .shard = shard}},
               pipeline * shard, "test");
  const Workload workload{.batch = 1, .length = 8, .micro_batches = micro_batches};
  Target target;
  target.host = host;
  std::vector<Schedule> schedules;
  for (int stage = 0; stage < pipeline; ++stage)
    schedules.push_back(native_schedule(
        {.model = model, .strategy = strategy, .workload = workload, .pipeline = choice},
        stage * shard, target));
  return schedules;
}

/// Most buffers of that name that live at once.
int most_alive(const Schedule& schedule, std::string_view name) {
  std::map<std::uint32_t, int> change;
  for (const Buffer& buffer : schedule.buffers) {
    if (schedule.name(buffer) != name) continue;
    ++change[buffer.allocated_by.value];
    --change[buffer.freed_by.value + 1];
  }
  int alive = 0, most = 0;
  for (const auto& [operation, by] : change) most = std::max(most, alive += by);
  return most;
}

// Narayanan et al. (arXiv:2006.09503): what a rank of 1F1B keeps is min(p - rank, m) micro-batches.
TEST(PipelineStages, OneFOneBKeepsAMicroBatchForEachStageFromItsOwnOn) {
  const Model model = testing::small_llama(4);
  for (const int m : {4, 6}) {
    const auto schedules = stages(model, 4, 1, m, {}, HostRole::computes);
    for (int rank = 0; rank < 4; ++rank)
      EXPECT_EQ(most_alive(schedules[static_cast<std::size_t>(rank)],
                           "model.layers." + std::to_string(rank) + ".self_attn.lse"),
                std::min(4 - rank, m))
          << rank;
    const auto all =
        stages(model, 4, 1, m, {.schedule = PipelineScheduleKind::gpipe}, HostRole::computes);
    EXPECT_EQ(most_alive(all[3], "model.layers.3.self_attn.lse"), m);
  }
}

// checkpoint_stop of torch.distributed.pipeline.sync.Pipe: m, m - 1, 0. What runs again exists for
// one micro-batch at a time; of except_last the last one's is kept meanwhile.
TEST(PipelineStages, StagesThatRunAgainKeepTheirInputAlone) {
  const Model model = testing::small_llama(4);
  const auto alive = [&](PipelineCheckpoint checkpoint, std::size_t rank, std::string_view name) {
    const auto schedules =
        stages(model, 2, 1, 4, {.schedule = PipelineScheduleKind::gpipe, .checkpoint = checkpoint},
               HostRole::computes);
    return most_alive(schedules[rank], name);
  };
  for (const auto& [rank, layer] : {std::pair{0, 1}, {1, 3}}) {
    const auto at = static_cast<std::size_t>(rank);
    const std::string lse = "model.layers." + std::to_string(layer) + ".self_attn.lse";
    EXPECT_EQ(alive(PipelineCheckpoint::never, at, lse), 4);
    EXPECT_EQ(alive(PipelineCheckpoint::except_last, at, lse), 2);
    EXPECT_EQ(alive(PipelineCheckpoint::always, at, lse), 1);
  }
  EXPECT_EQ(alive(PipelineCheckpoint::always, 1, "stage 1 input"), 4);
}

TEST(PipelineStages, LayersAreDealtOutEquallyByWorkOrByHand) {
  const Model model = testing::small_gpt2(7);
  EXPECT_EQ(blocks_of_stages(model, {}, 3, "test"), (std::vector{3, 2, 2}));
  PipelineChoice choice;
  choice.layers = {0, 4, 3};
  EXPECT_EQ(blocks_of_stages(model, choice, 3, "test"), choice.layers);
  choice.layers = {4, 0, 3};
  EXPECT_THROW(blocks_of_stages(model, choice, 3, "test"), Error);
  choice.layers = {4, 4, 4};
  EXPECT_THROW(blocks_of_stages(model, choice, 3, "test"), Error);
  EXPECT_THROW(blocks_of_stages(model, {}, 8, "test"), Error);
  // A head of V C = 128 elements beside blocks of 12 C^2 = 768: 4 blocks, and 3 with the head.
  EXPECT_EQ(blocks_of_stages(model, {.balance = StageBalance::work}, 2, "test"),
            (std::vector{4, 3}));
}

TEST(PipelineStages, WhatTakesAPredictionIsNotDealtOutWithoutOne) {
  EXPECT_THROW(blocks_of_stages(testing::small_gpt2(7), {.balance = StageBalance::time}, 2, "test"),
               Error);
}

/// 32 layers of 1 on four ranks, and a head of 3: 35 in all, so no rank can have less than 9.
TEST(StageBalance, ALayerGoesFromTheDearestRankToAnother) {
  const CostsOfLayers costs = [](const std::vector<int>& layers) {
    std::vector<double> result(layers.begin(), layers.end());
    result.back() += 3;
    return PipelineCosts{.ranks = result};
  };
  EXPECT_EQ(balanced_stages({8, 8, 8, 8}, {0, 1, 2, 3}, costs), (std::vector{9, 9, 8, 6}));
}

/// 1F1B keeps p - rank micro-batches: the first rank's layers weigh four times the last one's.
TEST(StageBalance, MemoryOf1F1BGivesLaterStagesMoreLayers) {
  const CostsOfLayers costs = [](const std::vector<int>& layers) {
    return PipelineCosts{
        .ranks = {4.0 * layers[0], 3.0 * layers[1], 2.0 * layers[2], 1.0 * layers[3]}};
  };
  const std::vector<int> layers = balanced_stages({6, 6, 6, 6}, {0, 1, 2, 3}, costs);
  // 24 layers; at most 12 each: 3, 4, 6, 12 are 25, so 12 is reached and 11 (2, 3, 5, 11) is not.
  const std::vector<double> dear = costs(layers).ranks;
  EXPECT_EQ(*std::ranges::max_element(dear), 12);
  EXPECT_EQ(std::accumulate(layers.begin(), layers.end(), 0), 24);
}

/// The ranks cost 3, 2 and 1 in one order or another; the whole is least where the last has most.
TEST(StageBalance, TheWholeCountsBeforeTheRanks) {
  const CostsOfLayers costs = [](const std::vector<int>& layers) {
    return PipelineCosts{.whole = 10.0 - layers[2],
                         .ranks = {1.0 * layers[0], 1.0 * layers[1], 1.0 * layers[2]}};
  };
  EXPECT_EQ(balanced_stages({3, 2, 2}, {0, 1, 2}, costs), (std::vector{2, 2, 3}));
}

/// Two stages a rank, one behind the other: the middle ones keep a layer, the ends need none.
TEST(StageBalance, OnlyTheFirstAndTheLastStageMayHaveNone) {
  const CostsOfLayers costs = [](const std::vector<int>& layers) {
    return PipelineCosts{.ranks = {100.0 + layers[0] + layers[2], 1.0 * (layers[1] + layers[3])}};
  };
  EXPECT_EQ(balanced_stages({2, 2, 2, 2}, {0, 1, 0, 1}, costs), (std::vector{0, 4, 1, 3}));
}

// (p-1)/(v m + p-1) of the step, but for embedding and head: transfers that take no time, one after
// the other, do not hold the stages up.
TEST(PipelineStages, TheBubbleIsThatOfTheClosedForm) {
  HardwareProfile profile = machine("cpu");
  profile.peak = {1e9};
  profile.memory_bandwidth = {1e9};
  profile.link = Link{.bandwidth = {1e15}, .latency = 0_us};
  using enum PipelineScheduleKind;
  for (const auto& [kind, v] :
       {std::pair{gpipe, 1}, {one_f_one_b, 1}, {interleaved_1f1b, 4}, {looped_bfs, 2}}) {
    for (const int m : {4, 8, 16}) {
      const auto schedules = stages(testing::small_llama(16), 4, 1, m,
                                    {.schedule = kind, .stages_per_rank = v}, HostRole::computes);
      double idle = 0;
      for (const Simulation& one : simulate_together(schedules, profile))
        idle += one.accounting.idle.seconds() / one.accounting.span.seconds() / 4;
      EXPECT_NEAR(idle, 3.0 / (v * m + 3), 0.05) << name_of(kind) << ' ' << m;
    }
  }
}

// Two stages of two ranks each, of which one is played: a stage alone is half of the ranks.
TEST(PipelineStages, EachRankThatIsPlayedStandsForItsEqualsOnTheHostsCores) {
  HardwareProfile profile = machine("cpu");
  profile.core_sharing = {{1, 0.25}, {2, 0.5}, {4, 1}};
  const auto schedules = stages(testing::small_llama(4), 2, 2, 2, {}, HostRole::computes);
  EXPECT_EQ(costs_together(schedules, profile).core_sharing, (std::vector{0.5, 1.0}));
}

struct Together {
  std::string device;
  int shard;
  PipelineChoice choice;
};
void PrintTo(const Together& c, std::ostream* out) {
  *out << c.device << ' ' << c.shard << ' ' << name_of(c.choice.schedule);
}

class EveryPipeline : public ::testing::TestWithParam<Together> {
 protected:
  std::vector<Simulation> played() {
    const auto& [device, shard, choice] = GetParam();
    const HardwareProfile profile = machine(device);
    schedules_ = stages(testing::small_llama(8), 4, shard, 4, choice,
                        device == "cpu" ? HostRole::computes : HostRole::issues);
    return simulate_together(schedules_, profile);
  }
  std::vector<Schedule> schedules_;
};

TEST_P(EveryPipeline, AllStagesHaveOneWindowAndTheirTimesAddUpToIt) {
  const std::vector<Simulation> simulations = played();
  for (const Simulation& simulation : simulations) {
    const Accounting& a = simulation.accounting;
    EXPECT_EQ(a.span, a.compute + a.exposed_communication + a.exposed_copy + a.idle);
    EXPECT_EQ(a.span, simulations.front().accounting.span);
    EXPECT_GT(a.compute, 0_ns);
  }
}

TEST_P(EveryPipeline, WhatIsSentIsReceived) {
  const std::vector<Simulation> simulations = played();
  std::vector<Duration> sends, receives;
  for (std::size_t rank = 0; rank < simulations.size(); ++rank) {
    for (const Span& span : simulations[rank].trace.spans) {
      const OperationKind kind = schedules_[rank].at(span.operation).kind;
      if (kind == OperationKind::send) sends.push_back(span.end());
      if (kind == OperationKind::receive) receives.push_back(span.end());
    }
  }
  const int edges = 4 * GetParam().choice.stages_per_rank - 1;
  EXPECT_EQ(sends.size(), static_cast<std::size_t>(2 * edges * 4));  // 4 micro-batches, both ways
  EXPECT_EQ(receives.size(), sends.size());
}

INSTANTIATE_TEST_SUITE_P(
    Schedules, EveryPipeline,
    ::testing::Values(
        Together{"cpu", 1, {}}, Together{"cpu", 2, {}}, Together{"cuda", 1, {}},
        Together{"cuda", 2, {.schedule = PipelineScheduleKind::gpipe}},
        Together{"cpu", 1, {.schedule = PipelineScheduleKind::gpipe}},
        Together{
            "cpu", 2, {.schedule = PipelineScheduleKind::interleaved_1f1b, .stages_per_rank = 2}},
        Together{"cuda", 1, {.schedule = PipelineScheduleKind::looped_bfs, .stages_per_rank = 2}}));

}  // namespace
}  // namespace shardscope
