#include "gui/timeline/timeline_view.h"

#include <gtest/gtest.h>

#include <QAbstractItemModelTester>
#include <QCheckBox>
#include <QComboBox>
#include <QLineEdit>
#include <QTabBar>
#include <QTabWidget>
#include <QTest>
#include <QWheelEvent>
#include <algorithm>

#include "gui/base/theme.h"
#include "gui/timeline/spans_model.h"
#include "gui/timeline/text_rows_model.h"
#include "gui/timeline/timeline_canvas.h"
#include "tests/gui/patience.h"
#include "tests/gui/scenarios.h"

namespace shardscope::gui {
namespace {

/// A view of one small scenario, both sides of which begin at 0 on the axis: predicted compute
/// [0, 60) us and all_gather [40, 100), profiled 1.25 times as long.
class TimelineTest : public ::testing::Test {
 protected:
  TimelineTest() : view_(workspace_) {
    view_.resize(1280, 720);
    view_.show();
    workspace_.add(shardscope::testing::small_scenario("one", 1.25, 500));
    settle();
  }

  void settle() { ASSERT_TRUE(workspace_.tasks().wait_until_idle(patience_ms)); }
  /// Until the sums of the range, which come a moment later, are those of `span` nanoseconds.
  bool has_sums_of(qlonglong span) {
    return QTest::qWaitFor(
        [&] {
          return view_.identity().rowCount() > 0 &&
                 view_.identity().index(0, 2).data(View::number_role).toLongLong() == span;
        },
        patience_ms);
  }
  TimelineCanvas& canvas() { return view_.canvas(); }
  double x_of(double time) { return canvas().scale().x_of(time); }
  SpanPlace place_of(SideKind side, std::uint32_t span) {
    const TimelineData& data = canvas().data();
    for (std::size_t source = 0; source < data.sources.size(); ++source)
      if (data.sources[source]->side == side)
        return *gui::place_of(data, source, LaneItems::spans, span);
    ADD_FAILURE();
    return {};
  }
  QPoint middle_of(const SpanPlace& place) {
    return canvas().rectangle_of(place).center().toPoint();
  }
  void move_to(QPoint at, Qt::KeyboardModifiers modifiers = {}) {
    QMouseEvent event(QEvent::MouseMove, at, canvas().mapToGlobal(QPointF(at)), Qt::NoButton,
                      Qt::NoButton, modifiers);
    QApplication::sendEvent(&canvas(), &event);
  }
  void drag(QPoint from, QPoint to, Qt::MouseButton button = Qt::LeftButton,
            Qt::KeyboardModifiers modifiers = {}) {
    QTest::mousePress(&canvas(), button, modifiers, from);
    QMouseEvent move(QEvent::MouseMove, to, canvas().mapToGlobal(QPointF(to)), Qt::NoButton, button,
                     modifiers);
    QApplication::sendEvent(&canvas(), &move);
    QTest::mouseRelease(&canvas(), button, modifiers, to);
  }

  Workspace workspace_;
  TimelineView view_;
};

TEST_F(TimelineTest, PredictedLiesDirectlyAboveProfiledOfTheSameStream) {
  const auto& rows = canvas().rows().rows;
  std::vector<std::pair<std::string, SideKind>> lanes;
  for (const TimelineRow& row : rows)
    if (row.kind == RowKind::lane && row.label == "unshard")
      lanes.emplace_back(row.label, row.side);
  ASSERT_EQ(lanes.size(), 2u);
  EXPECT_EQ(lanes[0].second, SideKind::predicted);
  EXPECT_EQ(lanes[1].second, SideKind::profiled);
  EXPECT_EQ(rows.front().label, "one, rank 0");
}

TEST_F(TimelineTest, ASmallViewGivesItsHeightToTheRowsAndATabOpensTheTables) {
  view_.resize(1280, 360);
  QApplication::processEvents();
  auto* tables = view_.findChild<QTabWidget*>();
  ASSERT_NE(tables, nullptr);
  const int tabs = tables->tabBar()->height();
  EXPECT_LT(tables->height(), 2 * tabs);
  EXPECT_GT(canvas().height(), 4 * tabs);
  QTest::mouseClick(tables->tabBar(), Qt::LeftButton, {}, tables->tabBar()->tabRect(1).center());
  QApplication::processEvents();
  EXPECT_EQ(tables->currentIndex(), 1);
  EXPECT_GT(tables->height(), 4 * tabs);
  // What a user has opened stays open.
  view_.resize(1280, 420);
  QApplication::processEvents();
  EXPECT_GT(tables->height(), 4 * tabs);
}

TEST_F(TimelineTest, MemoryStandsOverTheStreamsFilledInItsColours) {
  const auto& rows = canvas().rows().rows;
  const auto memory = std::find_if(rows.begin(), rows.end(), [](const TimelineRow& row) {
    return row.kind == RowKind::memory && row.side == SideKind::profiled;
  });
  ASSERT_NE(memory, rows.end());
  const QImage picture = canvas().grab().toImage();
  // 10 of at most 15 MiB are parameters: the lower third is theirs, the upper one background until
  // 25 us, then activations.
  const double top = 20 + memory->top, ratio = picture.devicePixelRatio();
  const auto at = [&](double time, double share) {
    return picture.pixelColor(
        (QPointF(x_of(time), top + memory->height * (1 - share)) * ratio).toPoint());
  };
  const Theme& theme = theme_of(canvas());
  EXPECT_EQ(at(10'500, 0.3), theme.of(MemoryCategory::parameters));
  EXPECT_EQ(at(10'500, 0.85), theme.background);
  EXPECT_EQ(at(31'500, 0.3), theme.of(MemoryCategory::parameters));
  EXPECT_EQ(at(31'500, 0.85), theme.of(MemoryCategory::activations));
}

TEST_F(TimelineTest, ANoteStandsAtItsInstantInEveryMode) {
  workspace_.set_notes({*workspace_.note_at(50'000, "late")});
  EXPECT_NEAR(canvas().rectangle_of(workspace_.notes()[0]).left(), x_of(50'000), 1e-6);
  workspace_.set_time_mode(TimeMode::unit);  // profiled 62.5 us lie on 50: 50 on 40
  settle();
  EXPECT_NEAR(canvas().rectangle_of(workspace_.notes()[0]).left(), x_of(40'000), 1e-6);
}

TEST_F(TimelineTest, StretchesOfAQueryAreMarked) {
  const QPointF at(x_of(100'000), 18);
  const auto ratio = canvas().devicePixelRatioF();
  EXPECT_NE(canvas().grab().toImage().pixelColor((at * ratio).toPoint()), theme_of(canvas()).more);
  workspace_.set_marks({{.begin = 90'000, .end = 110'000}});
  EXPECT_EQ(canvas().grab().toImage().pixelColor((at * ratio).toPoint()), theme_of(canvas()).more);
}

TEST_F(TimelineTest, AllFlowsAreDrawnWhenAskedFor) {
  auto scenario = std::make_shared<Scenario>(*workspace_.a());
  Trace trace = *scenario->profiled->ranks[0];
  trace.tracks.push_back({.name = "host", .stream = Stream::host});
  trace.spans.push_back({.start = {510'000},
                         .duration = {5'000},
                         .track = 2,
                         .span_class = SpanClass::host,
                         .operation = {2},
                         .step = 1});
  scenario->profiled->ranks = {std::make_shared<const Trace>(trace)};
  scenario->path = "runs/launched";
  workspace_.add(scenario);
  workspace_.set_a(scenario);
  settle();
  EXPECT_TRUE(canvas().drawn_flows().empty());
  const QImage without = canvas().grab().toImage();
  auto* box = view_.findChild<QCheckBox*>();
  ASSERT_NE(box, nullptr);
  box->click();
  settle();
  // The host is closed: the arrow comes out of its heading.
  ASSERT_EQ(canvas().drawn_flows().size(), 1u);
  EXPECT_NE(canvas().grab().toImage(), without);
  QTest::keyClick(&view_, Qt::Key_L);
  EXPECT_FALSE(box->isChecked());
  EXPECT_EQ(canvas().grab().toImage(), without);
}

TEST_F(TimelineTest, AClickSelectsTheSpanForAllViews) {
  QTest::mouseClick(&canvas(), Qt::LeftButton, {}, middle_of(place_of(SideKind::profiled, 1)));
  const Selection& selection = workspace_.selection();
  EXPECT_EQ(selection.scenario, workspace_.a());
  EXPECT_EQ(selection.side, SideKind::profiled);
  EXPECT_EQ(selection.span, 1u);
  EXPECT_EQ(selection.operation, OperationId{2});
  EXPECT_EQ(selection.unit, "layers.1");
  EXPECT_EQ(selection.time, (TimeRange{.begin = 50'000, .end = 125'000}));
}

TEST_F(TimelineTest, WhatOtherViewsSelectIsShown) {
  workspace_.select({.scenario = workspace_.a(), .side = SideKind::predicted, .operation = {2}});
  settle();
  EXPECT_EQ(canvas().selected(), place_of(SideKind::predicted, 1));
  EXPECT_EQ(view_.details().index(0, 1).data().toString(), QStringLiteral("all_gather layers.1"));
}

TEST_F(TimelineTest, AClickedExposedCollectiveSaysWhy) {
  QTest::mouseClick(&canvas(), Qt::LeftButton, {}, middle_of(place_of(SideKind::predicted, 1)));
  settle();
  EXPECT_EQ(view_.why(), QStringLiteral("40.0 us of 60.0 us exposed: no computation follows it "
                                        "in this step"));
  EXPECT_TRUE(canvas().accessibleDescription().contains(view_.why()))
      << canvas().accessibleDescription().toStdString();
  QTest::mouseClick(&canvas(), Qt::LeftButton, {}, middle_of(place_of(SideKind::predicted, 0)));
  settle();
  EXPECT_EQ(view_.why(), QString()) << "compute is not exposed";
}

TEST_F(TimelineTest, WhatAnotherViewWantsToShowIsBroughtIntoSight) {
  workspace_.select({.scenario = workspace_.a(), .side = SideKind::profiled, .operation = {2}});
  workspace_.show({.begin = 0, .end = 10e3});
  workspace_.show_selection_in(QStringLiteral("timeline"));
  settle();
  ASSERT_EQ(canvas().selected(), place_of(SideKind::profiled, 1));
  EXPECT_FALSE(canvas().rectangle_of(*canvas().selected()).isNull()) << "[50, 125) us is shown";
}

TEST_F(TimelineTest, ABracketFollowsToTheOtherSide) {
  QTest::mouseClick(&canvas(), Qt::LeftButton, {}, middle_of(place_of(SideKind::profiled, 1)));
  settle();
  QTest::keyClick(&canvas(), Qt::Key_BracketRight);
  EXPECT_EQ(workspace_.selection().side, SideKind::predicted);
  EXPECT_EQ(workspace_.selection().span, 1u);
}

TEST_F(TimelineTest, WKeepsTheTimeUnderTheMouse) {
  move_to({700, 200});
  const double before = canvas().scale().time_at(700);
  QTest::keyClick(&canvas(), Qt::Key_W);
  EXPECT_NEAR(canvas().scale().time_at(700), before, 1e-6);
  EXPECT_LT(workspace_.visible().length(), workspace_.whole().length());
  QTest::keyClick(&canvas(), Qt::Key_S);
  EXPECT_NEAR(workspace_.visible().length(), workspace_.whole().length(), 1);
}

TEST_F(TimelineTest, ControlAndWheelZoomAtTheMouse) {
  const QPointF at(500, 200);
  const double before = canvas().scale().time_at(500);
  QWheelEvent wheel(at, canvas().mapToGlobal(at), {}, {0, 240}, Qt::NoButton, Qt::ControlModifier,
                    Qt::NoScrollPhase, false);
  QApplication::sendEvent(&canvas(), &wheel);
  EXPECT_NEAR(canvas().scale().time_at(500), before, 1e-6);
  EXPECT_NEAR(workspace_.visible().length(), workspace_.whole().length() * 0.49, 1)
      << "0.7 squared";
}

TEST_F(TimelineTest, ADraggedRangeSnapsToSpansAndIsSummed) {
  // From the begin of the predicted all_gather (40 us) to its end (100 us): 20 us of it behind
  // compute.
  const QRectF span = canvas().rectangle_of(place_of(SideKind::predicted, 1));
  const int y = static_cast<int>(span.center().y());
  drag({static_cast<int>(span.left()) + 2, y}, {static_cast<int>(span.right()) - 2, y});
  ASSERT_TRUE(workspace_.cursors().range.has_value());
  EXPECT_EQ(*workspace_.cursors().range, (TimeRange{.begin = 40'000, .end = 100'000}));
  ASSERT_TRUE(has_sums_of(60'000));
  TextRowsModel& identity = view_.identity();
  const auto value = [&](int row, int column) {
    return identity.index(row, column).data(View::number_role).toLongLong();
  };
  EXPECT_EQ(value(0, 3), 20'000) << "compute";
  EXPECT_EQ(value(0, 4), 40'000) << "exposed communication";
  EXPECT_EQ(value(0, 6), 0) << "idle";
  // Profiled: compute [0, 75), all_gather [50, 125): in the range 35 and 25.
  EXPECT_EQ(value(1, 3), 35'000);
  EXPECT_EQ(value(1, 4), 25'000);
  EXPECT_EQ(value(2, 4), 15'000) << "predicted - profiled";
}

TEST_F(TimelineTest, WithAltARangeDoesNotSnap) {
  const QRectF span = canvas().rectangle_of(place_of(SideKind::predicted, 1));
  const int y = static_cast<int>(span.center().y());
  const int from = static_cast<int>(span.left()) + 4;
  drag({from, y}, {from + 100, y}, Qt::LeftButton, Qt::AltModifier);
  ASSERT_TRUE(workspace_.cursors().range.has_value());
  EXPECT_DOUBLE_EQ(workspace_.cursors().range->begin, canvas().scale().time_at(from));
}

TEST_F(TimelineTest, AnEdgeOfTheRangeCanBeDragged) {
  Cursors cursors;
  cursors.range = TimeRange{.begin = 30'000, .end = 60'000};
  workspace_.set_cursors(cursors);
  const int below = canvas().height() - 5;
  drag({static_cast<int>(x_of(60'000)), below}, {static_cast<int>(x_of(90'000)), below});
  EXPECT_DOUBLE_EQ(workspace_.cursors().range->begin, 30'000);
  EXPECT_NEAR(workspace_.cursors().range->end, 90'000, 2 * canvas().scale().ns_per_pixel());
}

TEST_F(TimelineTest, TheMiddleButtonZoomsToWhatItDragsOver) {
  const TimeRange whole = workspace_.visible();
  const double from = canvas().scale().time_at(400), to = canvas().scale().time_at(600);
  const int below = canvas().height() - 5;
  drag({400, below}, {600, below}, Qt::MiddleButton);
  EXPECT_NEAR(workspace_.visible().begin, from, 1e-6);
  EXPECT_NEAR(workspace_.visible().end, to, 1e-6);
  EXPECT_FALSE(workspace_.cursors().range.has_value());
  workspace_.undo_zoom();
  EXPECT_EQ(workspace_.visible(), whole);
}

TEST_F(TimelineTest, RAndZMarkAndShowTheSelection) {
  QTest::mouseClick(&canvas(), Qt::LeftButton, {}, middle_of(place_of(SideKind::predicted, 1)));
  QTest::keyClick(&canvas(), Qt::Key_R);
  ASSERT_TRUE(workspace_.cursors().range.has_value());
  QTest::keyClick(&canvas(), Qt::Key_Z);
  EXPECT_EQ(workspace_.visible(), (TimeRange{.begin = 40'000, .end = 100'000}));
  QTest::keyClick(&canvas(), Qt::Key_A, Qt::ControlModifier);
  EXPECT_EQ(*workspace_.cursors().range, workspace_.whole());
}

TEST_F(TimelineTest, ADoubleClickZoomsToTheSpan) {
  QTest::mouseDClick(&canvas(), Qt::LeftButton, {}, middle_of(place_of(SideKind::predicted, 0)));
  EXPECT_EQ(workspace_.selection().span, 0u);
  EXPECT_NEAR(workspace_.visible().length(), 120'000, 1) << "60 us and half as much on both sides";
}

TEST_F(TimelineTest, ASearchGoesFromHitToHit) {
  QTest::keyClick(&canvas(), Qt::Key_Slash);
  auto* box = view_.findChild<QLineEdit*>();
  ASSERT_NE(box, nullptr);
  QTest::keyClicks(box, QStringLiteral("all_g"));
  settle();
  QTest::keyClick(box, Qt::Key_Return);
  EXPECT_EQ(workspace_.selection().side, SideKind::predicted) << "begins at 40 us";
  EXPECT_EQ(workspace_.selection().span, 1u);
  QTest::keyClick(box, Qt::Key_Return);
  EXPECT_EQ(workspace_.selection().side, SideKind::profiled) << "begins at 50 us";
  QTest::keyClick(box, Qt::Key_Return, Qt::ShiftModifier);
  EXPECT_EQ(workspace_.selection().side, SideKind::predicted);
}

TEST_F(TimelineTest, AHeadingClosesItsRank) {
  const auto lanes = [&] {
    const auto& rows = canvas().rows().rows;
    return std::count_if(rows.begin(), rows.end(),
                         [](const TimelineRow& row) { return row.kind == RowKind::lane; });
  };
  EXPECT_GT(lanes(), 0);
  QTest::mouseClick(&canvas(), Qt::LeftButton, {}, {60, 30});
  EXPECT_EQ(lanes(), 0);
  // The ribbons stay, so that many ranks can be seen at once.
  EXPECT_EQ(canvas().rows().rows.size(), 3u);
}

TEST_F(TimelineTest, APinnedLaneStaysAtTheTop) {
  move_to(middle_of(place_of(SideKind::profiled, 1)));
  QTest::keyClick(&canvas(), Qt::Key_T);
  ASSERT_EQ(canvas().rows().pinned.size(), 1u);
  EXPECT_EQ(canvas().rows().pinned[0].label, "unshard");
  EXPECT_EQ(canvas().rows().pinned[0].side, SideKind::profiled);
}

TEST_F(TimelineTest, TheGhostIsALaneOfItsOwn) {
  workspace_.set_ghost(shardscope::testing::small_scenario("tried"));
  settle();
  const auto& rows = canvas().rows().rows;
  EXPECT_EQ(std::count_if(rows.begin(), rows.end(), [](const auto& row) { return row.is_ghost; }),
            2)
      << "compute and unshard";
}

TEST_F(TimelineTest, TheAxisIsChosenHere) {
  auto* mode = view_.findChild<QComboBox*>();
  ASSERT_NE(mode, nullptr);
  mode->setFocus();
  QTest::keyClick(mode, Qt::Key_Down);
  settle();
  EXPECT_EQ(workspace_.time_mode(), TimeMode::unit);
  EXPECT_EQ(axis_range(canvas().data(), place_of(SideKind::profiled, 1)).end, 100'000)
      << "laid on the prediction";
}

TEST_F(TimelineTest, TheTableHasTheSpansThatAreVisible) {
  const QAbstractItemModelTester tester(view_.table(),
                                        QAbstractItemModelTester::FailureReportingMode::Fatal);
  EXPECT_EQ(view_.table()->rowCount(), 4);
  workspace_.show({.begin = 0, .end = 20'000});
  ASSERT_TRUE(has_sums_of(20'000));
  ASSERT_EQ(view_.table()->rowCount(), 2) << "compute of both sides";
  EXPECT_EQ(view_.table()->index(1, SpansModel::duration_column).data(View::number_role).toDouble(),
            75);
  EXPECT_EQ(view_.table()->index(0, SpansModel::unit_column).data().toString(),
            QStringLiteral("layers.0"));
}

TEST_F(TimelineTest, ExposedCommunicationIsListedTheLongestFirst) {
  ASSERT_TRUE(has_sums_of(125'000));
  const QAbstractItemModelTester tester(&view_.exposed(),
                                        QAbstractItemModelTester::FailureReportingMode::Fatal);
  ASSERT_EQ(view_.exposed().rowCount(), 2);
  EXPECT_DOUBLE_EQ(view_.exposed().index(0, 2).data(View::number_role).toDouble(), 0.05);
  EXPECT_EQ(view_.exposed().index(0, 1).data().toString(), QStringLiteral("layers.1"));
  EXPECT_DOUBLE_EQ(view_.exposed().index(1, 2).data(View::number_role).toDouble(), 0.04);
}

/// A scenario that there is nothing of to be drawn.
ScenarioPointer without_traces() {
  auto scenario = std::make_shared<Scenario>();
  scenario->label = "bare";
  scenario->path = "runs/bare";
  return scenario;
}

TEST_F(TimelineTest, OfARunWithoutTracesNoFigureOfTheOneBeforeIsLeft) {
  ASSERT_TRUE(has_sums_of(125'000));
  workspace_.select({.scenario = workspace_.a(), .side = SideKind::predicted, .operation = {2}});
  settle();
  ASSERT_GT(view_.exposed().rowCount(), 0);
  const ScenarioPointer bare = without_traces();
  workspace_.add(bare);
  workspace_.set_a(bare);
  settle();
  ASSERT_TRUE(canvas().data().sources.empty());
  for (TextRowsModel* rows :
       {&view_.identity(), &view_.operations(), &view_.exposed(), &view_.details()})
    EXPECT_EQ(rows->rowCount(), 0);
  EXPECT_EQ(view_.table()->rowCount(), 0);
}

TEST_F(TimelineTest, NoHitOfTheRunBeforeIsSteppedTo) {
  auto* box = view_.findChild<QLineEdit*>();
  box->setText(QStringLiteral("all_g"));
  settle();
  const std::vector<Command> commands = view_.commands();
  const auto next = std::find_if(commands.begin(), commands.end(), [](const Command& command) {
    return command.text == QStringLiteral("Next search hit");
  });
  ASSERT_NE(next, commands.end());
  ASSERT_TRUE(next->is_enabled());
  // As soon as the new rows are there, which is before they are searched.
  bool was_enabled = true;
  QObject::connect(&canvas(), &TimelineCanvas::rows_changed, &canvas(), [&] {
    was_enabled = next->is_enabled();
    next->run();
  });
  const ScenarioPointer bare = without_traces();
  workspace_.add(bare);
  workspace_.set_a(bare);
  settle();
  EXPECT_FALSE(was_enabled);
  EXPECT_FALSE(canvas().selected().has_value());
}

TEST(Timeline, IsEmptyWithoutARun) {
  Workspace workspace;
  TimelineView view(workspace);
  view.resize(640, 480);
  view.show();
  ASSERT_TRUE(workspace.tasks().wait_until_idle(patience_ms));
  EXPECT_EQ(view.table()->rowCount(), 0);
  EXPECT_FALSE(view.grab().isNull());
}

}  // namespace
}  // namespace shardscope::gui
