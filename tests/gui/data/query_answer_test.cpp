#include "gui/data/query_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/gui/scenarios.h"

namespace shardscope::gui {
namespace {

using shardscope::testing::small_scenario;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

QueryAnswer answer_to(const std::string& sql, const ScenarioPointer& b = nullptr) {
  return ask({.a = small_scenario("one", 1.25, 500), .b = b, .sql = sql});
}

TEST(QueryAnswer, RowsWithTimesLieOnTheAxisOfTheirSide) {
  const QueryAnswer answer = answer_to(
      "select side, rank, id, start_ns, end_ns from spans where name like 'all_gather%' "
      "order by side");
  EXPECT_EQ(answer.error, "");
  // Predicted [40, 100) us; profiled the same 1.25 times as long, whose clock begins at 500 us.
  EXPECT_THAT(answer.marks(), ElementsAre(TimeRange{.begin = 40'000, .end = 100'000},
                                          TimeRange{.begin = 50'000, .end = 125'000}));
  EXPECT_EQ(answer.places[0].side, SideKind::predicted);
  EXPECT_EQ(answer.places[1].span, 1u);
}

TEST(QueryAnswer, RowsWithoutTimesAreNotMarked) {
  const QueryAnswer answer = answer_to("select side, count(*) as spans from spans group by side");
  EXPECT_EQ(answer.table->rows, 2u);
  EXPECT_THAT(answer.marks(), ::testing::IsEmpty());
}

TEST(QueryAnswer, ColumnsAreWrittenInWhatTheyCount) {
  const QueryAnswer answer = answer_to(
      "select name, duration_ns, bytes, 1 as n, 0.5 as half from spans where side = 'predicted'");
  const auto& columns = answer.table->columns;
  EXPECT_EQ(columns[0].quantity, Quantity::text);
  EXPECT_EQ(columns[1].quantity, Quantity::duration);
  EXPECT_THAT(columns[1].numbers, ElementsAre(60'000, 60'000));
  EXPECT_EQ(columns[2].quantity, Quantity::bytes);
  EXPECT_EQ(columns[3].unit.decimals, 0);
  EXPECT_EQ(columns[4].unit.decimals, 3);
}

TEST(QueryAnswer, BothScenariosAreAsked) {
  const QueryAnswer answer =
      answer_to("select distinct scenario from spans order by scenario", small_scenario("two"));
  EXPECT_EQ(answer.table->rows, 2u);
  EXPECT_EQ(answer.table->text(0, 1), "two");
}

TEST(QueryAnswer, SaysWhatIsWrong) {
  EXPECT_THAT(answer_to("select x from spans").error, HasSubstr("no such column: x"));
}

}  // namespace
}  // namespace shardscope::gui
