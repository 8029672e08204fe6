#include "gui/data/predicted_place.h"

#include <gtest/gtest.h>

#include <memory>

namespace shardscope::gui {
namespace {

Side side_of(SideKind kind, std::initializer_list<int> ranks) {
  Side side{.kind = kind};
  for (const int rank : ranks) {
    Trace trace;
    trace.rank = rank;
    side.ranks.push_back(std::make_shared<const Trace>(std::move(trace)));
  }
  side.summary = Summary{};
  side.summary->world = 4;
  return side;
}

// Four ranks in two stages: 0 and 1 are the first one's, 2 and 3 the second one's.
TEST(PredictedPlace, IsOfTheStageThatTheRankIsIn) {
  Scenario scenario;
  scenario.predicted = side_of(SideKind::predicted, {0, 2});
  scenario.profiled = side_of(SideKind::profiled, {0, 1, 2, 3});
  for (std::size_t place = 0; place < 4; ++place)
    EXPECT_EQ(predicted_place(scenario, place), place / 2) << place;
  // Of a profile of some ranks their numbers count.
  scenario.profiled = side_of(SideKind::profiled, {3});
  EXPECT_EQ(predicted_place(scenario, 0), 1U);
}

TEST(PredictedPlace, IsTheOnlyOneWithoutAPipelineAndItsOwnWithoutAProfile) {
  Scenario scenario;
  scenario.predicted = side_of(SideKind::predicted, {0});
  scenario.profiled = side_of(SideKind::profiled, {0, 1, 2, 3});
  EXPECT_EQ(predicted_place(scenario, 3), 0U);
  scenario.predicted = side_of(SideKind::predicted, {0, 2});
  scenario.profiled.reset();
  EXPECT_EQ(predicted_place(scenario, 1), 1U);
}

}  // namespace
}  // namespace shardscope::gui
