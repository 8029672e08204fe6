#include "gui/timeline/exposed_reason.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "gui/data/open_run.h"
#include "gui/timeline/range_figures.h"
#include "gui/timeline/span_details.h"
#include "tests/gui/scenarios.h"

namespace shardscope::gui {
namespace {

using ::shardscope::testing::late_rank_scenario;
using ::shardscope::testing::small_scenario;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// Where the all_gather of that side's rank is drawn.
SpanPlace gather_of(const TimelineData& data, SideKind side, std::size_t rank = 0) {
  for (std::size_t source = 0; source < data.sources.size(); ++source)
    if (data.sources[source]->side == side && data.sources[source]->rank == rank)
      return *place_of(data, source, LaneItems::spans, 1);
  ADD_FAILURE();
  return {};
}

TEST(ExposedReason, ARankThatCameLateIsNamedWithHowMuch) {
  // [40, 100) us, of which compute hides 20 us; rank 1 comes 30 us late, more than half of the 40.
  const TimelineData data = prepare_timeline({.a = late_rank_scenario("one", 30)});
  const SpanPlace place = gather_of(data, SideKind::profiled);
  const auto time = exposed_time(data, place);
  ASSERT_TRUE(time);
  EXPECT_EQ(time->exposed, 40_us);
  EXPECT_EQ(time->whole, 60_us);
  EXPECT_EQ(exposed_reason(data, place), "40.0 us of 60.0 us exposed: rank 1 came 30.0 us late");
}

TEST(ExposedReason, ALittleLatenessIsNotWhatItIsExposedFor) {
  const TimelineData data = prepare_timeline({.a = late_rank_scenario("one", 10)});
  EXPECT_THAT(exposed_reason(data, gather_of(data, SideKind::profiled)),
              ::testing::Not(HasSubstr("rank 1")));
}

TEST(ExposedReason, WhatTookLongerThanPredictedSaysBoth) {
  // Predicted 60 us, profiled 180 us, of which [180, 300) us are exposed.
  const TimelineData data = prepare_timeline({.a = small_scenario("one", 3)});
  EXPECT_EQ(exposed_reason(data, gather_of(data, SideKind::profiled)),
            "120 us of 180 us exposed: it took 180 us, and 60.0 us were predicted");
}

TEST(ExposedReason, OfTheLastCollectiveNothingIsLeftToCompute) {
  const TimelineData data = prepare_timeline({.a = small_scenario("one", 1)});
  EXPECT_EQ(exposed_reason(data, gather_of(data, SideKind::predicted)),
            "40.0 us of 60.0 us exposed: no computation follows it in this step");
}

TEST(ExposedReason, WhatWaitsForItIsNamed) {
  Scenario scenario = *small_scenario("one", 1);
  Trace trace = *scenario.predicted->ranks[0];
  trace.names.push_back("forward layers.1");
  Span next = trace.spans[0];
  next.start = 100_us;
  next.name = 2;
  next.operation = {3};
  trace.spans.push_back(next);
  scenario.predicted->ranks = {std::make_shared<const Trace>(trace)};
  scenario.profiled.reset();
  const TimelineData data =
      prepare_timeline({.a = std::make_shared<const Scenario>(std::move(scenario))});
  EXPECT_EQ(exposed_reason(data, gather_of(data, SideKind::predicted)),
            "40.0 us of 60.0 us exposed: nothing else is ready: forward layers.1 waits for it");
}

TEST(ExposedReason, WhatIsHiddenOrNoCollectiveHasNone) {
  const TimelineData data = prepare_timeline({.a = small_scenario("one", 1)});
  SpanPlace compute = gather_of(data, SideKind::predicted);
  compute = *place_of(data, compute.source, LaneItems::spans, 0);
  EXPECT_EQ(exposed_time(data, compute), std::nullopt);
  EXPECT_EQ(exposed_reason(data, compute), "");
  EXPECT_EQ(prefetch_remedy(data, gather_of(data, SideKind::predicted)), "")
      << "it is no run whose settings could be changed";
}

TEST(ExposedReason, IsPartOfWhatAScreenReaderSays) {
  const TimelineData data = prepare_timeline({.a = small_scenario("one", 1)});
  const SpanPlace place = gather_of(data, SideKind::predicted);
  const std::string said = announcement(span_details(data, place), exposed_reason(data, place));
  EXPECT_THAT(said, StartsWith("all_gather layers.1, one predicted, rank 0, unshard, begin 40.0 us "
                               "on the axis, 60.0 us"));
  EXPECT_THAT(said, HasSubstr("unit layers.1"));
  EXPECT_THAT(said, HasSubstr("40.0 us of 60.0 us exposed: "));
}

/// A run that `simulate` left, without prefetching.
class PrefetchRemedy : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(SHARDSCOPE_PROGRAM))
      GTEST_SKIP() << "the program shardscope is not built";
    folder_ =
        std::filesystem::temp_directory_path() / ("prefetch_remedy." + std::to_string(getpid()));
    const std::string command =
        std::string("'") + SHARDSCOPE_PROGRAM +
        "' simulate --model '" SOURCE_ROOT
        "/examples/demo/model' --world 2 --strategy full_shard --batch 4 --seq 128 --prefetch off "
        "--cluster '" SOURCE_ROOT "/tests/gui/two_ranks.json' --quiet --json -o '" +
        folder_.string() + "' > /dev/null";
    ASSERT_EQ(std::system(command.c_str()), 0);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
};

TEST_F(PrefetchRemedy, SaysWhichPrefetchWouldHideAGatherOfTheForward) {
  const TimelineData data = prepare_timeline({.a = open_run(folder_)});
  // Gathers of the forward but the first of the step wait for the block before: with forward
  // prefetch they run behind it.
  std::string sentence;
  for (const ExposedStretch& stretch : longest_exposed(data, {.begin = 0, .end = 1e12})) {
    const TimelineRank& rank = *data.sources[stretch.place.source];
    const auto span = span_of(data, stretch.place);
    const OperationFacts* facts = span ? rank.facts_of(rank.operation_of(*span)) : nullptr;
    if (facts == nullptr || facts->kind != OperationKind::all_gather ||
        facts->phase != Phase::forward || facts->unit != "transformer.h.3")
      continue;
    sentence = prefetch_remedy(data, stretch.place);
    break;
  }
  EXPECT_THAT(sentence, StartsWith("prefetch both would ")) << sentence;
}

}  // namespace
}  // namespace shardscope::gui
