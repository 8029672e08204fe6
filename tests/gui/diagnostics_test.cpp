#include "gui/diagnostics/diagnostics_view.h"

#include <gtest/gtest.h>

#include <QAbstractItemModelTester>

#include "gui/diagnostics/findings_model.h"
#include "tests/gui/scenarios.h"

namespace shardscope::gui {
namespace {

TEST(Diagnostics, ShowTheFindingsOfWhatIsOpen) {
  Workspace workspace;
  DiagnosticsView view(workspace);
  QAbstractItemModel* table = view.table();
  const QAbstractItemModelTester tester(table,
                                        QAbstractItemModelTester::FailureReportingMode::Fatal);
  workspace.add(shardscope::testing::small_scenario("one"));
  ASSERT_EQ(table->rowCount(), 1);
  EXPECT_EQ(table->index(0, FindingsModel::severity_column).data().toString(),
            QStringLiteral("warning"));
  EXPECT_EQ(table->index(0, FindingsModel::what_column).data().toString(),
            QStringLiteral("2 events skipped: no time"));
}

}  // namespace
}  // namespace shardscope::gui
