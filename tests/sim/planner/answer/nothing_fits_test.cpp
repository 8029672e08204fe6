#include "sim/planner/answer/nothing_fits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stop_token>

#include "tests/sim/planner/answer/tiny_plan.h"

namespace shardscope::planner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Outcome too_large(std::size_t choice, Bytes memory) {
  return {.choice = choice, .reason = Reason::out_of_memory, .time = {}, .memory = memory};
}

Choice ddp() {
  Choice choice = tiny_choice();
  choice.runtime = Runtime::ddp;
  choice.sharding = ShardingStrategy::no_shard;
  choice.mesh = {.replicate = 4};
  choice.prefetch = Prefetch::none;
  return choice;
}

// Of 4 GiB; DDP on more ranks needs as much.
TEST(NothingFits, NamesTheNearestChoice) {
  const Inputs inputs = tiny_plan();
  const Basis basis(inputs);
  Choice smaller = ddp();
  smaller.batch = 1;
  const Weighed weighed{.choices = {ddp(), smaller},
                        .others = {too_large(0, 7_GiB), too_large(1, 6_GiB)}};
  EXPECT_THAT(
      advice_where_nothing_fits(weighed, basis, {}),
      ElementsAre("nearest: ddp no_shard, batch 1, bf16_mixed needs 6.00 GiB of the 4.00 GiB that "
                  "a device has: 2.00 GiB too much",
                  "nothing that was asked for shards the parameters: --runtime fsdp2 and "
                  "deepspeed do"));
}

TEST(NothingFits, SaysWhereTheMarginIsWhatLacks) {
  Inputs inputs = tiny_plan();
  inputs.margin = 2_GiB;
  const Basis basis(inputs);
  const Weighed weighed{.choices = {ddp()}, .others = {too_large(0, 3_GiB)}};
  EXPECT_EQ(advice_where_nothing_fits(weighed, basis, {}).front(),
            "nearest: ddp no_shard, batch 2, bf16_mixed needs 3.00 GiB of 4.00 GiB and leaves less "
            "than the margin of 2.00 GiB; --margin 0 ranks such choices");
}

// States of the model are 16 bytes a parameter; on 8 ranks a share of them is half of that on 4.
TEST(NothingFits, FindsTheRanksThatWouldDo) {
  Inputs inputs = tiny_plan();
  inputs.question.runtimes = {Runtime::fsdp2};
  const std::vector<Choice> choices = choices_of(inputs, 4).choices;
  const auto frugal = [&](int world) {
    const Basis basis(inputs);
    Choice choice = tiny_choice();
    choice.mesh = {.shard = world};
    choice.batch = 1;
    choice.micro_batches = 2;
    choice.reduces_every_micro_batch = true;
    choice.checkpointing.every = 1;
    return simulate_fully(choice, basis.trials).reserved;
  };
  const Bytes on_8 = frugal(8);
  ASSERT_LT(on_8, frugal(4));
  inputs.profile.memory = on_8;
  const Basis basis(inputs);
  const Weighed weighed{.choices = choices};
  EXPECT_THAT(advice_where_nothing_fits(weighed, basis, {}),
              ElementsAre(StartsWith("--world 8 would do: fsdp2 full_shard, batch 1")));
}

TEST(NothingFits, AsksForNoMoreRanksWhereEveryWayIsRefused) {
  const Inputs inputs = tiny_plan();
  const Basis basis(inputs);
  const Weighed weighed{.choices = {tiny_choice()},
                        .others = {{.choice = 0, .reason = Reason::refused, .text = "8 heads"}}};
  EXPECT_THAT(advice_where_nothing_fits(weighed, basis, {}),
              ElementsAre("every strategy is refused. The first refusal: 8 heads"));
}

TEST(NothingFits, SaysThatNoRanksWouldDo) {
  Inputs inputs = tiny_plan();
  inputs.question.runtimes = {Runtime::fsdp2};
  inputs.profile.memory = 1_MiB;  // the logits of a sequence alone are 64 x 2048 x 2 bytes and more
  const Basis basis(inputs);
  const Weighed weighed = weigh(basis, {});
  EXPECT_TRUE(weighed.ranked.empty());
  EXPECT_THAT(advice_where_nothing_fits(weighed, basis, {}),
              ElementsAre(HasSubstr("too much"), StartsWith("up to --world 512 nothing fits")));
  // Nobody who stopped waits for more ranks to be tried.
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THAT(advice_where_nothing_fits(weighed, basis, stop.get_token()),
              ElementsAre(HasSubstr("too much")));
}

}  // namespace
}  // namespace shardscope::planner
