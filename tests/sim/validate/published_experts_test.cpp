// Mixtures of experts of published runs: their words, a rank's part, its exchanges and its update,
// counted by hand.
#include "sim/validate/published_experts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "core/pytorch/runtimes/training/recorded_schedule.h"
#include "sim/validate/published_scenario.h"

namespace shardscope::testing {
namespace {

TEST(PublishedExperts, AreReadFromTheColumnOfFeedForwardLayers) {
  const ExpertShape qwen{.experts = 128, .chosen = 8, .inner = 768};
  EXPECT_EQ(stated_experts("768 x 128 experts, top-8"), qwen);
  EXPECT_EQ(stated_experts("11008"), std::nullopt);
  EXPECT_EQ(stated_experts("768 x 128 experts"), std::nullopt);
  EXPECT_EQ(stated_experts("768 x 8 experts, top-9"), std::nullopt);
  EXPECT_EQ(stated_experts("768 x 9999 experts, top-8"), std::nullopt);
}

TEST(PublishedExperts, AreKnownByTheModelsName) {
  PublishedRow row{.model = "deepseekv3 (4-layer cut)"};
  row.layers = 4;
  fill_known_mixture(row);
  EXPECT_EQ(row.hidden, 7168);
  EXPECT_EQ(row.layers, 4);
  EXPECT_EQ(row.experts.value().experts, 256);
  EXPECT_EQ(row.experts.value().dense_layers, 1);  // of 3 that the whole model has
  EXPECT_EQ(row.latents.value().rank, 512);
  PublishedRow stated{.model = "deepseekv3"};
  stated.hidden = 64;
  fill_known_mixture(stated);
  EXPECT_FALSE(stated.experts.has_value());
}

/// Two layers of 64 columns, one of them with 8 experts of 48 columns, on eight GPUs: 16 tokens a
/// rank, 2 experts a token, 2 experts a rank.
PublishedRow small_mixture() {
  PublishedRow row{.source = "a/b",
                   .model = "mixture",
                   .gpu = "A100-80GB-SXM",
                   .strategy = "Megatron-LM TP1 PP1 DP8 EP4 ZeRO-1 (dist. optimizer)",
                   .precision = "bf16"};
  row.hidden = 64;
  row.layers = 2;
  row.heads = 4;
  row.ffn = 96;
  row.seq = 16;
  row.vocabulary = 1000;
  row.gpus = 8;
  row.micro_batch = 1;
  row.global_batch = 16;
  row.experts = {.experts = 8, .chosen = 2, .inner = 48, .shared = 1, .dense_layers = 1};
  row.latents = {.query_rank = 24, .rank = 16, .plain = 16, .rotary = 8, .value = 16};
  return row;
}

TEST(PublishedExperts, ARankHoldsItsShareOfThem) {
  ASSERT_EQ(why_not_predicted(small_mixture()), "");
  const DividedTraining scenario = published_scenario(small_mixture());
  // Queries 64 x 24 + 24 and 24 x 96, keys and values 64 x 24 + 16 and 16 x 128, out 64 x 64; two
  // norms. The first layer: 3 x 64 x 96. The second: 2 experts and a shared one of 3 x 64 x 48, and
  // the router of 2 x 64. Around them embedding and head of 1,000 x 64, and the last norm.
  constexpr std::int64_t attention = 1536 + 24 + 2304 + 1536 + 16 + 2048 + 4096 + 128;
  constexpr std::int64_t expert = 9216;
  EXPECT_EQ(scenario.played.model.parameter_elements(),
            2 * attention + 18'432 + 3 * expert + 128 + 128'000 + 64);
  ASSERT_TRUE(scenario.update.has_value());
  EXPECT_EQ(scenario.update->experts.elements, 2 * expert);
  EXPECT_EQ(scenario.update->experts.data_ranks, 2);
  EXPECT_EQ(scenario.update->experts.rank_distance, 4);
  EXPECT_EQ(scenario.update->experts.shards, 2);  // of its states: 8 ranks in groups of 4
  EXPECT_EQ(scenario.update->elements, scenario.played.model.parameter_elements() - 2 * expert);
}

// Without ZeRO-1 each rank updates all that it holds, experts included.
TEST(PublishedExperts, StatesOfReplicatedOnesAreNotSharded) {
  PublishedRow row = small_mixture();
  row.strategy = "Megatron-LM TP1 PP1 DP8 EP4";
  ASSERT_EQ(why_not_predicted(row), "");
  const MegatronUpdate update = published_scenario(row).update.value();
  EXPECT_EQ(update.shards, 1);
  EXPECT_EQ(update.experts.shards, 1);
  EXPECT_EQ(update.experts.data_ranks, 2);
}

/// Four ranks with two experts each, and four experts a token: all rows of the four that a rank
/// sends come back as rows of its two.
TEST(PublishedExperts, MayBeFewerOnARankThanATokenHas) {
  PublishedRow row = small_mixture();
  row.experts->chosen = 4;
  ASSERT_EQ(why_not_predicted(row), "");
  const DividedTraining scenario = published_scenario(row);
  EXPECT_EQ(scenario.experts.rows, 16 * 4);
  EXPECT_EQ(scenario.update.value().experts.elements, 2 * 9216);
  row.experts->chosen = 2;
  const DividedTraining fewer = published_scenario(row);
  // The router of the played experts is larger, 4 x 64 in the place of 2 x 64.
  EXPECT_EQ(scenario.update->elements, fewer.update.value().elements + 2 * 64);
}

/// By kind: how many operations of how many bytes.
using Counts = std::map<std::int64_t, int>;

struct Exchanges {
  Counts all_to_all, all_gather, sorted;
  int waits = 0;
};

Exchanges exchanges_of(const DividedTraining& scenario) {
  const Schedule plain =
      eager::recorded_schedule(scenario.played.model, scenario.played.config, scenario.setup);
  const Schedule schedule = with_expert_parallel(plain, scenario.experts);
  Exchanges found;
  for (std::size_t i = plain.operations.size(); i < schedule.operations.size(); ++i) {
    const Operation& op = schedule.operations[i];
    if (op.kind == OperationKind::all_to_all) ++found.all_to_all[op.bytes.count];
    if (op.kind == OperationKind::all_gather) ++found.all_gather[op.bytes.count];
    if (op.kind == OperationKind::compute) ++found.sorted[op.bytes.count];
    if (!is_collective(op.kind)) continue;
    const Group& group = schedule.groups[schedule.collectives[op.detail].group.value];
    EXPECT_EQ(group.ranks, Ranks::up_to(4));
  }
  const auto waits = [](const Schedule& of) {
    return std::ranges::count(of.program.actions, HostActionKind::host_sync, &HostAction::kind);
  };
  found.waits = static_cast<int>(waits(schedule) - waits(plain));
  return found;
}

TEST(PublishedExperts, RowsAreExchangedAroundThem) {
  const Exchanges found = exchanges_of(published_scenario(small_mixture()));
  // 16 tokens, two experts each, 64 columns in 16 bits: there and back, forward and backward, and
  // as often sorted. The host learns how many rows come.
  constexpr std::int64_t rows = 16LL * 2 * 64 * 2;
  EXPECT_EQ(found.all_to_all, (Counts{{rows, 4}}));
  EXPECT_EQ(found.sorted, (Counts{{2 * rows, 4}}));
  EXPECT_EQ(found.all_gather, (Counts{{4 * 8, 1}}));
  EXPECT_EQ(found.waits, 1);
}

TEST(PublishedExperts, PaddedOnesNeedNoCounts) {
  PublishedRow row = small_mixture();
  row.source = "MooreThreads/SimuMax";
  const Exchanges found = exchanges_of(published_scenario(row));
  EXPECT_TRUE(found.all_gather.empty());
  EXPECT_EQ(found.waits, 0);
}

TEST(PublishedExperts, SayWhatCannotBeDivided) {
  PublishedRow row = small_mixture();
  row.experts->experts = 6;
  EXPECT_EQ(why_not_predicted(row), "expert parallelism: experts do not divide");
  row.experts.reset();
  EXPECT_EQ(why_not_predicted(row), "expert parallelism: experts not stated");
}

TEST(PublishedUpdate, ExpertsAreUpdatedByTheirOwnRanks) {
  HardwareProfile profile;
  profile.peak = {1e15};
  profile.memory_bandwidth = {1e12};
  // 52 bytes of an element: 1 billion of experts in whole, a quarter of 4 billion.
  MegatronUpdate update{.elements = 4'000'000'000,
                        .tensors = 10,
                        .shards = 4,
                        .experts = {.elements = 1'000'000'000}};
  EXPECT_NEAR(megatron_update_time(update, profile).seconds(), 0.104, 1e-6);
  // Buffers in float32: all 5 billion are filled, 4 bytes each.
  update.reduced_in = Dtype::float32;
  EXPECT_NEAR(megatron_update_time(update, profile).seconds(), 0.104 + 0.020, 1e-6);
  // Several ranks divide them as well, 4 + 4 bytes. The link takes no time.
  update.data_ranks = 4;
  profile.link = Link{.bandwidth = {1e18}, .latency = 0_ns};
  EXPECT_NEAR(megatron_update_time(update, profile).seconds(), 0.104 + 0.060, 1e-6);
  // ZeRO-1 of DeepSpeed copies all 5 billion to a buffer, divides them and copies them back, 2 + 2
  // bytes each time.
  update.reduced_in = Dtype::bfloat16;
  update.sums_everywhere = true;
  EXPECT_NEAR(megatron_update_time(update, profile).seconds(), 0.104 + 3 * 0.020, 1e-6);
}

}  // namespace
}  // namespace shardscope::testing
