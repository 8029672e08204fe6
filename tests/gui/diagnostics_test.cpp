#include "gui/diagnostics/diagnostics_view.h"

#include <gtest/gtest.h>

#include <QAbstractItemModelTester>
#include <QApplication>
#include <QClipboard>
#include <QLabel>
#include <QLineEdit>
#include <algorithm>

#include "tests/gui/patience.h"
#include "tests/gui/scenarios.h"

namespace shardscope::gui {
namespace {

QString cell(QAbstractItemModel& table, int row, int column) {
  return table.index(row, column).data().toString();
}

class Diagnostics : public ::testing::Test {
 protected:
  void open(const ScenarioPointer& scenario) {
    workspace_.add(scenario);
    ASSERT_TRUE(workspace_.tasks().wait_until_idle(patience_ms));
  }
  const Command* command(const QString& text) {
    commands_ = view_.commands();
    const auto found = std::find_if(commands_.begin(), commands_.end(),
                                    [&](const Command& one) { return one.text == text; });
    return found == commands_.end() ? nullptr : &*found;
  }
  Workspace workspace_;
  DiagnosticsView view_{workspace_};
  QAbstractItemModel& table_ = *view_.table();
  QAbstractItemModelTester tester_{&table_, QAbstractItemModelTester::FailureReportingMode::Fatal};
  std::vector<Command> commands_;
};

TEST_F(Diagnostics, ShowWhatIsGravestFirst) {
  open(shardscope::testing::small_scenario("one"));
  ASSERT_GT(table_.rowCount(), 2);
  EXPECT_EQ(cell(table_, 0, 0), QString::fromUtf8("\u25b2 warning"));
  EXPECT_EQ(cell(table_, 0, 1), QStringLiteral("one"));
  EXPECT_EQ(cell(table_, 0, 3), QStringLiteral("2 events skipped: no time"));
  EXPECT_EQ(cell(table_, table_.rowCount() - 1, 0), QString::fromUtf8("\u2022 note"));
}

TEST_F(Diagnostics, AreFilteredByWordsAndColumns) {
  open(shardscope::testing::small_scenario("one"));
  view_.findChild<QLineEdit*>()->setText(QStringLiteral("severity:warning"));
  ASSERT_EQ(table_.rowCount(), 1);
  EXPECT_EQ(cell(table_, 0, 3), QStringLiteral("2 events skipped: no time"));
}

TEST_F(Diagnostics, SayHowManyIdentitiesHoldAndAreCopiedWhole) {
  open(shardscope::testing::small_scenario("one"));
  const QString summary = view_.findChild<QLabel*>()->text();
  EXPECT_TRUE(summary.contains(QStringLiteral("consistency checks passed; 1 warning")))
      << summary.toStdString();
  const Command* copy = command(QStringLiteral("Copy all findings as text"));
  ASSERT_NE(copy, nullptr);
  EXPECT_TRUE(copy->is_enabled());
  copy->run();
  const QString text = QApplication::clipboard()->text();
  EXPECT_TRUE(text.startsWith(summary));
  EXPECT_TRUE(text.contains(QStringLiteral("warning\tone\ttrace.0.json.gz\t2 events skipped")));
}

TEST_F(Diagnostics, OfAClosedScenarioAreGone) {
  const ScenarioPointer one = shardscope::testing::small_scenario("one");
  open(one);
  workspace_.remove(one);
  ASSERT_TRUE(workspace_.tasks().wait_until_idle(patience_ms));
  EXPECT_EQ(table_.rowCount(), 0);
  EXPECT_EQ(view_.findChild<QLabel*>()->text(), QStringLiteral("nothing is open"));
}

}  // namespace
}  // namespace shardscope::gui
