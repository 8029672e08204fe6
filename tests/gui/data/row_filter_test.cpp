#include "gui/data/row_filter.h"

#include <gtest/gtest.h>

#include "gui/data/sort_rows.h"

namespace shardscope::gui {
namespace {

/// Row: unit, kind, difference in ns, bytes.
ColumnTable small_table() {
  ColumnTable table{.columns = {}, .rows = 4};
  Column unit{.id = "unit"}, kind{.id = "kind"};
  set_texts(unit, {"layers.0", "layers.1", "layers.10", ""});
  set_texts(kind, {"all_gather", "compute", "all_gather", "compute"});
  Column difference{.id = "difference",
                    .quantity = Quantity::duration,
                    .look = CellLook::difference,
                    .numbers = {2e6, -5e6, 1e5, no_number}};
  Column bytes{
      .id = "bytes", .quantity = Quantity::bytes, .numbers = {4194304, 1048576, 0, 8388608}};
  table.columns = {unit, kind, difference, bytes};
  set_units(table);
  return table;
}

std::vector<std::uint32_t> rows_for(std::string_view filter) {
  const ColumnTable table = small_table();
  return filtered_rows(table, parse_filter(filter, table), all_rows(table.rows), {});
}

using Rows = std::vector<std::uint32_t>;

TEST(RowFilter, NothingTypedShowsAll) { EXPECT_EQ(rows_for("  "), (Rows{0, 1, 2, 3})); }

TEST(RowFilter, AWordIsLookedForInAnyTextInEitherCase) {
  EXPECT_EQ(rows_for("LAYERS.1"), (Rows{1, 2}));
}

TEST(RowFilter, ColumnsAreNamedByTheirWordAndAllConditionsHold) {
  EXPECT_EQ(rows_for("unit:layers kind:gather"), (Rows{0, 2}));
}

TEST(RowFilter, AMinusTurnsAConditionRound) {
  EXPECT_EQ(rows_for("-kind:all_gather"), (Rows{1, 3}));
}

TEST(RowFilter, NumbersAreComparedByMagnitudeWithTheirUnits) {
  EXPECT_EQ(rows_for("difference>1ms"), (Rows{0, 1}));
  EXPECT_EQ(rows_for("bytes<4MiB"), (Rows{1, 2}));
}

TEST(RowFilter, ABareNumberIsInTheColumnsUnit) {
  // The largest are 5 ms and 8 MiB, so that the columns are in ms and MiB.
  EXPECT_EQ(rows_for("difference>1"), (Rows{0, 1}));
  EXPECT_EQ(rows_for("bytes>4"), (Rows{3}));
}

TEST(RowFilter, WhatIsNoColumnIsAWord) {
  EXPECT_TRUE(rows_for("aten::mm").empty());
  EXPECT_TRUE(rows_for("difference>much").empty());
}

TEST(RowFilter, QuotesKeepBlanks) {
  const ColumnTable table = small_table();
  const auto terms = parse_filter("unit:\"a b\" c", table);
  ASSERT_EQ(terms.size(), 2u);
  EXPECT_EQ(terms[0].column, "unit");
  EXPECT_EQ(terms[0].word, "a b");
  EXPECT_EQ(terms[1].word, "c");
}

TEST(ColumnTable, AColumnIsWrittenInTheUnitOfItsLargest) {
  ColumnTable table{
      .columns = {{.quantity = Quantity::bytes, .numbers = {1024, 141793056, no_number}}},
      .rows = 3};
  set_units(table);
  const NumberUnit unit = table.columns[0].unit;
  EXPECT_EQ(unit.name, "MiB");
  // 141793056 / 1048576 = 135.2244..., and the smallest is 0.00098 MiB.
  EXPECT_EQ(number_text(141793056, unit, false), "135.224");
  EXPECT_EQ(number_text(no_number, unit, false), "");
}

TEST(ColumnTable, ColumnsOfOneScaleAreWrittenInOneUnit) {
  Column small{.scale = "peak", .quantity = Quantity::bytes, .numbers = {1000}};
  Column large = small;
  large.numbers = {5e9};
  ColumnTable table{.columns = {small, large}, .rows = 1};
  set_units(table);
  EXPECT_EQ(table.columns[0].unit, table.columns[1].unit);
  EXPECT_EQ(table.columns[0].unit.name, "GiB");
  EXPECT_EQ(table.columns[0].largest, 5e9);
}

TEST(ColumnTable, SignsStandBeforeDifferencesAndNotBeforeNothing) {
  const NumberUnit percent{.name = "%", .size = 0.01, .decimals = 1};
  EXPECT_EQ(number_text(0.0312, percent, true), "+3.1");
  EXPECT_EQ(number_text(-0.0312, percent, true), "-3.1");
  EXPECT_EQ(number_text(-0.00001, percent, true), "0.0");
}

}  // namespace
}  // namespace shardscope::gui
