#include "sim/planner/answer/rejected.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sim/planner/answer/tiny_plan.h"

namespace shardscope::planner {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

Choice of(Runtime runtime, ShardingStrategy sharding) {
  Choice choice = tiny_choice();
  choice.runtime = runtime;
  choice.sharding = sharding;
  return choice;
}

Outcome outcome(std::size_t choice, Reason reason, Duration time, Bytes memory = {}) {
  return {.choice = choice, .reason = reason, .time = time, .memory = memory};
}

// Of fsdp2 shard_grad_op the fastest one that was simulated is told, of fsdp1 full_shard the one
// that needs least; ddp has a place.
TEST(Rejected, SaysOfEachStrategyWhatSaysMost) {
  const Inputs inputs = tiny_plan();
  const Basis basis(inputs);
  using enum Runtime;
  using enum ShardingStrategy;
  const Weighed weighed{
      .choices = {of(fsdp2, shard_grad_op), of(fsdp1, full_shard), of(fsdp2, shard_grad_op),
                  of(ddp, no_shard), of(fsdp2, shard_grad_op), of(fsdp1, full_shard)},
      .others = {outcome(0, Reason::bounded, 10_us), outcome(1, Reason::out_of_memory, {}, 9_GiB),
                 outcome(2, Reason::slower, 40_us), outcome(3, Reason::slower, 30_us),
                 outcome(4, Reason::slower, 20_us), outcome(5, Reason::out_of_memory, {}, 8_GiB)}};
  std::vector<Candidate> places{candidate_with({1, 0, 1_GiB})};
  places[0].choice = of(ddp, no_shard);
  places[0].summary.step_time = 15_us;
  const std::vector<Rejected> rejected = rejected_of(weighed, places, basis);
  ASSERT_THAT(rejected, SizeIs(2));
  EXPECT_EQ(rejected[0].strategy, "fsdp2 shard_grad_op");
  EXPECT_EQ(rejected[0].why, "takes 20.0 us a step, 33.3% more than the last place (15.0 us)");
  EXPECT_EQ(rejected[1].strategy, "fsdp1 full_shard");
  EXPECT_THAT(rejected[1].why, HasSubstr("needs at least 8.00 GiB of the 4.00 GiB"));
}

// Times that round to the same differ by a share. 233.2 of 233 ms are 0.09% more, 234.4 are 0.6%.
TEST(Rejected, SaysByHowMuchAStepIsLonger) {
  const Inputs inputs = tiny_plan();
  const Basis basis(inputs);
  const PlaceToBeat last{"the last place", 233'000_us};
  const auto told = [&](Reason reason, Duration time) {
    return why(outcome(0, reason, time), basis.trials, last);
  };
  EXPECT_EQ(told(Reason::slower, 233'200_us),
            "takes 233 ms a step, less than 0.1% more than the last place (233 ms)");
  EXPECT_EQ(told(Reason::bounded, 234'400_us),
            "takes at least 234 ms a step, 0.6% more than the last place (233 ms)");
  EXPECT_EQ(told(Reason::slower, 233'000_us),
            "takes at least 233 ms a step; the last place takes 233 ms");
}

// 80 GiB of which 79 are held: that fits, and leaves less than the usual margin of 4%.
TEST(Rejected, TakesOutWhatTheAllocatorHoldsTooMuchOf) {
  std::vector<Candidate> candidates{candidate_with({1, 0, 70_GiB}), candidate_with({1, 0, 79_GiB}),
                                    candidate_with({1, 0, 81_GiB})};
  for (Candidate& candidate : candidates) candidate.summary.device_memory = 80_GiB;
  candidates[2].summary.fits = false;
  const std::vector<Rejected> rejected = take_out_unfit(candidates);
  EXPECT_THAT(candidates, SizeIs(1));
  ASSERT_THAT(rejected, SizeIs(2));
  EXPECT_EQ(rejected[0].strategy, "fsdp2 full_shard");
  EXPECT_EQ(rejected[0].why,
            "batch 2, bf16_mixed: the tensors fit, but the caching allocator would leave less "
            "than the margin");
  EXPECT_THAT(rejected[1].why, HasSubstr("reserve more than the device has"));
}

}  // namespace
}  // namespace shardscope::planner
