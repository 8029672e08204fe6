#include "gui/data/unit_rows.h"

#include <gtest/gtest.h>

#include <cmath>

#include "gui/data/row_sums.h"
#include "gui/data/sort_rows.h"
#include "tests/gui/scenarios.h"

namespace shardscope::gui {
namespace {

using ::shardscope::testing::small_scenario;

double number(const RowTable& rows, std::string_view column, std::size_t row) {
  return rows.table.find(column)->numbers[row];
}
std::string text(const RowTable& rows, std::string_view column, std::size_t row) {
  return rows.table.text(rows.table.place_of(column), row);
}

TEST(UnitTable, HasEachUnitsTimesAndBytesOnBothSides) {
  const RowTable rows = unit_table(*small_scenario("one", 1.25), 0);
  ASSERT_EQ(rows.table.rows, 2u);
  EXPECT_EQ(text(rows, "unit", 0), "layers.0");
  EXPECT_EQ(number(rows, "compute_predicted", 0), 60e3);
  EXPECT_EQ(number(rows, "compute_profiled", 0), 75e3);
  EXPECT_EQ(number(rows, "compute_difference", 0), -15e3) << "predicted - profiled, as errors";
  // Communication [40, 100), of which [60, 100) is beside nothing.
  EXPECT_EQ(text(rows, "unit", 1), "layers.1");
  EXPECT_EQ(number(rows, "communication_predicted", 1), 60e3);
  EXPECT_EQ(number(rows, "exposed_predicted", 1), 40e3);
  EXPECT_EQ(number(rows, "bytes_profiled", 1), 8192);
  // 60 against 75.
  EXPECT_DOUBLE_EQ(number(rows, "error", 1), -0.2);
  EXPECT_EQ(rows.targets[1].unit, "layers.1");
}

TEST(UnitTable, OneQuantityIsWrittenInOneUnit) {
  // Differences are a thousandth of the times, which alone would be written in nanoseconds.
  const RowTable rows = unit_table(*small_scenario("one", 1.001), 0);
  for (const char* figure : {"compute", "communication", "exposed", "bytes"})
    for (const char* side : {"_profiled", "_difference"})
      EXPECT_EQ(rows.table.find(std::string(figure) + side)->unit.name,
                rows.table.find(std::string(figure) + "_predicted")->unit.name)
          << figure << side;
  // 60 ns, which the heat is measured by, and not by 60 us.
  EXPECT_NEAR(rows.table.find("compute_difference")->largest, 60, 1);
}

TEST(OperationTable, HasEachOperationOnBothSidesWithItsDifferenceAndCause) {
  const RowTable rows = operation_table(*small_scenario("one", 1.25), 0);
  ASSERT_EQ(rows.table.rows, 2u);
  EXPECT_EQ(text(rows, "name", 1), "all_gather layers.1");
  EXPECT_EQ(text(rows, "kind", 1), "all_gather");
  EXPECT_EQ(number(rows, "duration_predicted", 1), 60e3);
  EXPECT_EQ(number(rows, "duration_profiled", 1), 75e3);
  EXPECT_EQ(number(rows, "difference", 1), -15e3) << "predicted - profiled, as errors";
  EXPECT_DOUBLE_EQ(number(rows, "error", 1), -0.2);
  EXPECT_EQ(number(rows, "start_profiled", 1), 50e3);
  // The same bytes, in 60 and in 75 us.
  EXPECT_EQ(text(rows, "cause", 1), "bandwidth");
  EXPECT_EQ(rows.targets[1].operation, OperationId{2});
  EXPECT_EQ(rows.targets[1].profiled_span, 1u);
}

TEST(RowOf, FindsUnitsByNameAndOperationsById) {
  const auto scenario = small_scenario("one");
  const RowTable units = unit_table(*scenario, 0), operations = operation_table(*scenario, 0);
  EXPECT_EQ(row_of(units, {.operation = {1}, .unit = "layers.1"}), 1u);
  EXPECT_EQ(row_of(units, {.unit = "lm_head"}), std::nullopt);
  EXPECT_EQ(row_of(operations, {.operation = {2}, .unit = "layers.0"}), 1u);
  EXPECT_EQ(row_of(operations, {.operation = {3}}), std::nullopt);
  EXPECT_EQ(row_of(operations, {.profiled_span = 1}), 1u);
}

TEST(OperationTable, OperationsOfOneSideAreSaidToBeOfOne) {
  Scenario scenario = *small_scenario("one");
  Trace without = *scenario.profiled->ranks[0];
  without.spans.erase(without.spans.begin());
  scenario.profiled->ranks[0] = std::make_shared<const Trace>(without);
  const RowTable rows = operation_table(scenario, 0);
  ASSERT_EQ(rows.table.rows, 2u);
  EXPECT_EQ(text(rows, "cause", 0), "only predicted");
  EXPECT_EQ(text(rows, "unit", 0), "layers.0");
  EXPECT_TRUE(std::isnan(number(rows, "difference", 0)));
  EXPECT_TRUE(std::isnan(number(rows, "duration_profiled", 0)));
}

TEST(OperationTable, OfAMatchedTraceItsMatchedPartIsCompared) {
  Scenario scenario = *small_scenario("one", 2);
  Trace matched = *scenario.profiled->ranks[0];
  // Only the collective was found, as event 7.
  matched.spans.erase(matched.spans.begin());
  RankMatch match;
  match.steps.resize(1);
  match.collectives = {{.operation = {2}, .event = 7, .predicted = 60_us, .profiled = 120_us}};
  scenario.match = SideMatch{.ranks = {match}, .matched = {std::make_shared<const Trace>(matched)}};
  const RowTable rows = operation_table(scenario, 0);
  EXPECT_EQ(number(rows, "duration_profiled", 1), 120e3);
  EXPECT_EQ(rows.targets[1].event, 7u);
  EXPECT_FALSE(rows.targets[1].profiled_span);
  EXPECT_EQ(text(rows, "cause", 0), "only predicted");
}

TEST(OperationTable, WithoutAScheduleEverySpanIsARow) {
  Scenario scenario = *small_scenario("one");
  scenario.predicted.reset();
  Trace foreign = *scenario.profiled->ranks[0];
  for (Span& span : foreign.spans) span.operation = {};
  foreign.facts.clear();
  scenario.profiled->ranks[0] = std::make_shared<const Trace>(foreign);
  const RowTable rows = operation_table(scenario, 0);
  ASSERT_EQ(rows.table.rows, 2u);
  EXPECT_EQ(text(rows, "name", 1), "all_gather layers.1");
  EXPECT_EQ(text(rows, "kind", 1), "communication");
  EXPECT_EQ(text(rows, "stream", 1), "unshard");
  EXPECT_EQ(target_of(rows, 1).profiled_span, 1u);
  EXPECT_EQ(row_of(rows, {.profiled_span = 1}), 1u);
  EXPECT_EQ(row_of(rows, {.profiled_span = 2}), std::nullopt);
}

TEST(OperationTable, WithoutATraceThereIsAReason) {
  const RowTable rows = operation_table(Scenario{}, 0);
  EXPECT_EQ(rows.table.rows, 0u);
  EXPECT_FALSE(rows.problem.empty());
}

TEST(RowSums, AddWhatRowsHave) {
  const RowTable rows = operation_table(*small_scenario("one", 1.25), 0);
  // Twice 60 and twice 75 us; 4096 and 8192 bytes.
  EXPECT_EQ(sums_text(rows.table, all_rows(2)),
            "Duration, predicted 120 us  \u00b7  Duration, profiled 150 us  \u00b7  Difference, "
            "predicted less profiled -30.0 us  \u00b7  Bytes, predicted 12.0 KiB  \u00b7  Bytes, "
            "profiled 12.0 KiB");
}

}  // namespace
}  // namespace shardscope::gui
