#include "sim/planner/enumerate.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "core/base/error.h"
#include "core/model/huggingface.h"
#include "core/native/native_abilities.h"
#include "tests/sim/planner/question.h"

namespace shardscope::planner {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

/// GPT-2 of width 8; a block has 12 * 64 + 13 * 8 = 872 elements.
Model model_with_blocks(int blocks) {
  return model_of_config(JsonValue::parse(
      fmt::format(R"({{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 8,
                      "n_head": 2, "vocab_size": 16, "n_positions": 8, "n_layer": {}}})",
                  blocks),
      "config.json"));
}

std::vector<Choice> of(const Enumeration& all, ShardingStrategy sharding) {
  std::vector<Choice> result;
  for (const Choice& choice : all.choices)
    if (choice.sharding == sharding) result.push_back(choice);
  return result;
}

TEST(Enumerate, DdpDiffersInMicroBatchesAndCheckpointingAlone) {
  // 4 ranks, 128 tokens of sequences of 8: 4 sequences a rank, so batch x micro-batches is 4 x 1,
  // 2 x 2, 1 x 4; of 4 blocks none, all, all selectively or every second may be checkpointed.
  const Enumeration all = enumerate(model_with_blocks(4), question({Runtime::ddp}, 4, 128));
  EXPECT_EQ(all.choices.size(), 3u * 4u);
  EXPECT_EQ(text_of(all.choices.front()), "ddp no_shard, batch 4, fp32");
  EXPECT_EQ(text_of(all.choices.back()), "ddp no_shard, batch 1 x 4, checkpointing every:2, fp32");
}

TEST(Enumerate, HybridsStandOverEveryDivisorOfTheWorld) {
  // 12 ranks: shards of 2, 3, 4 and 6; 1 is DDP and 12 is full_shard.
  std::set<int> shards;
  const Enumeration all = enumerate(model_with_blocks(2), question({Runtime::fsdp2}, 12, 96));
  for (const Choice& choice : of(all, ShardingStrategy::hybrid_shard)) {
    EXPECT_EQ(choice.mesh.replicate * choice.mesh.shard, 12);
    shards.insert(choice.mesh.shard);
  }
  EXPECT_THAT(shards, ElementsAre(2, 3, 4, 6));
}

TEST(Enumerate, APrimeWorldHasNoHybrid) {
  const Enumeration all = enumerate(model_with_blocks(2), question({Runtime::fsdp2}, 7, 56));
  EXPECT_THAT(of(all, ShardingStrategy::hybrid_shard), IsEmpty());
  EXPECT_THAT(all.dropped, Contains(Dropped{"fsdp2 hybrid_shard",
                                            "7 ranks are no grid of replicas and shards"}));
}

TEST(Enumerate, NativeHasWhatTrainCanRunAndDropsTheRest) {
  const Enumeration all = enumerate(model_with_blocks(4), question({Runtime::native}, 4, 32));
  std::set<ShardingStrategy> found;
  for (const Choice& choice : all.choices) {
    found.insert(choice.sharding);
    EXPECT_NO_THROW(native_strategy(choice, model_with_blocks(4))) << text_of(choice);
  }
  const auto& runnable = native_abilities().strategies;
  EXPECT_EQ(found, std::set<ShardingStrategy>(runnable.begin(), runnable.end()));
}

TEST(Enumerate, EveryChoiceOfPytorchsRuntimesCanBeSetUp) {
  const Model model = model_with_blocks(4);
  const std::vector<Runtime> all_of_them{Runtime::fsdp1, Runtime::fsdp2, Runtime::ddp,
                                         Runtime::deepspeed};
  const Question asked = question(all_of_them, 4, 64);
  for (const Choice& choice : enumerate(model, asked).choices) {
    const eager::TrainingSetup setup = training_setup(choice, model, asked.training);
    EXPECT_EQ(setup.world, 4) << text_of(choice);
    EXPECT_EQ(setup.loop.batch * setup.loop.micro_batches, 2) << text_of(choice);
  }
}

TEST(Enumerate, ChoicesAreAllDifferent) {
  const Enumeration all = enumerate(
      model_with_blocks(4), question({Runtime::fsdp1, Runtime::deepspeed, Runtime::native}, 4, 64));
  for (std::size_t i = 0; i < all.choices.size(); ++i)
    for (std::size_t j = i + 1; j < all.choices.size(); ++j)
      ASSERT_NE(all.choices[i], all.choices[j]) << text_of(all.choices[i]);
}

TEST(Enumerate, GradientsReducedOftenAreWeighedOnlyWhereThereAreSeveralMicroBatches) {
  const Enumeration all = enumerate(model_with_blocks(2), question({Runtime::fsdp2}, 4, 64));
  const auto often = [](const Choice& c) { return c.reduces_every_micro_batch; };
  EXPECT_TRUE(std::any_of(all.choices.begin(), all.choices.end(), often));
  for (const Choice& choice : all.choices) EXPECT_TRUE(!often(choice) || choice.micro_batches > 1);
}

TEST(Enumerate, Fsdp1DoesNotReduceOftenWhereItOffloads) {
  const Enumeration all = enumerate(model_with_blocks(2), question({Runtime::fsdp1}, 4, 64));
  for (const Choice& choice : all.choices)
    EXPECT_FALSE(choice.offload == Offload::all && choice.reduces_every_micro_batch);
}

TEST(Enumerate, ABatchThatNoStrategyDividesNamesTheNearestThatWork) {
  // 3 sequences of 8 for 4 ranks: 32 tokens would be one each; 3 ranks would share 24.
  try {
    enumerate(model_with_blocks(2), question({Runtime::ddp}, 4, 24));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), StartsWith("--tokens-per-batch: 24 tokens"));
    EXPECT_THAT(error.what(), HasSubstr("32 would, and so would --world 3"));
  }
}

TEST(Enumerate, NearestBatchesAreThoseBelowAndAbove) {
  try {
    enumerate(model_with_blocks(2), question({Runtime::ddp}, 4, 70));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("64 or 96 would"));
  }
}

TEST(Enumerate, OneRankHasNothingToShareButStillOffloads) {
  const Enumeration all =
      enumerate(model_with_blocks(2), question({Runtime::native, Runtime::deepspeed}, 1, 8));
  EXPECT_THAT(all.dropped,
              Contains(Dropped{"native shard_grad_op", "one rank has nobody to share with"}));
  for (const Choice& choice : of(all, ShardingStrategy::full_shard))
    EXPECT_NE(choice.offload, Offload::none) << text_of(choice);
  EXPECT_THAT(of(all, ShardingStrategy::full_shard),
              Contains(Field(&Choice::runtime, Runtime::native)));
  EXPECT_THAT(of(all, ShardingStrategy::shard_grad_op), Not(IsEmpty()));
}

// DeepSpeed's stage 1 shards optimizer states, and one rank has all of them.
TEST(Enumerate, OneRankUnderDeepSpeedHasNoStage1) {
  const Enumeration alone = enumerate(model_with_blocks(2), question({Runtime::deepspeed}, 1, 8));
  EXPECT_THAT(of(alone, ShardingStrategy::zero1), IsEmpty());
  EXPECT_THAT(of(alone, ShardingStrategy::shard_grad_op), Not(IsEmpty()));
  EXPECT_THAT(alone.dropped,
              Contains(Dropped{"deepspeed zero1", "one rank has nobody to share with"}));
}

TEST(Divisors, AreAscendingAndComplete) {
  EXPECT_THAT(divisors_of(36), ElementsAre(1, 2, 3, 4, 6, 9, 12, 18, 36));
  EXPECT_THAT(divisors_of(1), ElementsAre(1));
}

TEST(Choice, Fsdp2sUnitsOfTwoBlocksAreListsOfNeighbours) {
  const Model model = model_with_blocks(3);
  const Choice choice{.runtime = Runtime::fsdp2, .mesh = {.shard = 2}, .blocks_per_unit = 2};
  const auto setup = training_setup(choice, model, {});
  const auto& calls = std::get<eager::Fsdp2Setup>(setup.runtime).calls;
  ASSERT_EQ(calls.size(), 3u);
  EXPECT_THAT(calls[0].modules, ElementsAre("transformer.h.0", "transformer.h.1"));
  EXPECT_THAT(calls[1].modules, ElementsAre("transformer.h.2"));
  EXPECT_THAT(calls[2].modules, ElementsAre(""));
}

TEST(Choice, DeepSpeedsHybridIsStage3WithASecondCopy) {
  const Choice choice{.runtime = Runtime::deepspeed,
                      .sharding = ShardingStrategy::hybrid_shard,
                      .mesh = {.replicate = 2, .shard = 4},
                      .batch = 2,
                      .micro_batches = 3};
  const auto setup = training_setup(choice, model_with_blocks(2), {});
  const DeepSpeedSettings& settings = std::get<eager::DeepSpeedSetup>(setup.runtime).settings;
  EXPECT_EQ(settings.stage, 3);
  EXPECT_EQ(settings.hpz_partition_size, 4);
  EXPECT_EQ(settings.accumulation_steps, 3);
  EXPECT_EQ(settings.train_batch_size, 2 * 3 * 8);
}

// DeepSpeed's zero/config.py, overlap_comm_valid: stage 3 overlaps unless it is told otherwise, the
// others do not.
TEST(Choice, DeepSpeedsUsualSettingsAreThoseWithoutAFile) {
  struct Stage {
    ShardingStrategy sharding;
    bool overlaps;
  };
  const Model model = model_with_blocks(2);
  for (const Stage& stage :
       {Stage{ShardingStrategy::zero1, false}, Stage{ShardingStrategy::shard_grad_op, false},
        Stage{ShardingStrategy::full_shard, true}}) {
    SCOPED_TRACE(name_of(stage.sharding));
    Choice choice{.runtime = Runtime::deepspeed,
                  .sharding = stage.sharding,
                  .mesh = {.shard = 8},
                  .prefetch = usual_prefetch(Runtime::deepspeed, stage.sharding)};
    const auto setup = training_setup(choice, model, {.clip = 1});
    const auto asked = eager::requested_setup(model, runtime_request(choice, model));
    DeepSpeedSettings usual = std::get<eager::DeepSpeedSetup>(asked.runtime).settings;
    EXPECT_EQ(usual.overlap_comm, stage.overlaps);
    usual.micro_batch_size = 1;
    usual.train_batch_size = 8;
    EXPECT_TRUE(std::get<eager::DeepSpeedSetup>(setup.runtime).settings == usual);
    EXPECT_THAT(text_of(choice), Not(HasSubstr("overlap_comm")));
    EXPECT_THAT(text_of(choice), Not(HasSubstr("prefetch")));
    choice.prefetch = stage.overlaps ? Prefetch::none : Prefetch::pre;
    EXPECT_THAT(text_of(choice), HasSubstr(stage.overlaps ? "prefetch none" : ", overlap_comm,"));
  }
}

TEST(Choice, NativeUnitsOfTwoBlocksHoldTheElementsOfTwo) {
  // A block of the small GPT-2 has 872 elements.
  const Choice choice{.mesh = {.shard = 2}, .blocks_per_unit = 2};
  EXPECT_EQ(native_strategy(choice, model_with_blocks(4)).wrap,
            (Wrap{.policy = WrapPolicy::size, .min_elements = 2 * 872}));
}

}  // namespace
}  // namespace shardscope::planner
