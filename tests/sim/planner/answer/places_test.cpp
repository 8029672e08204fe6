#include "sim/planner/answer/places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/planner/choice_prediction.h"
#include "tests/sim/planner/answer/tiny_plan.h"
#include "traces/memory_fit.h"

namespace shardscope::planner {
namespace {

using ::testing::ElementsAre;

/// Step times, by which the candidates of these tests are known.
std::vector<std::int64_t> times_of(const std::vector<Candidate>& candidates) {
  std::vector<std::int64_t> times;
  for (const Candidate& candidate : candidates)
    times.push_back(candidate.summary.step_time.ns / 1'000'000);
  return times;
}

Candidate with_cost(Candidate candidate, double gpu_hours) {
  candidate.gpu_hours = gpu_hours;
  return candidate;
}

TEST(KeepBest, GoesByTheObjective) {
  const std::vector<Candidate> candidates{with_cost(candidate_with({30, 0, 1_GiB}), 5),
                                          with_cost(candidate_with({10, 0, 3_GiB}), 9),
                                          with_cost(candidate_with({20, 0, 2_GiB}), 1)};
  const auto best = [&](Objective objective) {
    std::vector<Candidate> kept = candidates;
    keep_best(kept, objective, 2);
    return times_of(kept);
  };
  EXPECT_THAT(best(Objective::time), ElementsAre(10, 20));
  EXPECT_THAT(best(Objective::memory), ElementsAre(30, 20));
  EXPECT_THAT(best(Objective::cost), ElementsAre(20, 30));
}

// Step time and memory: (10, 4), (20, 4), (20, 2) and (30, 3). 20 ms with 4 GiB is no faster than
// 10 ms with as much, and 30 ms with 3 GiB is beaten by 20 ms with 2 GiB.
TEST(KeepFront, LeavesWhatNothingBeatsAndTheBestFew) {
  std::vector<Candidate> candidates{candidate_with({10, 0, 4_GiB}), candidate_with({20, 0, 4_GiB}),
                                    candidate_with({20, 0, 2_GiB}), candidate_with({30, 0, 3_GiB})};
  keep_front(candidates, 2);
  EXPECT_THAT(times_of(candidates), ElementsAre(10, 20, 20));
  EXPECT_TRUE(candidates[0].on_front);
  EXPECT_FALSE(candidates[1].on_front);
  EXPECT_TRUE(candidates[2].on_front);
}

// Neither is better than the other, so that both are on the front.
TEST(KeepFront, KeepsTwoThatAreAlike) {
  std::vector<Candidate> candidates{candidate_with({10, 0, 4_GiB}), candidate_with({10, 0, 4_GiB})};
  keep_front(candidates, 1);
  EXPECT_EQ(candidates.size(), 2u);
}

// The place that is a little slower and leaves 9 GiB is looked for beside one that leaves 1 of 80:
// two margins of 4% are 6.4 GiB.
TEST(SmallerMemories, LeaveTwoMarginsWhereTheBestLeavesLess) {
  Summary best;
  best.device_memory = 80_GiB;
  best.memory.peak_reserved = 79_GiB;
  const std::vector<Bytes> memories = smaller_memories(best);
  ASSERT_EQ(memories.size(), 4u);
  EXPECT_NEAR(static_cast<double>(memories[0].count), 73.6 * (1 << 30), 1 << 10);
  EXPECT_NEAR(static_cast<double>(memories[1].count), 0.7 * 79 * (1 << 30), 1 << 10);
  best.memory.peak_reserved = 60_GiB;  // leaves 20
  EXPECT_EQ(smaller_memories(best).size(), 3u);
}

// What tensors take; the allocator holds more where the device has it.
TEST(SmallerThan, FindsChoicesWithLessMemoryThanTheBest) {
  Inputs inputs = tiny_plan();
  const Basis basis(inputs);
  const std::vector<Choice> choices = choices_of(inputs, 4).choices;
  const Candidate best = candidate_of(tiny_choice(), basis);
  const std::vector<Candidate> smaller = smaller_than({&best, 1}, choices, basis, {}).candidates;
  ASSERT_FALSE(smaller.empty());
  for (const Candidate& candidate : smaller)
    EXPECT_LE(
        candidate.summary.memory.peak_allocated.count,
        static_cast<std::int64_t>(0.7 * static_cast<double>(needed_memory(best.summary).count)));
}

}  // namespace
}  // namespace shardscope::planner
