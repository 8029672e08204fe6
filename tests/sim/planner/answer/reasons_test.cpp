#include "sim/planner/answer/reasons.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/sim/planner/answer/tiny_plan.h"

namespace shardscope::planner {
namespace {

// 110 ms beside 100 ms: 10 ms more, of which communication has 15 ms more and compute 5 ms less.
TEST(WhyNotBest, NamesThePartThatGrewMost) {
  const Summary best = summary_with({80, 20, 4_GiB});
  const Summary other = summary_with({75, 35, 6_GiB});
  EXPECT_EQ(why_not_best(best, other, Objective::time),
            "10.0% slower: 15.0 ms more exposed communication; 2.00 GiB more memory");
  EXPECT_EQ(why_not_best(best, other, Objective::cost),
            "10.0% slower: 15.0 ms more exposed communication; 2.00 GiB more memory");
}

TEST(WhyNotBest, SaysWhatIsTheSame) {
  const Summary best = summary_with({80, 20, 4_GiB});
  EXPECT_EQ(why_not_best(best, best, Objective::time), "as fast; as much memory");
}

// The front may hold one that is faster than the best by another objective.
TEST(WhyNotBest, OfAFasterOneNoPartGrew) {
  EXPECT_EQ(
      why_not_best(summary_with({80, 20, 4_GiB}), summary_with({80, 10, 3_GiB}), Objective::cost),
      "10.0% faster; 1.00 GiB less memory");
}

TEST(WhyNotBest, ByMemorySaysMemoryFirst) {
  EXPECT_EQ(
      why_not_best(summary_with({80, 20, 4_GiB}), summary_with({80, 10, 6_GiB}), Objective::memory),
      "2.00 GiB more memory, -10.0% step time");
}

/// A candidate whose step time moves by so much with the machine's matrix products.
Candidate moved_by_products(std::int64_t compute_ms, double move, double of_model) {
  Candidate candidate = candidate_with({compute_ms, 0, 1_GiB});
  candidate.moves.of_group[static_cast<std::size_t>(CostGroup::products)] = move;
  candidate.moves.of_model = of_model;
  return candidate;
}

// 5% apart. Each alone is known to 10% x 1.645, but the same products move both.
TEST(CompareWithBest, WhatBothShareDoesNotTie) {
  const Candidate best = moved_by_products(100, 0.1, 0);
  Candidate other = moved_by_products(105, 0.1, 0);
  compare_with_best(best, Objective::time, other);
  EXPECT_FALSE(other.ties);
  EXPECT_NEAR(other.slower_share, 0.05, 1e-12);
  EXPECT_NEAR(other.slower_low_share, 0.05, 1e-12);
}

// The model is off by 3% for each: sqrt(2) x 3% x 1.645 = 6.98%, and 105 / exp(0.0698) = 97.9.
TEST(CompareWithBest, WhatIsEachOnesOwnTies) {
  const Candidate best = moved_by_products(100, 0.1, 0.03);
  Candidate other = moved_by_products(105, 0.1, 0.03);
  compare_with_best(best, Objective::time, other);
  EXPECT_TRUE(other.ties);
  EXPECT_NEAR(other.slower_low_share, 1.05 / std::exp(0.069790) - 1, 1e-5);
  EXPECT_NEAR(other.slower_high_share, 1.05 * std::exp(0.069790) - 1, 1e-5);
  other = moved_by_products(108, 0.1, 0.03);
  compare_with_best(best, Objective::time, other);
  EXPECT_FALSE(other.ties);
}

TEST(CompareWithBest, ByMemoryOnlyAsMuchTies) {
  const Candidate best = candidate_with({100, 0, 1_GiB});
  Candidate as_much = candidate_with({150, 0, 1_GiB}), more = candidate_with({100, 0, 2_GiB});
  compare_with_best(best, Objective::memory, as_much);
  compare_with_best(best, Objective::memory, more);
  EXPECT_TRUE(as_much.ties);
  EXPECT_FALSE(more.ties);
}

TEST(CompareWithBest, ByCostComparesGpuHours) {
  Candidate best = candidate_with({100, 0, 1_GiB}), other = candidate_with({50, 0, 1_GiB});
  best.gpu_hours = 4;
  other.gpu_hours = 5;
  compare_with_best(best, Objective::cost, other);
  EXPECT_NEAR(other.slower_share, 0.25, 1e-12);
}

TEST(ExplainPlaces, NumbersThemAndLeavesTheFirstWithoutAReason) {
  std::vector<Candidate> candidates{candidate_with({100, 0, 1_GiB}),
                                    candidate_with({150, 0, 1_GiB})};
  explain_places(candidates, Objective::time);
  EXPECT_EQ(candidates[0].place, 1);
  EXPECT_EQ(candidates[0].why, "");
  EXPECT_FALSE(candidates[0].ties);
  EXPECT_EQ(candidates[1].place, 2);
  EXPECT_EQ(candidates[1].why, "50.0% slower: 50.0 ms more compute; as much memory");
  EXPECT_FALSE(candidates[1].ties);
}

}  // namespace
}  // namespace shardscope::planner
