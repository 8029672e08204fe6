#include "gui/base/workspace.h"

#include <gtest/gtest.h>

#include "tests/gui/scenarios.h"

namespace shardscope::gui {
namespace {

using shardscope::testing::small_scenario;

TEST(Workspace, TheFirstScenarioIsA) {
  Workspace workspace;
  const auto one = small_scenario("one"), two = small_scenario("two");
  workspace.add(one);
  workspace.add(two);
  EXPECT_EQ(workspace.a(), one);
  EXPECT_EQ(workspace.b(), nullptr);
}

TEST(Workspace, ChoosingBAsAChangesPlaces) {
  Workspace workspace;
  const auto one = small_scenario("one"), two = small_scenario("two");
  workspace.add(one);
  workspace.add(two);
  workspace.set_b(two);
  workspace.set_a(two);
  EXPECT_EQ(workspace.a(), two);
  EXPECT_EQ(workspace.b(), one);
}

TEST(Workspace, OpeningAgainTakesThePlaceOfTheOldOne) {
  Workspace workspace;
  workspace.add(small_scenario("one"));
  const auto again = small_scenario("one");
  workspace.add(again);
  ASSERT_EQ(workspace.scenarios().size(), 1u);
  EXPECT_EQ(workspace.a(), again);
}

TEST(Workspace, ScenariosOfOneLabelAreToldApartByTheirFolders) {
  const auto at = [](const std::string& path) {
    Scenario made = *small_scenario("same");
    made.path = path;
    return std::make_shared<const Scenario>(std::move(made));
  };
  Workspace workspace;
  workspace.add(at("first/run"));
  workspace.select({.scenario = workspace.a(), .operation = {1}});
  EXPECT_EQ(workspace.a()->label, "same");
  workspace.add(at("second/run"));
  ASSERT_EQ(workspace.scenarios().size(), 2u);
  EXPECT_EQ(workspace.scenarios()[0]->label, "same (first)");
  EXPECT_EQ(workspace.scenarios()[1]->label, "same (second)");
  EXPECT_EQ(workspace.a(), workspace.scenarios()[0]) << "it stays A under its new label";
  EXPECT_EQ(workspace.selection().scenario, workspace.a());
  EXPECT_EQ(workspace.selection().operation, OperationId{1});
  workspace.add(at("second/run"));  // read again
  EXPECT_EQ(workspace.scenarios()[1]->label, "same (second)");
}

TEST(Workspace, TheAxisReachesOverBothSides) {
  Workspace workspace;
  workspace.add(small_scenario("one", 1.25, 500));
  EXPECT_EQ(workspace.whole(), (TimeRange{.begin = 0, .end = 125'000}))
      << "each side from its step's begin";
}

TEST(Workspace, AlignedByUnitBothSidesEndAtOnce) {
  Workspace workspace;
  workspace.add(small_scenario("one", 1.25, 500));
  workspace.set_time_mode(TimeMode::unit);
  EXPECT_EQ(workspace.whole(), (TimeRange{.begin = 0, .end = 100'000}));
  const TimeMap map = workspace.time_map(*workspace.a(), SideKind::profiled, 0);
  EXPECT_DOUBLE_EQ(map.axis_of(500'000 + 62'500), 50'000);
}

/// Two profiled steps of 100 us and 95 us, at 1,000 us on its clock.
ScenarioPointer two_steps() {
  auto scenario = std::make_shared<Scenario>(*small_scenario("two", 1, 1000));
  scenario->predicted.reset();
  Trace trace = *scenario->profiled->ranks[0];
  for (Span span : std::vector<Span>(trace.spans)) {
    span.start = span.start + Duration{100'000};
    span.duration = span.duration - Duration{5'000};
    span.step = 2;
    trace.spans.push_back(span);
  }
  scenario->profiled->ranks = {std::make_shared<const Trace>(trace)};
  return scenario;
}

TEST(Workspace, TheAxisBeginsWithTheChosenStepAndTheRangeFollows) {
  Workspace workspace;
  workspace.add(two_steps());
  EXPECT_EQ(workspace.whole(), (TimeRange{.begin = 0, .end = 95'000})) << "the lower median";
  workspace.set_step(1);
  ASSERT_TRUE(workspace.tasks().wait_until_idle(60'000));
  EXPECT_EQ(workspace.step(), StepChoice(1));
  EXPECT_EQ(workspace.visible(), (TimeRange{.begin = 0, .end = 100'000}));
  EXPECT_DOUBLE_EQ(workspace.time_map(*workspace.a(), SideKind::profiled, 0).axis_of(1'000'000), 0);
}

TEST(Workspace, OnASidesOwnClockTheRangeMovesToTheChosenStep) {
  Workspace workspace;
  workspace.add(two_steps());
  workspace.set_time_mode(TimeMode::time);
  EXPECT_EQ(workspace.whole(), (TimeRange{.begin = 0, .end = 195'000}));
  workspace.set_step(2);
  ASSERT_TRUE(workspace.tasks().wait_until_idle(60'000));
  EXPECT_EQ(workspace.visible(), (TimeRange{.begin = 100'000, .end = 195'000}));
}

TEST(Workspace, AnotherScenarioShowsItsTypicalStep) {
  Workspace workspace;
  workspace.add(two_steps());
  workspace.add(small_scenario("one"));
  workspace.set_step(1);
  ASSERT_TRUE(workspace.tasks().wait_until_idle(60'000));
  workspace.set_a(workspace.scenarios()[1]);
  EXPECT_EQ(workspace.step(), StepChoice());
}

TEST(Workspace, ANoteStaysAtItsInstantWhateverTheAxisMeans) {
  Workspace workspace;
  workspace.add(two_steps());
  const auto note = workspace.note_at(10'000, "late");  // on the clock: 1,100 + 10 us
  ASSERT_TRUE(note.has_value());
  EXPECT_DOUBLE_EQ(note->clock_ns, 1'110'000);
  workspace.set_time_mode(TimeMode::time);
  EXPECT_DOUBLE_EQ(*workspace.axis_time_of(*note), 110'000);
  TimeNote other = *note;
  other.scenario = "elsewhere";
  EXPECT_EQ(workspace.axis_time_of(other), std::nullopt);
}

TEST(Workspace, ZoomCanBeUndone) {
  Workspace workspace;
  workspace.add(small_scenario("one"));
  const TimeRange all = workspace.visible();
  workspace.show({.begin = 10'000, .end = 20'000});
  EXPECT_NE(workspace.visible(), all);
  workspace.undo_zoom();
  EXPECT_EQ(workspace.visible(), all);
}

TEST(Workspace, ClosingAMakesBTheOneThatIsShown) {
  Workspace workspace;
  const auto one = small_scenario("one"), two = small_scenario("two");
  workspace.add(one);
  workspace.add(two);
  workspace.set_b(two);
  workspace.remove(one);
  EXPECT_EQ(workspace.a(), two);
  EXPECT_EQ(workspace.b(), nullptr);
}

}  // namespace
}  // namespace shardscope::gui
