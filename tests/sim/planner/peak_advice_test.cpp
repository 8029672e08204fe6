// Which setting is named for what holds memory.
#include "sim/planner/peak_advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shardscope {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Holder held(MemoryCategory category, std::string owner = "model.layers.*.mlp",
            Phase phase = Phase::forward) {
  return {.category = category, .owner = std::move(owner), .phase = phase};
}

eager::TrainingSetup fsdp1(ShardingStrategy strategy) {
  eager::TrainingSetup setup;
  setup.runtime = eager::Fsdp1Setup{
      .units = {.strategy = strategy, .auto_wrap = TransformerWrap{{"Block"}}}, .options = {}};
  return setup;
}

TEST(PeakAdvice, ActivationsAreCheckpointedUnlessTheyAre) {
  eager::TrainingSetup setup = fsdp1(ShardingStrategy::full_shard);
  EXPECT_THAT(advice(held(MemoryCategory::activations), setup),
              HasSubstr("fsdp_activation_checkpointing: true"));
  setup.checkpointing.modules = {"model.layers.0"};
  EXPECT_THAT(advice(held(MemoryCategory::activations), setup), HasSubstr("fewer tokens"));
}

// fsdp_config has the key, which DDP, DeepSpeed and one process do not read.
TEST(PeakAdvice, OutsideFsdpCheckpointingIsTheTrainersKey) {
  eager::TrainingSetup setup;
  const std::vector<eager::RuntimeSetup> others{eager::PlainSetup{}, eager::ddp::Options{},
                                                eager::DeepSpeedSetup{{.stage = 2}}};
  for (const eager::RuntimeSetup& runtime : others) {
    setup.runtime = runtime;
    EXPECT_THAT(advice(held(MemoryCategory::activations), setup),
                AllOf(HasSubstr("gradient_checkpointing: true, or --checkpointing full"),
                      Not(HasSubstr("fsdp_"))));
  }
}

TEST(PeakAdvice, LogitsAreNoMatterOfCheckpointing) {
  EXPECT_THAT(advice(held(MemoryCategory::activations, "lm_head"), {}), HasSubstr("chunks"));
}

TEST(PeakAdvice, GatheredParametersAreReshardedWhereTheyStay) {
  const Holder gathered = held(MemoryCategory::parameters);
  EXPECT_THAT(advice(gathered, fsdp1(ShardingStrategy::shard_grad_op)), HasSubstr("FULL_SHARD"));
  eager::TrainingSetup setup;
  setup.runtime = eager::Fsdp2Setup{.calls = {{{"layers.0"}, false}, {{""}, std::nullopt}}};
  EXPECT_THAT(advice(gathered, setup), HasSubstr("fsdp_reshard_after_forward: true"));
}

TEST(PeakAdvice, ShardsWantMoreRanksWhereGatheredOnesWantResharding) {
  const Holder shard = held(MemoryCategory::parameters, "", Phase::init);
  EXPECT_THAT(advice(shard, fsdp1(ShardingStrategy::shard_grad_op)), HasSubstr("more ranks"));
  eager::TrainingSetup zero3;
  zero3.runtime = eager::DeepSpeedSetup{{.stage = 3}};
  EXPECT_THAT(advice(shard, zero3), HasSubstr("more ranks"));
  EXPECT_THAT(advice(held(MemoryCategory::parameters), zero3),
              HasSubstr("stage3_max_live_parameters"));
}

TEST(PeakAdvice, TheRootOfFsdp1StaysWholeUnderEitherStrategy) {
  for (const auto strategy : {ShardingStrategy::full_shard, ShardingStrategy::shard_grad_op})
    EXPECT_THAT(advice(held(MemoryCategory::parameters, ""), fsdp1(strategy)),
                HasSubstr("units for what the root holds"));
}

TEST(PeakAdvice, PrefetchIsNamedOnlyWhereAndWhenItIsOn) {
  eager::TrainingSetup setup = fsdp1(ShardingStrategy::full_shard);
  auto& options = std::get<eager::Fsdp1Setup>(setup.runtime).options;
  const auto advised = [&](Phase phase) {
    return advice(held(MemoryCategory::parameters, "layers.*", phase), setup);
  };
  EXPECT_THAT(advised(Phase::backward), HasSubstr("fsdp_backward_prefetch"));
  EXPECT_THAT(advised(Phase::forward), HasSubstr("smaller units"));
  options.forward_prefetch = true;
  EXPECT_THAT(advised(Phase::forward), HasSubstr("fsdp_forward_prefetch"));
  options.backward_prefetch = eager::fsdp1::BackwardPrefetch::none;
  EXPECT_THAT(advised(Phase::backward), HasSubstr("smaller units"));
}

TEST(PeakAdvice, BucketsOfDdpAreASecondCopy) {
  eager::TrainingSetup setup;
  eager::ddp::Options options;
  setup.runtime = options;
  EXPECT_THAT(advice(held(MemoryCategory::gradients), setup),
              HasSubstr("gradient_as_bucket_view=True"));
  options.gradient_as_bucket_view = true;
  setup.runtime = options;
  EXPECT_THAT(advice(held(MemoryCategory::gradients), setup), HasSubstr("shard them"));
}

TEST(PeakAdvice, ForeachTakesTemporariesOnlyInTheStep) {
  EXPECT_THAT(advice(held(MemoryCategory::temporaries, "", Phase::optimizer), {}),
              HasSubstr("fused"));
  EXPECT_THAT(advice(held(MemoryCategory::temporaries), {}), Not(HasSubstr("fused")));
}

TEST(PeakAdvice, GradientsThatAreKeptAreSetToNone) {
  eager::TrainingSetup setup = fsdp1(ShardingStrategy::full_shard);
  setup.loop.zero_grad_to_none = false;
  EXPECT_THAT(advice(held(MemoryCategory::gradients), setup), HasSubstr("set_to_none=True"));
}

}  // namespace
}  // namespace shardscope
