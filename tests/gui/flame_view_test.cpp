#include "gui/flame/flame_view.h"

#include <gtest/gtest.h>

#include <QAbstractItemModelTester>
#include <QApplication>
#include <QClipboard>
#include <QComboBox>
#include <QLineEdit>
#include <QTest>

#include "gui/base/theme.h"
#include "gui/flame/flame_canvas.h"
#include "tests/gui/patience.h"
#include "tests/gui/scenarios.h"

namespace shardscope::gui {
namespace {

/// Predicted 60 us of compute of layers.0 and 60 of all_gather of layers.1, profiled 75 of each.
class FlameViewTest : public ::testing::Test {
 protected:
  FlameViewTest() {
    view_.resize(1200, 600);
    workspace_.add(shardscope::testing::small_scenario("one", 1.25));
    view_.show();
    settle();
    canvas().setFocus();
  }
  void settle() { ASSERT_TRUE(workspace_.tasks().wait_until_idle(patience_ms)); }
  FlameCanvas& canvas() { return view_.canvas(); }
  std::uint32_t node(const std::string& path) {
    const FlameTree& tree = canvas().picture().tree;
    for (std::uint32_t i = 0; i < tree.nodes.size(); ++i)
      if (tree.path_of(i) == path) return i;
    ADD_FAILURE() << path;
    return 0;
  }
  void press(int key) { QTest::keyClick(&canvas(), static_cast<Qt::Key>(key)); }

  Workspace workspace_;
  FlameView view_{workspace_};
};

TEST_F(FlameViewTest, BothRunsHaveOneScale) {
  const std::uint32_t forward = node("forward");
  const QRectF predicted = canvas().rectangle_of(forward, 0);
  const QRectF profiled = canvas().rectangle_of(forward, 1);
  EXPECT_NEAR(predicted.width() / profiled.width(), 120. / 150, 1e-6);
  EXPECT_LT(predicted.bottom(), profiled.top());
  QAbstractItemModelTester tester(view_.table(),
                                  QAbstractItemModelTester::FailureReportingMode::Fatal);
  EXPECT_EQ(view_.table()->rowCount(), 5);
  press(Qt::Key_O);
  EXPECT_NEAR(canvas().rectangle_of(forward, 0).width(), canvas().rectangle_of(forward, 1).width(),
              1e-6);
}

TEST_F(FlameViewTest, AClickZoomsInAndTellsTheFiguresOfBoth) {
  const std::uint32_t gather = node("forward / layers.1");
  const double before = canvas().rectangle_of(gather, 1).width();
  QTest::mouseClick(&canvas(), Qt::LeftButton, {},
                    canvas().rectangle_of(gather, 1).center().toPoint());
  EXPECT_EQ(canvas().zoomed(), gather);
  EXPECT_NEAR(canvas().rectangle_of(gather, 1).width(), 2 * before, 1);
  EXPECT_EQ(view_.told(),
            QStringLiteral("forward / layers.1: predicted 60.0 us (50.0%), profiled 75.0 us "
                           "(50.0%), difference -15.0 us"));
  EXPECT_EQ(canvas().accessibleDescription(), view_.told());
  press(Qt::Key_Backspace);
  EXPECT_EQ(canvas().zoomed(), node("forward"));
  press(Qt::Key_Home);
  EXPECT_EQ(canvas().zoomed(), 0u);
}

TEST_F(FlameViewTest, KeysWalkTheTreeAndCopyWhatIsCurrent) {
  press(Qt::Key_Down);
  EXPECT_EQ(canvas().current(), node("forward"));
  press(Qt::Key_Down);
  press(Qt::Key_Right);
  EXPECT_EQ(canvas().current(), node("forward / layers.1"));
  press(Qt::Key_Right);
  EXPECT_EQ(canvas().current(), node("forward / layers.1")) << "there is no other";
  press(Qt::Key_Return);
  EXPECT_EQ(canvas().zoomed(), node("forward / layers.1"));
  QTest::keyClick(&canvas(), Qt::Key_C, Qt::ControlModifier);
  EXPECT_EQ(QApplication::clipboard()->text(), view_.told());
  QTest::keyClick(&canvas(), Qt::Key_C, Qt::ControlModifier | Qt::ShiftModifier);
  EXPECT_EQ(QApplication::clipboard()->text(), QStringLiteral("layers.1"));
  press(Qt::Key_Left);
  EXPECT_EQ(canvas().zoomed(), node("forward")) << "what is current is in sight";
}

TEST_F(FlameViewTest, ASearchMarksAndSumsUpWhatItFinds) {
  const QRectF other = canvas().rectangle_of(node("forward / layers.0"), 1);
  const auto colour = [&] {
    const QImage picture = canvas().grab().toImage();
    const double ratio = picture.devicePixelRatio();
    return picture.pixelColor((QPointF(other.right() - 12, other.top() + 3) * ratio).toPoint());
  };
  const QColor before = colour();
  view_.search(QStringLiteral("GATHER"));
  EXPECT_EQ(view_.found(), QStringLiteral("1 found: 60.0 us and 75.0 us"));
  EXPECT_NE(colour(), before) << "what does not match is faded";
  press(Qt::Key_N);
  EXPECT_EQ(canvas().current(), node("forward / layers.1 / all_gather"));
  view_.search(QStringLiteral("nowhere"));
  EXPECT_EQ(view_.found(), QStringLiteral("not found"));
}

TEST_F(FlameViewTest, WhatWasPredictedIsHollowInTheColoursOfTheTimeline) {
  const std::uint32_t gather = node("forward / layers.1 / all_gather");
  const QImage picture = canvas().grab().toImage();
  const auto at = [&](std::size_t run) {
    const QRectF where = canvas().rectangle_of(gather, run);
    return picture.pixelColor(
        (QPointF(where.center().x(), where.top() + 3) * picture.devicePixelRatio()).toPoint());
  };
  const QColor full = theme_of(canvas()).of(OperationKind::all_gather, Phase::forward);
  EXPECT_EQ(at(1), full);
  EXPECT_NE(at(0), full);
}

TEST_F(FlameViewTest, HasMemoryAndThePairOfTwoScenarios) {
  view_.show_kind(FlameOf::memory);
  settle();
  EXPECT_EQ(canvas().picture().tree.nodes[0].whole, (FlameNode::Amounts{15 << 20, 15 << 20}));
  EXPECT_EQ(canvas().accessibleDescription(), view_.told()) << "of the new picture";
  workspace_.add(shardscope::testing::small_scenario("two", 2));
  workspace_.set_b(workspace_.scenarios()[1]);
  view_.show_kind(FlameOf::time);
  view_.show_pair();
  settle();
  EXPECT_EQ(canvas().picture().runs[1].title, "B: two, profiled");
}

// A has one profiled rank, B two. The all_gather of B's rank 1 comes 10 of its 60 us late.
TEST_F(FlameViewTest, TheRanksToChooseFromAreThoseOfTheChosenScenario) {
  workspace_.add(shardscope::testing::late_rank_scenario("two", 10));
  workspace_.set_b(workspace_.scenarios()[1]);
  settle();
  auto* scenario = view_.findChild<QComboBox*>(QStringLiteral("flame_scenario"));
  auto* rank = view_.findChild<QComboBox*>(QStringLiteral("flame_rank"));
  ASSERT_TRUE(scenario != nullptr && rank != nullptr);
  EXPECT_EQ(rank->count(), 1);
  QTest::keyClick(scenario, Qt::Key_Down);
  EXPECT_EQ(scenario->currentText(), QStringLiteral("B: two"));
  ASSERT_EQ(rank->count(), 2);
  EXPECT_TRUE(rank->isVisible());
  QTest::keyClick(rank, Qt::Key_Down);
  settle();
  EXPECT_EQ(canvas().picture().tree.nodes[node("forward / layers.1 / all_gather")].whole[1],
            50'000);
}

TEST_F(FlameViewTest, NothingIsPreparedOutOfSight) {
  view_.hide();
  workspace_.set_b(nullptr);
  workspace_.add(shardscope::testing::small_scenario("two", 2));
  workspace_.set_a(workspace_.scenarios()[1]);
  settle();
  EXPECT_EQ(canvas().picture().tree.nodes[0].whole[1], 150'000);
  view_.show();
  settle();
  EXPECT_EQ(canvas().picture().tree.nodes[0].whole[1], 240'000);
}

}  // namespace
}  // namespace shardscope::gui
