#include "gui/data/strategy_rows.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/gui/scenarios.h"

namespace shardscope::gui {
namespace {

/// A profiled row of so many milliseconds and MiB.
StrategyRow row(const std::string& strategy, std::int64_t ms, std::int64_t mib) {
  return {.label = strategy,
          .strategy = strategy,
          .profiled = SideFigures{.step = 1_ms * ms, .peak = 1_MiB * mib}};
}

TEST(StrategyRows, FiguresOfBothSidesComeFromTheirSummariesAndTraces) {
  const StrategyRow row = strategy_row(shardscope::testing::small_scenario("one", 1.25));
  ASSERT_TRUE(row.predicted && row.profiled);
  EXPECT_EQ(row.strategy, "full_shard");
  EXPECT_EQ(row.predicted->step, 100_us);
  EXPECT_EQ(row.profiled->step, 125_us);
  EXPECT_EQ(row.profiled->peak, 15_MiB);
  // Of [40, 100) the first 20 us are beside compute [0, 60).
  EXPECT_DOUBLE_EQ(*row.predicted->overlap_share(), 1.0 / 3);
  EXPECT_EQ(row.predicted->traffic, (StepTraffic{.collectives = 1, .bytes = {8192}}));
}

TEST(StrategyRows, TheMarginIsWhatReservedAndOutsideLeave) {
  StrategyRow one = row("full_shard", 1, 500);
  EXPECT_FALSE(one.margin());
  one.device_memory = 1000_MiB;
  EXPECT_EQ(one.margin(), 500_MiB);
  one.profiled->reserved = 700_MiB;
  one.profiled->outside = 400_MiB;
  EXPECT_EQ(one.margin(), Bytes{} - 100_MiB);
}

/// A prediction of 1000 MiB of device memory, 100 of them outside.
std::shared_ptr<Scenario> predicted_on_1000_mib() {
  auto scenario = std::make_shared<Scenario>();
  scenario->predicted = Side{.kind = SideKind::predicted, .summary = Summary{}};
  scenario->predicted->summary->device_memory = 1000_MiB;
  scenario->predicted->summary->memory.outside = 100_MiB;
  return scenario;
}

// The steady step reserves 600 MiB and the second one 700: 1000 - 700 - 100 are left.
TEST(StrategyRows, TheMarginIsThatOfTheLargestStep) {
  const auto scenario = predicted_on_1000_mib();
  Summary& summary = *scenario->predicted->summary;
  summary.memory.peak_reserved = 600_MiB;
  summary.steps.resize(2);
  summary.steps[1].memory.peak_reserved = 700_MiB;
  EXPECT_EQ(strategy_row(scenario).margin(), 200_MiB);
}

TEST(StrategyRows, WithoutMemoryNothingIsSaidOfFitting) {
  const StrategyRow row = strategy_row(predicted_on_1000_mib());
  EXPECT_FALSE(row.margin());
  const ColumnTable table = strategy_table({row});
  EXPECT_EQ(table.text(table.place_of("fits"), 0), "?");
}

TEST(StrategyRows, WhatIsNotShardedIsTheBaselineElseTheFastest) {
  EXPECT_EQ(default_baseline({row("full_shard", 5, 1), row("no_shard", 9, 1)}), 1u);
  EXPECT_EQ(default_baseline({row("full_shard", 5, 1), row("zero1", 4, 1)}), 1u);
  EXPECT_EQ(default_baseline({}), std::nullopt);
}

// 850 MiB are reserved, 100 asked for and 100 outside: 50 more than the device has.
TEST(StrategyRows, ARunOutOfMemoryHasNoTimesAndIsNoBaseline) {
  Summary summary;
  summary.strategy = "no_shard";
  summary.fits = false;
  summary.device_memory = 1000_MiB;
  summary.memory.outside = 100_MiB;
  summary.out_of_memory =
      OutOfMemorySummary{.step = "setup", .requested = 100_MiB, .reserved = 850_MiB};
  Scenario scenario{.label = "no_shard x2"};
  scenario.predicted = Side{.kind = SideKind::predicted};
  scenario.predicted->summary = summary;
  const StrategyRow failed = strategy_row(std::make_shared<const Scenario>(scenario));
  EXPECT_TRUE(failed.ran_out());
  EXPECT_EQ(failed.margin(), Bytes{} - 50_MiB);
  const ColumnTable table = strategy_table({failed, row("full_shard", 5, 1)});
  for (const char* id : {"step_predicted", "exposed_predicted", "compute_predicted",
                         "communication_predicted", "idle_predicted", "collectives_predicted"})
    EXPECT_TRUE(std::isnan(table.find(id)->numbers[0])) << id;
  EXPECT_EQ(default_baseline({failed, row("full_shard", 5, 1)}), 1u);
  EXPECT_EQ(default_baseline({failed}), 0u);
}

TEST(StrategyRows, TheFrontHasWhatNoOtherBeatsInBoth) {
  // The third is beaten by the first (faster, as small); the last has no memory.
  std::vector<StrategyRow> rows = {row("a", 10, 100), row("b", 20, 50), row("c", 15, 100),
                                   row("d", 30, 50), row("e", 1, 1)};
  rows.back().profiled->peak.reset();
  EXPECT_EQ(pareto_front(rows), (std::vector<bool>{true, true, false, false, false}));
}

TEST(StrategyRows, WhatDoesNotFitIsOnNoFrontAndBeatsNothing) {
  std::vector<StrategyRow> rows = {row("a", 10, 100), row("b", 20, 50)};
  rows[0].fits = false;
  EXPECT_EQ(pareto_front(rows), (std::vector<bool>{false, true}));
}

TEST(StrategyRows, TheTableHasBothSidesAndTheirSignedError) {
  StrategyRow one = row("full_shard", 125, 15);
  one.predicted = SideFigures{.step = 100_ms, .peak = 15_MiB};
  const ColumnTable table = strategy_table({one, row("zero1", 80, 20)});
  ASSERT_EQ(table.rows, 2u);
  EXPECT_EQ(table.find("step_predicted")->numbers[0], 100e6);
  EXPECT_EQ(table.find("step_profiled")->numbers[0], 125e6);
  EXPECT_DOUBLE_EQ(table.find("step_error")->numbers[0], -0.2);
  EXPECT_TRUE(std::isnan(table.find("step_error")->numbers[1]));
  EXPECT_EQ(table.find("step_predicted")->look, CellLook::predicted);
  EXPECT_EQ(table.find("step_profiled")->look, CellLook::profiled);
}

}  // namespace
}  // namespace shardscope::gui
