#include "gui/snapshots/snapshots_view.h"

#include <gtest/gtest.h>

#include <QAbstractItemModelTester>
#include <QApplication>
#include <QClipboard>
#include <QTest>

#include "gui/base/theme.h"
#include "gui/snapshots/segments_canvas.h"
#include "gui/snapshots/snapshot_canvas.h"
#include "gui/snapshots/stack_pane.h"
#include "gui/table/column_table_model.h"
#include "tests/gui/patience.h"
#include "tests/gui/scenarios.h"
#include "tests/gui/snapshot_scenarios.h"

namespace shardscope::gui {
namespace {

using shardscope::testing::snapshot_scenario;

class Snapshots : public ::testing::Test {
 protected:
  Snapshots() {
    view_.resize(1300, 760);
    view_.show();
    workspace_.add(snapshot_scenario("one", 500));
    settle();
  }
  void settle() { ASSERT_TRUE(workspace_.tasks().wait_until_idle(patience_ms)); }

  Workspace workspace_;
  SnapshotsView view_{workspace_};
};

TEST_F(Snapshots, AClickedBlockShowsWhoAskedForIt) {
  SnapshotCanvas& canvas = view_.canvas();
  const QRectF block = canvas.rectangle_of(1, canvas.size());
  ASSERT_FALSE(block.isNull());
  QTest::mouseClick(&canvas, Qt::LeftButton, {}, block.center().toPoint());
  EXPECT_EQ(canvas.chosen(), 1u);
  EXPECT_EQ(view_.stack().name(),
            QStringLiteral("/x/site-packages/torch/nn/functional.py:5:linear"));
  EXPECT_TRUE(view_.stack().frames().contains(QStringLiteral("/home/me/model.py:12:forward")));
  view_.stack().copy();
  EXPECT_TRUE(QApplication::clipboard()->text().contains(QStringLiteral("model.py:12")));
}

TEST_F(Snapshots, BlocksHaveTheColourOfTheirCategory) {
  SnapshotCanvas& canvas = view_.canvas();
  const QRectF block = canvas.rectangle_of(0, canvas.size());
  const QImage picture = canvas.grab().toImage();
  const QPointF corner = block.topRight() + QPointF(-4, 4);
  EXPECT_EQ(picture.pixelColor((corner * picture.devicePixelRatio()).toPoint()),
            theme_of(canvas).of(MemoryCategory::activations));
}

TEST_F(Snapshots, ARowLeadsToItsBlock) {
  QAbstractItemModelTester tester(view_.table(),
                                  QAbstractItemModelTester::FailureReportingMode::Fatal);
  ASSERT_EQ(view_.table()->rowCount(), 3);
  view_.canvas().go_to(2);
  EXPECT_EQ(view_.canvas().chosen(), 2u);
  EXPECT_FALSE(view_.canvas().rectangle_of(2, view_.canvas().size()).isNull());
}

TEST_F(Snapshots, WhatIsFreeBetweenBlocksIsTold) {
  EXPECT_TRUE(view_.summary().contains(QStringLiteral("25.0%"))) << view_.summary().toStdString();
  view_.show_tab(SnapshotsView::segments_tab);
  SegmentsCanvas& segments = view_.segments();
  const QRectF first = segments.rectangle_of(0, 0), free = segments.rectangle_of(0, 1);
  EXPECT_NEAR(free.left(), first.right(), 1e-6);
  EXPECT_NEAR(free.width(), first.width(), 1e-6) << "1,024 B each";
  EXPECT_EQ(segments.block_at(free.center()), 1u);
  QTest::mouseClick(&segments, Qt::LeftButton, {}, first.center().toPoint());
  EXPECT_TRUE(view_.stack().name().endsWith(QStringLiteral(":linear")));
}

TEST_F(Snapshots, TwoAreComparedByWhatGrew) {
  EXPECT_EQ(view_.growth().rowCount(), 0) << "one alone";
  const auto two = snapshot_scenario("two", 2000);
  workspace_.add(two);
  workspace_.set_b(two);
  settle();
  ASSERT_EQ(view_.growth().rowCount(), 1);
  const std::size_t growth = view_.growth().table().place_of("growth");
  EXPECT_EQ(view_.growth().table().columns[growth].numbers[0], 1500);
}

TEST_F(Snapshots, WithoutASnapshotSayWhatToOpen) {
  workspace_.add(shardscope::testing::small_scenario("none"));
  workspace_.set_a(workspace_.scenarios()[1]);
  settle();
  EXPECT_EQ(view_.table()->rowCount(), 0);
  EXPECT_TRUE(view_.summary().contains(QStringLiteral("memory snapshot")));
}

}  // namespace
}  // namespace shardscope::gui
