#include "sim/planner/answer/reasons.h"

#include <gtest/gtest.h>

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

TEST(CannotBeToldApart, WhereBandsTouch) {
  Summary a = summary_with({100, 0, 1_GiB}), b = summary_with({120, 0, 1_GiB});
  a.step_time_high = Duration{110'000'000};
  b.step_time_low = Duration{110'000'000};
  EXPECT_TRUE(cannot_be_told_apart(a, b));
  EXPECT_TRUE(cannot_be_told_apart(b, a));
  b.step_time_low = Duration{110'000'001};
  EXPECT_FALSE(cannot_be_told_apart(a, b));
  EXPECT_FALSE(cannot_be_told_apart(b, a));
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
