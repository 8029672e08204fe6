#include "gui/data/trace_times.h"

#include <gmock/gmock.h>

#include "gui/data/side_times.h"
#include "tests/gui/scenarios.h"

namespace shardscope::gui {
namespace {

using shardscope::testing::small_scenario;

/// Two steps from 1,000 ns on; the second has forward of unit a twice, of b once, and a
/// collective.
Trace two_steps() {
  Trace trace;
  trace.kind = TraceKind::profiled;
  trace.names = {"x"};
  trace.tracks = {{.name = "compute", .stream = Stream::compute}};
  const auto add = [&](std::int64_t start, std::uint32_t operation, int step, SpanClass of) {
    trace.spans.push_back({.start = {start},
                           .duration = {20},
                           .span_class = of,
                           .operation = {operation},
                           .step = step});
  };
  add(1000, 1, 1, SpanClass::compute);
  add(1080, 2, 1, SpanClass::compute);
  add(1105, 4, 2, SpanClass::communication);
  add(1110, 1, 2, SpanClass::compute);
  add(1130, 3, 2, SpanClass::compute);
  add(1150, 2, 2, SpanClass::compute);
  add(1180, 1, 2, SpanClass::compute);
  for (std::uint32_t operation = 1; operation <= 4; ++operation)
    trace.facts.push_back({.operation = {operation},
                           .phase = Phase::forward,
                           .unit = operation % 2 == 1 ? "a" : "b"});
  return trace;
}

TEST(TraceTimes, LandmarksAreTheFirstComputeOfAUnitInTheShownStep) {
  const Trace trace = two_steps();
  const TraceTimes times = measure_times(trace);
  EXPECT_EQ(times.device, (TimeWindow{.begin = {1000}, .end = {1200}}));
  // Of two steps, 100 and 95 ns, the lower median is the second.
  EXPECT_EQ(times.step, (TimeWindow{.begin = {1105}, .end = {1200}}));
  EXPECT_THAT(times.landmarks,
              ::testing::ElementsAre(std::pair(Landmark{"a", Phase::forward, 0}, 1110.0),
                                     std::pair(Landmark{"b", Phase::forward, 0}, 1150.0)));
}

TEST(TraceTimes, AChosenStepHasItsOwnWindowAndLandmarks) {
  const TraceTimes times = measure_times(two_steps(), 1);
  EXPECT_EQ(times.step, (TimeWindow{.begin = {1000}, .end = {1100}}));
  EXPECT_THAT(times.landmarks,
              ::testing::ElementsAre(std::pair(Landmark{"a", Phase::forward, 0}, 1000.0),
                                     std::pair(Landmark{"b", Phase::forward, 0}, 1080.0)));
}

TEST(TraceTimes, OfALaterStepAPredictionShowsItsLastAndAProfileTheTypicalOne) {
  const std::vector<StepWindow> steps{{.step = 1, .window = {.begin = {0}, .end = {90}}},
                                      {.step = 2, .window = {.begin = {90}, .end = {130}}},
                                      {.step = 3, .window = {.begin = {130}, .end = {180}}}};
  // Without the first, 40 and 50 ns: the lower median is step 2.
  EXPECT_EQ(window_of(TraceKind::predicted, steps, 7), steps[2].window);
  EXPECT_EQ(window_of(TraceKind::profiled, steps, 7), steps[1].window);
  EXPECT_EQ(window_of(TraceKind::profiled, steps, 3), steps[2].window);
  EXPECT_EQ(window_of(TraceKind::profiled, steps, {}), steps[1].window);
}

TEST(TraceTimes, StepsOfBothSidesAreKnownByNumber) {
  auto scenario = std::make_shared<Scenario>(*small_scenario("one"));
  scenario->profiled->ranks = {std::make_shared<const Trace>(two_steps())};
  Trace predicted = two_steps();
  predicted.kind = TraceKind::predicted;
  for (Span& span : predicted.spans) span.step += 1;
  scenario->predicted->ranks = {std::make_shared<const Trace>(predicted)};
  const ScenarioPointer shown = scenario;
  EXPECT_THAT(
      known_steps({&shown, 1}),
      ::testing::ElementsAre(KnownStep{.number = 1, .is_profiled = true},
                             KnownStep{.number = 2, .is_predicted = true, .is_profiled = true},
                             KnownStep{.number = 3, .is_predicted = true, .is_steady = true}));
}

TEST(TraceTimes, AreMeasuredOnceWhileTheTraceLives) {
  auto trace = std::make_shared<const Trace>(two_steps());
  const auto times = times_of(trace);
  EXPECT_EQ(times_of(trace), times);
  // Another trace, wherever it lies, has its own.
  trace.reset();
  Trace other = two_steps();
  for (Span& span : other.spans) span.start = span.start + Duration{500};
  trace = std::make_shared<const Trace>(other);
  EXPECT_EQ(times_of(trace)->device, (TimeWindow{.begin = {1500}, .end = {1700}}));
}

TEST(SideTimes, AUnitThatTheReferenceLacksMovesWithTheOthers) {
  const ScenarioPointer reference = small_scenario("one");
  auto scenario = std::make_shared<Scenario>(*small_scenario("two", 2, 300));
  Trace stranger = *scenario->profiled->ranks[0];
  stranger.facts[0].unit = "layers.9";
  scenario->profiled->ranks = {std::make_shared<const Trace>(stranger)};
  const TimeMap map = time_map(*scenario, SideKind::profiled, 0, TimeMode::unit, reference.get());
  // No landmark is shared: begin on begin, end on end, 200 us on 100.
  EXPECT_DOUBLE_EQ(map.axis_of(300'000), 0);
  EXPECT_DOUBLE_EQ(map.axis_of(400'000), 50'000);
  EXPECT_DOUBLE_EQ(map.axis_of(500'000), 100'000);
}

}  // namespace
}  // namespace shardscope::gui
