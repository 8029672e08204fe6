#include <gtest/gtest.h>

#include <cmath>

#include "gui/data/unit_rows.h"
#include "tests/gui/memory_scenarios.h"
#include "tests/gui/scenarios.h"

namespace shardscope::gui {
namespace {

using ::shardscope::testing::memory_scenario;
using ::shardscope::testing::small_scenario;

double number(const RowTable& rows, std::string_view column, std::size_t row) {
  return rows.table.find(column)->numbers[row];
}
std::string text(const RowTable& rows, std::string_view column, std::size_t row) {
  return rows.table.text(rows.table.place_of(column), row);
}

/// `small_scenario` whose profiled all_gather is called otherwise.
ScenarioPointer with_other_gather(const std::string& label, double stretch) {
  Scenario scenario = *small_scenario(label, stretch);
  Trace trace = *scenario.profiled->ranks[0];
  trace.names[1] = trace.facts[1].name = "all_gather layers.7";
  trace.facts[1].unit = "layers.7";
  scenario.profiled->ranks = {std::make_shared<const Trace>(trace)};
  return std::make_shared<const Scenario>(std::move(scenario));
}

TEST(UnitPairTable, HasBothScenariosProfiledTimesAndBLessA) {
  // Compute 60 us and all_gather [40, 100) us, times 1.25 and times 2.
  const RowTable rows = unit_pair_table(*small_scenario("a", 1.25), *small_scenario("b", 2), 0);
  ASSERT_EQ(rows.table.rows, 2u);
  EXPECT_EQ(text(rows, "unit", 0), "layers.0");
  EXPECT_EQ(number(rows, "compute_a", 0), 75e3);
  EXPECT_EQ(number(rows, "compute_b", 0), 120e3);
  EXPECT_EQ(number(rows, "compute_difference", 0), 45e3);
  // 40 us are exposed, times 1.25 and times 2.
  EXPECT_EQ(number(rows, "exposed_a", 1), 50e3);
  EXPECT_EQ(number(rows, "exposed_difference", 1), 30e3);
  EXPECT_NE(rows.table.find("compute_a")->title.find("A profiled"), std::string::npos);
}

TEST(UnitPairTable, WithoutAProfiledSideOfBothThePredictedOnesAreCompared) {
  Scenario planned = *small_scenario("b", 2);
  planned.profiled.reset();
  const RowTable rows = unit_pair_table(*small_scenario("a", 1.25), planned, 0);
  EXPECT_EQ(number(rows, "compute_a", 0), 60e3);
  EXPECT_NE(rows.table.find("compute_a")->title.find("A predicted"), std::string::npos);
  planned.predicted.reset();
  EXPECT_FALSE(unit_pair_table(*small_scenario("a"), planned, 0).problem.empty());
}

TEST(OperationPairTable, OperationsAreMatchedByNameAndThoseOfOneAreSaidToBe) {
  const RowTable rows =
      operation_pair_table(*small_scenario("a", 1.25), *with_other_gather("b", 2), 0);
  ASSERT_EQ(rows.table.rows, 3u);
  EXPECT_EQ(text(rows, "name", 0), "forward layers.0");
  EXPECT_EQ(number(rows, "duration_a", 0), 75e3);
  EXPECT_EQ(number(rows, "duration_b", 0), 120e3);
  EXPECT_EQ(number(rows, "difference", 0), 45e3);
  EXPECT_EQ(text(rows, "in", 0), "both");
  EXPECT_EQ(text(rows, "in", 1), "only A");
  EXPECT_TRUE(std::isnan(number(rows, "difference", 1)));
  EXPECT_EQ(text(rows, "name", 2), "all_gather layers.7");
  EXPECT_EQ(text(rows, "in", 2), "only B");
}

TEST(OperationPairTable, ARowIsFoundByTheOperationOfTheScenarioThatHasIt) {
  const RowTable rows =
      operation_pair_table(*small_scenario("a", 1.25), *with_other_gather("b", 2), 0);
  EXPECT_EQ(row_of(rows, {.operation = {2}}), 1u);
  EXPECT_EQ(row_of(rows, {.operation = {2}, .is_of_b = true}), 2u);
  EXPECT_EQ(row_of(rows, {.operation = {1}, .is_of_b = true}), std::nullopt) << "it is A's row";
}

TEST(UnitTable, AWhatIfStandsBesideBothSides) {
  const ScenarioPointer tried = small_scenario("tried");  // its prediction is of 60 us
  const RowTable units = unit_table(*small_scenario("one", 1.25), 0, tried.get());
  EXPECT_EQ(number(units, "compute_profiled", 0), 75e3);
  EXPECT_EQ(number(units, "compute_what_if", 0), 60e3);
  const RowTable operations = operation_table(*small_scenario("one", 1.25), 0, {}, tried.get());
  EXPECT_EQ(number(operations, "duration_what_if", 1), 60e3);
  EXPECT_EQ(unit_table(*small_scenario("one"), 0).table.find("compute_what_if"), nullptr);
}

TEST(UnitTable, ARowKnowsWhenItsUnitFirstRuns) {
  const RowTable rows = unit_table(*small_scenario("one", 1.25, 500), 0);
  EXPECT_EQ(rows.targets[0].predicted, (TimeWindow{.begin = {}, .end = {60'000}}));
  EXPECT_EQ(rows.targets[0].profiled, (TimeWindow{.begin = {500'000}, .end = {575'000}}));
}

TEST(MemoryTable, ListsTheLargestDifferencesAtThePeakByUnitAndCategory) {
  // At the peaks: weights 1000 B (root), gathered 2000 B and activations 3000 B of layers.0;
  // profiled 500 B of activations more, which no buffer of the schedule is.
  const RowTable rows = memory_table(*memory_scenario("one", 500), 0);
  ASSERT_EQ(rows.table.rows, 4u);
  EXPECT_EQ(text(rows, "unit", 0), "(not listed by name)");
  EXPECT_EQ(text(rows, "category", 0), "activations");
  EXPECT_EQ(number(rows, "difference", 0), -500) << "predicted - profiled, as errors";
  double predicted = 0, profiled = 0;
  for (std::size_t row = 0; row < 4; ++row) {
    predicted += number(rows, "memory_predicted", row);
    profiled += number(rows, "memory_profiled", row);
  }
  EXPECT_EQ(predicted, 6000);
  EXPECT_EQ(profiled, 6500);
}

TEST(MemoryPairTable, IsBLessAOfTheProfiledPeaks) {
  const RowTable rows = memory_pair_table(*memory_scenario("a"), *memory_scenario("b", 500), 0);
  EXPECT_EQ(number(rows, "memory_a", 0), 0);
  EXPECT_EQ(number(rows, "memory_b", 0), 500);
  EXPECT_EQ(number(rows, "difference", 0), 500);
}

TEST(CommonModules, AreThoseThatAllNamesShareAndANumberStaysWithWhatItCounts) {
  EXPECT_EQ(common_modules({"(root)", "transformer.h.0", "transformer.h.1", "transformer.wte"}),
            "transformer.");
  EXPECT_EQ(common_modules({"transformer.h.0", "transformer.h.1"}), "transformer.");
  EXPECT_EQ(common_modules({"model.layers.0.mlp a.b", "model.layers.0.attn c"}), "model.layers.0.");
  EXPECT_EQ(common_modules({"transformer.h.0", "lm_head.weight"}), "");
  EXPECT_EQ(common_modules({"transformer.h.0", "(root)"}), "") << "one name alone is shown whole";
}

}  // namespace
}  // namespace shardscope::gui
