#include "gui/query/query_view.h"

#include <gtest/gtest.h>

#include <QAbstractItemModelTester>
#include <QTest>

#include "gui/table/table_pane.h"
#include "tests/gui/patience.h"
#include "tests/gui/scenarios.h"

namespace shardscope::gui {
namespace {

class Query : public ::testing::Test {
 protected:
  Query() {
    view_.resize(1200, 700);
    view_.show();
    workspace_.add(shardscope::testing::small_scenario("one", 1.25, 500));
    settle();
  }
  void settle() { ASSERT_TRUE(workspace_.tasks().wait_until_idle(patience_ms)); }
  void ask_for(const QString& sql) {
    view_.set_sql(sql);
    view_.run();
    settle();
  }

  Workspace workspace_;
  QueryView view_{workspace_};
};

TEST_F(Query, ShowsItsRowsAndMarksThemInTheTimeline) {
  ask_for(
      QStringLiteral("select side, rank, id, name, start_ns, duration_ns from spans "
                     "where class = 'communication' and side = 'profiled'"));
  QAbstractItemModelTester tester(view_.table(),
                                  QAbstractItemModelTester::FailureReportingMode::Fatal);
  ASSERT_EQ(view_.table()->rowCount(), 1) << view_.status().toStdString();
  ASSERT_EQ(workspace_.marks()->size(), 1u);
  EXPECT_EQ(workspace_.marks()->front(), (TimeRange{.begin = 50'000, .end = 125'000}));
  view_.rows().setCurrentIndex(view_.table()->index(0, 0));
  EXPECT_EQ(workspace_.selection().span, 1u);
  EXPECT_EQ(workspace_.selection().side, SideKind::profiled);
  view_.clear_marks();
  EXPECT_TRUE(workspace_.marks()->empty());
}

TEST_F(Query, MarksMoveWithTheAxis) {
  ask_for(
      QStringLiteral("select side, start_ns, end_ns from spans where class = 'communication' "
                     "and side = 'profiled'"));
  workspace_.set_time_mode(TimeMode::unit);
  settle();
  ASSERT_EQ(workspace_.marks()->size(), 1u);
  EXPECT_NEAR(workspace_.marks()->front().end, 100'000, 1e-3) << "both sides end at once";
}

TEST_F(Query, SaysWhatIsWrongAndKeepsRunning) {
  ask_for(QStringLiteral("select x from nowhere"));
  EXPECT_TRUE(view_.status().contains(QStringLiteral("no such table")))
      << view_.status().toStdString();
  ask_for(QStringLiteral("delete from spans"));
  EXPECT_FALSE(view_.status().isEmpty());
  ask_for(QStringLiteral("select 1"));
  EXPECT_TRUE(view_.status().startsWith(QStringLiteral("1 rows"))) << view_.status().toStdString();
}

TEST_F(Query, CanBeStopped) {
  view_.set_sql(QStringLiteral(
      "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"));
  view_.run();
  view_.stop();
  EXPECT_TRUE(workspace_.tasks().wait_until_idle(20'000)) << "it does not run to its time limit";
  EXPECT_EQ(view_.status(), QStringLiteral("Stopped."));
}

}  // namespace
}  // namespace shardscope::gui
