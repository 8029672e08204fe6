#include "gui/memory/memory_view.h"

#include <gtest/gtest.h>

#include <QAbstractItemModelTester>
#include <QClipboard>
#include <QGuiApplication>
#include <QLineEdit>
#include <QSignalSpy>
#include <QTableView>
#include <QTest>
#include <QToolButton>
#include <QTreeView>

#include "gui/memory/band_legend.h"
#include "gui/memory/figures_panel.h"
#include "gui/memory/live_panel.h"
#include "gui/memory/live_tree_model.h"
#include "gui/memory/memory_canvas.h"
#include "tests/gui/memory_scenarios.h"
#include "tests/gui/patience.h"

namespace shardscope::gui {
namespace {

using shardscope::testing::memory_scenario;

constexpr std::size_t activations = 3;

class MemoryViewTest : public ::testing::Test {
 protected:
  MemoryViewTest() : view_(workspace_) {
    view_.resize(1280, 720);
    view_.show();
    EXPECT_TRUE(QTest::qWaitForWindowExposed(&view_, patience_ms));
  }

  void settle() { ASSERT_TRUE(workspace_.tasks().wait_until_idle(patience_ms)); }
  void open(std::int64_t more = 0) {
    workspace_.add(memory_scenario("one", more));
    settle();
  }
  MemoryCanvas& canvas() { return *view_.canvas(); }
  QPoint at_us(double us) {
    return {static_cast<int>(canvas().scale().x_of(us * 1000)), canvas().height() / 2};
  }
  void click_at_us(double us, Qt::KeyboardModifiers modifiers = {}) {
    QTest::mouseClick(&canvas(), Qt::LeftButton, modifiers, at_us(us));
    settle();
  }
  void press(Qt::Key key) {
    QTest::keyClick(&canvas(), key);
    settle();
  }
  Bytes live_total() { return view_.live()->model()->set().total(); }

  Workspace workspace_;
  MemoryView view_;
};

TEST_F(MemoryViewTest, IsThereWithNothingOpen) {
  EXPECT_EQ(view_.table()->rowCount(), 0);
  EXPECT_FALSE(view_.grab().isNull());
  for (const Qt::Key key : {Qt::Key_P, Qt::Key_Period, Qt::Key_Return, Qt::Key_1}) press(key);
  click_at_us(0);
}

// On the axis the profiled step has operation 1 in [20, 40) us and 2 in [40, 60) us.
TEST_F(MemoryViewTest, AClickShowsWhatIsAliveThere) {
  open();
  click_at_us(30);
  EXPECT_EQ(live_total(), Bytes{1000 + 2000 + 3000});
  const LiveTreeModel* model = view_.live()->model();
  ASSERT_EQ(model->rowCount(), 2);
  EXPECT_EQ(model->index(1, LiveTreeModel::name_column).data().toString(),
            QStringLiteral("activations"));
  const QModelIndex parameters = model->index(0, 0);
  EXPECT_EQ(model->index(0, LiveTreeModel::bytes_column).data(View::number_role).toLongLong(),
            3000);
  EXPECT_EQ(model->rowCount(parameters), 2) << "of a unit and of the root";
  const QModelIndex unit = model->index(0, 0, parameters);
  EXPECT_EQ(unit.data().toString(), QStringLiteral("layers.0"));
  EXPECT_EQ(model->index(0, 0, unit).data().toString(), QStringLiteral("gathered"));
}

TEST_F(MemoryViewTest, AClickIsTheSelectionOfAllViews) {
  open();
  click_at_us(30);
  EXPECT_EQ(workspace_.selection().scenario, workspace_.a());
  EXPECT_EQ(workspace_.selection().operation, OperationId{1});
  EXPECT_EQ(workspace_.selection().side, SideKind::profiled);
}

TEST_F(MemoryViewTest, WhatIsSelectedElsewhereIsFollowed) {
  open();
  workspace_.select({.scenario = workspace_.a(),
                     .side = SideKind::predicted,
                     .operation = {2},
                     .time = TimeRange{30'000, 40'000}});
  settle();
  EXPECT_EQ(live_total(), Bytes{1000 + 3000 + 1500});
  EXPECT_EQ(canvas().side(), SideKind::predicted);
}

TEST_F(MemoryViewTest, TheLiveTreeIsAModel) {
  open();
  const QAbstractItemModelTester tester(view_.live()->model(),
                                        QAbstractItemModelTester::FailureReportingMode::Fatal);
  click_at_us(30);
  view_.live()->tree()->expandAll();
  click_at_us(50);
  EXPECT_EQ(live_total(), Bytes{1000 + 3000 + 1500});
}

TEST_F(MemoryViewTest, ASearchLeavesWhatIsWanted) {
  open();
  click_at_us(30);
  QTest::keyClicks(view_.live()->search(), QStringLiteral("gath"));
  settle();
  ASSERT_EQ(view_.live()->model()->rowCount(), 1);
  EXPECT_EQ(view_.live()
                ->model()
                ->index(0, LiveTreeModel::bytes_column)
                .data(View::number_role)
                .toLongLong(),
            2000);
}

TEST_F(MemoryViewTest, TheLiveSetIsCopiedAsRowsWithTabs) {
  open();
  click_at_us(30);
  view_.live()->copy();
  const QStringList lines = QGuiApplication::clipboard()->text().split(QLatin1Char('\n'));
  ASSERT_EQ(lines.size(), 4) << "the header, two categories, and the end";
  EXPECT_TRUE(lines[1].startsWith(QStringLiteral("parameters\t3,000 B\t50.0%")))
      << lines[1].toStdString();
}

TEST_F(MemoryViewTest, PGoesFromPeakToPeak) {
  open();
  press(Qt::Key_P);
  EXPECT_EQ(canvas().side(), SideKind::predicted);
  EXPECT_EQ(canvas().instant(), 20'000);
  press(Qt::Key_P);
  EXPECT_EQ(canvas().side(), SideKind::profiled);
  EXPECT_EQ(live_total(), Bytes{6000});
}

TEST_F(MemoryViewTest, CommaAndPeriodGoFromLevelToLevel) {
  open();
  click_at_us(30);
  press(Qt::Key_Period);
  EXPECT_EQ(canvas().instant(), 40'000);
  EXPECT_EQ(live_total(), Bytes{5500});
  press(Qt::Key_Comma);
  EXPECT_EQ(canvas().instant(), 20'000);
  EXPECT_EQ(live_total(), Bytes{6000});
}

TEST_F(MemoryViewTest, TheLegendHidesABandAndShowsItAlone) {
  open();
  QToolButton* button = view_.legend()->button(activations);
  const auto highest = [&] {
    const Extremes& totals = canvas().picture().a->profiled->totals;
    return totals[totals.over(0, totals.size()).highest];
  };
  EXPECT_EQ(highest(), 6000);
  QTest::mouseClick(button, Qt::LeftButton);
  settle();
  EXPECT_EQ(highest(), 3000) << "parameters alone at their most";
  QTest::mouseClick(button, Qt::LeftButton);
  QTest::keyClick(button, Qt::Key_Return);
  settle();
  EXPECT_EQ(view_.legend()->shown(), BandSet().set(activations));
  EXPECT_EQ(highest(), 3000);
  QTest::mouseClick(button, Qt::LeftButton, Qt::AltModifier);
  settle();
  EXPECT_EQ(view_.legend()->shown(), all_bands);
}

TEST_F(MemoryViewTest, CursorsSayWhatIsNewFreedAndCommon) {
  open();
  QTest::mouseMove(&canvas(), at_us(30));
  press(Qt::Key_1);
  QTest::mouseMove(&canvas(), at_us(50));
  press(Qt::Key_2);
  const CellsModel* model = view_.change()->model();
  const QAbstractItemModelTester tester(view_.change()->model(),
                                        QAbstractItemModelTester::FailureReportingMode::Fatal);
  ASSERT_EQ(model->rowCount(), 4);
  EXPECT_EQ(model->row(0)[3].text, QStringLiteral("gradient"));
  EXPECT_EQ(model->row(1)[3].text, QStringLiteral("gathered"));
  EXPECT_TRUE(view_.change()->text().contains(QStringLiteral("1,500 B new in 1")));
  view_.change()->table()->sortByColumn(4, Qt::AscendingOrder);
  EXPECT_EQ(model->row(0)[3].text, QStringLiteral("weights"));
}

TEST_F(MemoryViewTest, AltClicksSetTheCursorsOneAfterTheOther) {
  open();
  click_at_us(30, Qt::AltModifier);
  EXPECT_TRUE(workspace_.cursors().a);
  EXPECT_FALSE(workspace_.cursors().b);
  click_at_us(50, Qt::AltModifier);
  EXPECT_TRUE(workspace_.cursors().b);
  EXPECT_EQ(view_.change()->model()->rowCount(), 4);
  click_at_us(10, Qt::AltModifier);
  EXPECT_FALSE(workspace_.cursors().b) << "begun anew";
}

TEST_F(MemoryViewTest, TheErrorAtThePeakIsByCategoryToTheByte) {
  open(24);
  const CellsModel* model = view_.peak()->model();
  ASSERT_EQ(model->rowCount(), 3);
  EXPECT_EQ(model->row(0)[1].text, QStringLiteral("6,000 B"));
  EXPECT_EQ(model->row(0)[2].text, QStringLiteral("6,024 B"));
  EXPECT_EQ(model->row(1)[3].text, QStringLiteral("0 B")) << "parameters";
  EXPECT_EQ(model->row(2)[0].text, QStringLiteral("A activations"));
  EXPECT_EQ(model->row(2)[3].text, QStringLiteral("-24 B")) << "3,000 B less 3,024 B";
  EXPECT_EQ(model->row(2)[4].text, QStringLiteral("-0.79%")) << "of 3,024 B";
  EXPECT_EQ(model->row(0)[4].text, QStringLiteral("-0.40%")) << "24 of 6,024 B";
  EXPECT_LT(model->row(2)[5].number.toDouble(), 0);
  EXPECT_TRUE(view_.peak()->text().contains(
      QStringLiteral("predicted less profiled -24 B (-0.40% of profiled)")))
      << view_.peak()->text().toStdString();
}

TEST_F(MemoryViewTest, TheSelectedCategoryHasADifferenceOfItsOwn) {
  open(24);
  EXPECT_EQ(canvas().picture().selected(), std::nullopt);
  view_.peak()->table()->selectRow(2);
  settle();
  EXPECT_EQ(canvas().picture().selected(), activations);
  const Extremes& own = canvas().picture().a->selected_difference;
  EXPECT_EQ(own[own.over(0, own.size()).lowest], -24);
  EXPECT_EQ(view_.peak()->table()->currentIndex().row(), 2) << "it stays selected";
}

TEST_F(MemoryViewTest, TheReadOutHasBothSidesToTheByte) {
  open(24);
  const QStringList lines = canvas().read_out(25'000);
  ASSERT_FALSE(lines.isEmpty());
  EXPECT_TRUE(lines.contains(QStringLiteral("A activations\t3,000 B\t3,024 B\t-24 B\t-0.79%")))
      << lines.join(QLatin1Char('\n')).toStdString();
}

TEST_F(MemoryViewTest, AgainstBPeaksAreComparedByCategoryAndUnit) {
  open();
  workspace_.add(memory_scenario("two", 24));
  workspace_.set_b(workspace_.scenarios()[1]);
  settle();
  const CellsModel* model = view_.units()->model();
  ASSERT_GE(model->rowCount(), 1);
  EXPECT_EQ(model->row(0)[4].text, QStringLiteral("+24 B")) << "the largest difference first";
}

TEST_F(MemoryViewTest, TheTableHasARowForEveryTimeAtWhichASideChanges) {
  open(24);
  QAbstractItemModel* table = view_.table();
  const QAbstractItemModelTester tester(table,
                                        QAbstractItemModelTester::FailureReportingMode::Fatal);
  // Predicted 0, 10, 20, 30 and its end 40; profiled 0, 20, 40 and its end 60 us.
  ASSERT_EQ(table->rowCount(), 5);
  EXPECT_EQ(table->index(2, 0).data().toString(), QStringLiteral("20.000"));
  EXPECT_EQ(table->index(2, 1).data().toString(), QStringLiteral("forward"));
  EXPECT_EQ(table->index(2, 2).data().toString(), QStringLiteral("layers.0"));
  EXPECT_EQ(table->headerData(3, Qt::Horizontal).toString(), QStringLiteral("total predicted (B)"));
  EXPECT_EQ(table->index(2, 3).data().toString(), QStringLiteral("6000"));
  EXPECT_EQ(table->index(2, 4).data().toString(), QStringLiteral("6024"));
  EXPECT_EQ(table->headerData(5, Qt::Horizontal).toString(),
            QStringLiteral("total predicted - profiled (B)"));
  EXPECT_EQ(table->index(2, 5).data().toString(), QStringLiteral("-24"));
  EXPECT_TRUE(table->index(4, 3).data().isNull()) << "the prediction has ended";
}

TEST_F(MemoryViewTest, AnotherGhostLeavesThePanelsAndTheLevel) {
  open();
  press(Qt::Key_P);
  const auto a = canvas().picture().a;
  const auto level = canvas().chosen_level();
  QSignalSpy figures(view_.peak()->model(), &QAbstractItemModel::modelReset);
  workspace_.set_ghost(memory_scenario("ghost", 5));
  settle();
  EXPECT_TRUE(canvas().picture().ghost);
  EXPECT_EQ(canvas().picture().a, a);
  EXPECT_EQ(canvas().chosen_level(), level);
  EXPECT_EQ(figures.count(), 0);
}

TEST_F(MemoryViewTest, WhatHasNotChangedIsNotPreparedAgain) {
  open();
  ASSERT_TRUE(workspace_.tasks().idle());
  Q_EMIT workspace_.axis_changed();
  Q_EMIT workspace_.pair_changed();
  EXPECT_TRUE(workspace_.tasks().idle());
}

TEST_F(MemoryViewTest, WhatBDoesNotHaveIsSaid) {
  open();
  auto other = std::make_shared<Scenario>(*memory_scenario("two"));
  auto trace = std::make_shared<Trace>(*other->profiled->ranks.front());
  trace->rank = 1;
  other->profiled->ranks = {trace};
  workspace_.add(other);
  workspace_.set_b(other);
  settle();
  const QString said = QStringLiteral("B's profiled side has nothing of rank 0.");
  EXPECT_TRUE(view_.peak()->text().contains(said)) << view_.peak()->text().toStdString();
  EXPECT_TRUE(view_.units()->text().contains(said)) << view_.units()->text().toStdString();
}

TEST_F(MemoryViewTest, IsPaintedInEveryLook) {
  open(24);
  workspace_.add(memory_scenario("two"));
  workspace_.set_b(workspace_.scenarios()[1]);
  workspace_.set_ghost(memory_scenario("ghost", 5));
  settle();
  for (int i = 0; i < 3; ++i) {
    press(Qt::Key_O);
    press(Qt::Key_C);
    EXPECT_FALSE(view_.grab().isNull());
  }
  for (const QSize size : {QSize(400, 250), QSize(3840, 2160)}) {
    QImage image(size, QImage::Format_ARGB32);
    QPainter painter(&image);
    canvas().draw(painter, size);
  }
}

}  // namespace
}  // namespace shardscope::gui
