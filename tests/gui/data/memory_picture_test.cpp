#include "gui/data/memory_picture.h"

#include <gtest/gtest.h>

#include "tests/gui/memory_scenarios.h"

namespace shardscope::gui {
namespace {

using shardscope::testing::memory_scenario;

constexpr TimeRange whole{.begin = 0, .end = 60'000};

/// The profiled side is of that rank alone.
ScenarioPointer of_rank(int rank) {
  auto scenario = std::make_shared<Scenario>(*memory_scenario("of a rank"));
  auto trace = std::make_shared<Trace>(*scenario->profiled->ranks.front());
  trace->rank = rank;
  scenario->profiled->ranks = {trace};
  return scenario;
}

// At the profiled peak 3,000 B of activations were predicted and 3,024 B profiled.
TEST(MemoryPicture, DifferencesArePredictedLessProfiled) {
  const MemoryPicture picture =
      memory_picture({.a = memory_scenario("one", 24), .whole = whole, .selected = 3});
  const Extremes& difference = picture.a->selected_difference;
  EXPECT_EQ(difference[difference.over(0, difference.size()).lowest], -24);
}

TEST(MemoryPicture, BHasTheRankThatIsShownOfAOrNone) {
  const MemoryPicture same = memory_picture({.a = of_rank(1), .b = of_rank(1), .whole = whole});
  EXPECT_TRUE(same.b->profiled);
  EXPECT_TRUE(same.b->unmatched.empty());
  const MemoryPicture other = memory_picture({.a = of_rank(0), .b = of_rank(1), .whole = whole});
  EXPECT_FALSE(other.b->profiled);
  EXPECT_EQ(other.b->unmatched, std::vector{SideKind::profiled});
  EXPECT_TRUE(other.b->predicted) << "it stands for all ranks";
}

TEST(MemoryPicture, AnotherGhostLeavesTheCurvesOfAAndB) {
  MemoryPictureRequest request{
      .a = memory_scenario("a"), .b = memory_scenario("b"), .whole = whole};
  const MemoryPicture before = memory_picture(request);
  request.ghost = memory_scenario("ghost");
  const MemoryPicture after = memory_picture(request, {}, before);
  EXPECT_EQ(after.a, before.a);
  EXPECT_EQ(after.b, before.b);
  ASSERT_TRUE(after.ghost);
  EXPECT_EQ(after.ghost->scenario, request.ghost);
}

TEST(MemoryPicture, AnotherAxisMakesAllCurvesAnew) {
  MemoryPictureRequest request{.a = memory_scenario("a"), .whole = whole};
  const MemoryPicture before = memory_picture(request);
  request.mode = TimeMode::time;
  EXPECT_NE(memory_picture(request, {}, before).a, before.a);
}

}  // namespace
}  // namespace shardscope::gui
