#include "sim/planner/answer/chosen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sim/planner/answer/tiny_plan.h"

namespace shardscope::planner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ChosenTest : public ::testing::Test {
 protected:
  ChosenTest() : places_(3, candidate_with({10, 0, 1_GiB})) {
    for (std::size_t i = 0; i < places_.size(); ++i) {
      places_[i].place = static_cast<int>(i) + 1;
      places_[i].ties = i > 0;
    }
  }
  /// accelerate's file does not say it.
  static void reduce_every_micro_batch(Candidate& candidate) {
    candidate.choice.micro_batches = 2;
    candidate.choice.reduces_every_micro_batch = true;
  }
  /// Of a device of 25 GiB, whose usual margin is 1 GiB.
  static void leave(Bytes free, Candidate& candidate) {
    candidate.summary.device_memory = 25_GiB;
    candidate.summary.memory.peak_reserved = 25_GiB - free;
  }
  Chosen chosen() const { return chosen_of(places_, written_from(inputs_)); }

  Inputs inputs_ = tiny_plan();
  std::vector<Candidate> places_;
};

TEST_F(ChosenTest, IsTheFirstUnlessSomethingSpeaksAgainstIt) {
  EXPECT_EQ(chosen().candidate, 0u);
  EXPECT_EQ(chosen().rule, Rule::place);
  EXPECT_EQ(chosen().why_not_first, "");
  EXPECT_THAT(chosen().tied, ElementsAre(0, 1, 2));
}

TEST_F(ChosenTest, PassesOverWhatNoFileSays) {
  reduce_every_micro_batch(places_[0]);
  reduce_every_micro_batch(places_[1]);
  EXPECT_EQ(chosen().candidate, 2u);
  EXPECT_EQ(chosen().rule, Rule::memory);
  EXPECT_EQ(chosen().why_not_first,
            "no file can set \"gradients reduced in every micro-batch\", and the memory of place 1 "
            "depends on it");
}

TEST_F(ChosenTest, PassesOverASmallMarginFirst) {
  leave(512_MiB, places_[0]);
  reduce_every_micro_batch(places_[1]);
  reduce_every_micro_batch(places_[2]);
  leave(3_GiB, places_[1]);
  EXPECT_EQ(chosen().candidate, 1u);
  EXPECT_EQ(chosen().rule, Rule::margin);
  EXPECT_EQ(chosen().why_not_first, "leaves 3.00 GiB, place 1 leaves 512 MiB");
}

// Each of the others has what decided against it.
TEST_F(ChosenTest, SaysWhyEachOtherIsPassedOver) {
  places_[0].choice.runtime = Runtime::fsdp1;
  places_[1].choice.runtime = places_[2].choice.runtime = Runtime::fsdp2;
  leave(3_GiB, places_[0]);
  leave(512_MiB, places_[1]);
  leave(3_GiB, places_[2]);
  const Chosen third = chosen();
  EXPECT_EQ(third.candidate, 2u);
  ASSERT_EQ(third.passed_over.size(), 2u);
  EXPECT_EQ(third.passed_over[0].candidate, 0u);
  EXPECT_EQ(third.passed_over[0].rule, Rule::current);
  EXPECT_EQ(third.passed_over[1].candidate, 1u);
  EXPECT_EQ(third.passed_over[1].rule, Rule::margin);
  EXPECT_EQ(third.passed_over[1].why, "leaves 3.00 GiB, place 2 leaves 512 MiB");
}

// Two usual margins are enough: 9 GiB are worth no more than 3.
TEST_F(ChosenTest, TakesNoMoreRoomThanIsOfUse) {
  for (Candidate& candidate : places_) leave(3_GiB, candidate);
  leave(9_GiB, places_[2]);
  EXPECT_EQ(chosen().candidate, 0u);
}

TEST_F(ChosenTest, IsTheRuntimeThatPyTorchRecommends) {
  places_[0].choice.runtime = Runtime::fsdp1;
  places_[1].choice.runtime = places_[2].choice.runtime = Runtime::fsdp2;
  places_[1].choice.blocks_per_unit = places_[2].choice.blocks_per_unit = 2;
  EXPECT_EQ(chosen().candidate, 1u);
  EXPECT_EQ(chosen().rule, Rule::current);
  EXPECT_EQ(chosen().why, "place 1 is FSDP1, and PyTorch recommends FSDP2");
}

TEST_F(ChosenTest, LeavesLessToTheScript) {
  places_[0].choice.blocks_per_unit = places_[2].choice.blocks_per_unit = 2;
  EXPECT_EQ(chosen().candidate, 1u);
  EXPECT_EQ(chosen().rule, Rule::file);
  EXPECT_EQ(chosen().why,
            "the file of place 1 cannot set, so that the script must: units of 2 blocks");
}

TEST_F(ChosenTest, HasFewerUnusualSettings) {
  for (const std::size_t i : {0U, 2U}) places_[i].choice.checkpointing = {.every = 1};
  EXPECT_EQ(chosen().candidate, 1u);
  EXPECT_EQ(chosen().rule, Rule::plain);
  EXPECT_EQ(chosen().why, "place 1 has more unusual settings: checkpointing full (chosen: none)");
}

TEST_F(ChosenTest, HasNoMeshThatItDoesNotNeed) {
  places_[0].choice.mesh = {.replicate = 2, .shard = 4};
  places_[0].summary.time.communication = {};
  EXPECT_EQ(chosen().candidate, 1u);
  EXPECT_EQ(chosen().rule, Rule::plain);
  EXPECT_EQ(chosen().why, "place 1 has more unusual settings: a mesh of 2 x 4 (chosen: none)");
}

TEST_F(ChosenTest, UsesTheNetworkLess) {
  for (const std::size_t i : {0U, 1U, 2U})
    places_[i].summary.time.communication =
        Duration{(30 - 5 * static_cast<std::int64_t>(i)) * 1'000'000};
  EXPECT_EQ(chosen().candidate, 2u);
  EXPECT_EQ(chosen().rule, Rule::network);
  EXPECT_EQ(chosen().why, "its collectives take 20.0 ms a step, those of place 1 30.0 ms");
}

// The first place is compared with the next best of those that it ties with.
TEST_F(ChosenTest, SaysWhatDecidedForTheFirst) {
  places_[1].choice.checkpointing = places_[2].choice.checkpointing = {.every = 1};
  EXPECT_EQ(chosen().candidate, 0u);
  EXPECT_EQ(chosen().rule, Rule::plain);
  EXPECT_EQ(chosen().why, "place 2 has more unusual settings: checkpointing full (chosen: none)");
  EXPECT_EQ(chosen().why_not_first, "");
}

TEST_F(ChosenTest, IsNotOneThatIsSlower) {
  reduce_every_micro_batch(places_[0]);
  places_[1].ties = places_[2].ties = false;
  EXPECT_EQ(chosen().candidate, 0u);
  EXPECT_THAT(chosen().tied, ElementsAre(0));
}

TEST(FragileFeatures, OfAPlainChoiceAreNone) {
  EXPECT_THAT(fragile_features(tiny_choice()), IsEmpty());
  Choice choice = tiny_choice();
  choice.offload = Offload::all;
  choice.checkpointing = {.every = 1, .selective = true};
  EXPECT_EQ(fragile_features(choice).size(), 2u);
}

TEST_F(ChosenTest, TheFileAloneHasNothingThatOnlyTheScriptSets) {
  const WrittenFrom from = written_from(inputs_);
  Choice choice = places_[0].choice;
  choice.blocks_per_unit = 1;
  EXPECT_EQ(as_the_file_alone(choice, from), choice);
  Choice more = choice;
  more.blocks_per_unit = 4;
  more.checkpointing = {.every = 2};
  more.reduces_every_micro_batch = true;
  EXPECT_EQ(as_the_file_alone(more, from), choice);
  EXPECT_EQ(what_the_file_lacks(more, from),
            "checkpointing every:2, gradients reduced in every micro-batch, units of 4 blocks");
  EXPECT_EQ(what_the_file_lacks(choice, from), "");
  more.runtime = Runtime::native;
  EXPECT_EQ(as_the_file_alone(more, from), more);
}

// FSDP1 shards inside a node, of 8 GPUs, unless it is given groups, and raises where nodes are not
// whole.
TEST_F(ChosenTest, TheFileAloneShardsInsideANode) {
  WrittenFrom from = written_from(inputs_);
  from.ranks_per_node = 8;
  Choice choice = places_[0].choice;
  choice.runtime = Runtime::fsdp1;
  choice.sharding = ShardingStrategy::hybrid_shard;
  choice.mesh = {.replicate = 4, .shard = 4};
  EXPECT_EQ(as_the_file_alone(choice, from)->mesh, (Mesh{.replicate = 2, .shard = 8}));
  choice.mesh = {.replicate = 3, .shard = 4};
  EXPECT_EQ(as_the_file_alone(choice, from), std::nullopt);
  choice.mesh = {.replicate = 2, .shard = 2};
  EXPECT_EQ(as_the_file_alone(choice, from), std::nullopt);
}

// transformers' plan is the script's: without it nothing is divided.
TEST_F(ChosenTest, AFileWithAnAxisTensorCountsItsMachines) {
  WrittenFrom from = written_from(inputs_);
  from.ranks_per_node = 8;
  Choice choice = places_[0].choice;
  choice.runtime = Runtime::fsdp2;
  choice.mesh = {.shard = 4};
  choice.tensor = 4;
  choice.checkpointing = {.every = 2};
  EXPECT_EQ(as_the_file_alone(choice, from), std::nullopt);
  EXPECT_EQ(memory_beyond_the_file(choice, from), "distributed_config");
  const WrittenChoice file = written(choice, from);
  EXPECT_THAT(file.text, HasSubstr("num_machines: 2\nnum_processes: 16\n"));
  EXPECT_THAT(file.losses.back().why, HasSubstr("{\"every_n_layers\": 2}"));
}

}  // namespace
}  // namespace shardscope::planner
