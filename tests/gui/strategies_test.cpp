#include "gui/strategies/strategies_view.h"

#include <gtest/gtest.h>

#include <QAbstractItemModelTester>
#include <QApplication>
#include <QHeaderView>
#include <QImage>
#include <QLabel>
#include <QTest>
#include <QVBoxLayout>
#include <utility>

#include "gui/base/theme.h"
#include "gui/strategies/pareto_chart.h"
#include "gui/strategies/small_multiples.h"
#include "gui/strategies/verdict_panel.h"
#include "gui/table/column_table_model.h"
#include "gui/table/table_pane.h"
#include "tests/gui/patience.h"
#include "tests/gui/scenarios.h"

namespace shardscope::gui {
namespace {

/// A scenario of that strategy, whose profiled step takes `stretch` times 100 us.
ScenarioPointer scenario(const std::string& strategy, double stretch) {
  Scenario made = *shardscope::testing::small_scenario(strategy + " x2", stretch);
  made.predicted->summary->strategy = made.profiled->summary->strategy = strategy;
  return std::make_shared<const Scenario>(std::move(made));
}

/// Three strategies, A being full_shard and the baseline no_shard.
class Strategies : public ::testing::Test {
 protected:
  Strategies() {
    view_.resize(1400, 800);
    view_.show();
    for (const auto& one : {full_, none_, zero_}) workspace_.add(one);
    EXPECT_TRUE(workspace_.tasks().wait_until_idle(patience_ms));
  }

  void click(int place, Qt::KeyboardModifiers modifiers = Qt::NoModifier) {
    TablePane& pane = view_.pane();
    const QRect cell = pane.visualRect(view_.table()->index(place, 0));
    QTest::mouseClick(pane.viewport(), Qt::LeftButton, modifiers, cell.center());
  }
  QString strategy_at(int place) const {
    return view_.pane().model()->index(place, 0).data().toString();
  }

  const ScenarioPointer full_ = scenario("full_shard", 1.25);
  const ScenarioPointer none_ = scenario("no_shard", 1.0);
  const ScenarioPointer zero_ = scenario("zero1", 1.5);
  Workspace workspace_;
  StrategiesView view_{workspace_};
};

TEST_F(Strategies, TheModelKeepsItsPromises) {
  QAbstractItemModelTester tester(view_.table(),
                                  QAbstractItemModelTester::FailureReportingMode::Fatal);
  for (int column = 0; column < view_.table()->columnCount(); ++column) {
    view_.table()->sort(column, Qt::DescendingOrder);
    view_.table()->sort(column, Qt::AscendingOrder);
  }
  workspace_.remove(zero_);
  ASSERT_TRUE(workspace_.tasks().wait_until_idle(patience_ms));
  EXPECT_EQ(view_.table()->rowCount(), 2);
}

TEST_F(Strategies, TheUnshardedRowIsTheBaselineAndStaysOnTop) {
  ASSERT_NE(view_.baseline(), nullptr);
  EXPECT_EQ(view_.baseline()->scenario, none_);
  const int step = static_cast<int>(view_.pane().rows().table().place_of("step_profiled"));
  view_.table()->sort(step, Qt::DescendingOrder);
  EXPECT_EQ(strategy_at(0), QStringLiteral("no_shard x2"));
  EXPECT_EQ(strategy_at(1), QStringLiteral("zero1 x2"));
  EXPECT_EQ(strategy_at(2), QStringLiteral("full_shard x2"));
}

TEST_F(Strategies, AClickOnARowMakesItAAndSaysWhatItComesToBesideTheBaseline) {
  click(2);
  EXPECT_EQ(workspace_.a(), zero_);
  EXPECT_EQ(workspace_.b(), nullptr);
  EXPECT_TRUE(view_.verdict().sentence().startsWith(
      QStringLiteral("ZERO1 costs 50% of time here with the same memory to the byte, because")))
      << view_.verdict().sentence().toStdString();
}

TEST_F(Strategies, TheVerdictIsSaidToScreenReaders) {
  click(2);
  const auto* sentence = view_.findChild<QLabel*>(QStringLiteral("verdict"));
  const auto* reasons = view_.findChild<QLabel*>(QStringLiteral("verdict_reasons"));
  ASSERT_FALSE(view_.verdict().sentence().isEmpty());
  EXPECT_TRUE(sentence->accessibleName().contains(view_.verdict().sentence()))
      << sentence->accessibleName().toStdString();
  ASSERT_FALSE(view_.verdict().reasons().isEmpty());
  EXPECT_TRUE(reasons->accessibleName().contains(view_.verdict().reasons()))
      << reasons->accessibleName().toStdString();
}

TEST(VerdictPanel, WhatStandsBelowStaysWhereItIsWhenAShorterSentenceFollows) {
  QWidget window;
  auto* panel = new VerdictPanel(&window);
  auto* below = new QWidget(&window);
  auto* layout = new QVBoxLayout(&window);
  layout->addWidget(panel);
  layout->addWidget(below, 1);
  window.resize(400, 600);
  window.show();
  panel->show({}, QStringLiteral("Short."));
  QApplication::processEvents();
  const int one_line = below->y();
  panel->show({}, QStringLiteral("One sentence that takes several lines. ").repeated(6));
  ASSERT_TRUE(QTest::qWaitFor([&] { return below->y() > one_line; }, patience_ms));
  const int wrapped = below->y();
  for (const char* sentence : {"Short.", "As short.", "Short again."}) {
    panel->show({}, QLatin1String(sentence));
    QApplication::processEvents();
    EXPECT_EQ(below->y(), wrapped) << sentence;
  }
}

TEST_F(Strategies, CtrlClickMakesItBAndComparesTheTwo) {
  click(1);
  click(2, Qt::ControlModifier);
  EXPECT_EQ(workspace_.a(), full_);
  EXPECT_EQ(workspace_.b(), zero_);
  // 150 us against 125 us.
  EXPECT_TRUE(view_.verdict().sentence().startsWith(QStringLiteral("ZERO1 costs 20% of time")))
      << view_.verdict().sentence().toStdString();
}

TEST_F(Strategies, ReturnAndShiftReturnDoTheSame) {
  view_.pane().setCurrentIndex(view_.table()->index(2, 0));
  QTest::keyClick(&view_.pane(), Qt::Key_Return);
  EXPECT_EQ(workspace_.a(), zero_);
  view_.pane().setCurrentIndex(view_.table()->index(1, 0));
  QTest::keyClick(&view_.pane(), Qt::Key_Return, Qt::ShiftModifier);
  EXPECT_EQ(workspace_.b(), full_);
}

TEST_F(Strategies, TheBaselineAloneIsLaidBesideItsPrediction) {
  click(0);
  EXPECT_EQ(workspace_.a(), none_);
  EXPECT_TRUE(view_.verdict().sentence().startsWith(
      QStringLiteral("no_shard x2 was predicted within 0% of its step time")))
      << view_.verdict().sentence().toStdString();
}

TEST_F(Strategies, ABaselineThatWasChosenIsTheOneComparedWith) {
  view_.set_baseline(full_);
  EXPECT_EQ(strategy_at(0), QStringLiteral("full_shard x2"));
  workspace_.set_a(zero_);
  EXPECT_TRUE(view_.verdict().sentence().startsWith(QStringLiteral("ZERO1 costs 20% of time")));
}

TEST_F(Strategies, OtherRowsShowTheirDifferenceToTheBaseline) {
  ColumnTableModel& model = view_.pane().rows();
  const int step = static_cast<int>(model.table().place_of("step_profiled"));
  EXPECT_EQ(model.change_text(model.index(0, step)), QString());
  EXPECT_EQ(model.change_text(model.index(1, step)), QStringLiteral("+25%"));
}

TEST_F(Strategies, RowsAreCopiedAsTextWithTheirHeader) {
  for (int column = 1; column < view_.table()->columnCount(); ++column)
    view_.pane().set_column_shown(column, false);
  view_.pane().selectRow(1);
  EXPECT_EQ(view_.pane().selected_text(TextForm::tab_separated),
            QStringLiteral("Strategy\nfull_shard x2\n"));
  EXPECT_EQ(view_.pane().selected_text(TextForm::markdown),
            QStringLiteral("| Strategy |\n|---|\n| full_shard x2 |\n"));
}

TEST_F(Strategies, AClickOnAPointOrOnASmallPictureChoosesItsRow) {
  const auto place = view_.chart().place_of(2);
  ASSERT_TRUE(place);
  QTest::mouseClick(&view_.chart(), Qt::LeftButton, Qt::NoModifier, place->toPoint());
  EXPECT_EQ(workspace_.a(), zero_);
  QTest::mouseClick(&view_.multiples(), Qt::LeftButton, Qt::ControlModifier,
                    view_.multiples().place_of(1).center().toPoint());
  EXPECT_EQ(workspace_.b(), none_);
}

TEST_F(Strategies, SmallPicturesStandInTheOrderOfTheTable) {
  // As one reads: line by line, each from the left.
  const auto is_before = [&](std::size_t a, std::size_t b) {
    const QRectF one = view_.multiples().place_of(a), other = view_.multiples().place_of(b);
    return std::pair(one.top(), one.left()) < std::pair(other.top(), other.left());
  };
  // full_shard, no_shard, zero1 were opened; no_shard is the baseline, which stays on top.
  EXPECT_TRUE(is_before(1, 0));
  EXPECT_TRUE(is_before(0, 2));
  const ColumnTable& table = view_.pane().rows().table();
  view_.table()->sort(static_cast<int>(table.place_of("step_profiled")), Qt::DescendingOrder);
  ASSERT_TRUE(workspace_.tasks().wait_until_idle(patience_ms));
  EXPECT_TRUE(is_before(1, 2));
  EXPECT_TRUE(is_before(2, 0)) << "150 us before 125 us";
}

TEST_F(Strategies, PointsAreReachedByKeysFromTheFastestOn) {
  QTest::keyClick(&view_.chart(), Qt::Key_Right);  // no_shard, 100 us
  QTest::keyClick(&view_.chart(), Qt::Key_Right);
  QTest::keyClick(&view_.chart(), Qt::Key_Right);  // zero1, 150 us
  QTest::keyClick(&view_.chart(), Qt::Key_Return);
  EXPECT_EQ(workspace_.a(), zero_);
}

TEST_F(Strategies, ColumnsWithoutAValueAreNotShown) {
  const ColumnTable& table = view_.pane().rows().table();
  EXPECT_TRUE(view_.pane().isColumnHidden(static_cast<int>(table.place_of("mfu_profiled"))));
  EXPECT_FALSE(view_.pane().isColumnHidden(static_cast<int>(table.place_of("step_profiled"))));
}

TEST_F(Strategies, AWhatIfIsTheLastRowAndAClickLeadsToIt) {
  Scenario tried = *scenario("zero1", 1);
  tried.profiled.reset();
  tried.path.clear();
  tried.label = "native zero1 x2, batch 8";
  workspace_.set_ghost(std::make_shared<const Scenario>(std::move(tried)));
  ASSERT_TRUE(workspace_.tasks().wait_until_idle(patience_ms));
  ASSERT_EQ(view_.table()->rowCount(), 4);
  EXPECT_EQ(view_.rows().back().label, "native zero1 x2, batch 8");
  EXPECT_TRUE(view_.rows().back().is_tried);
  EXPECT_EQ(view_.baseline()->scenario, none_) << "what is only tried is nobody's baseline";
  const auto place = view_.pane().rows().place_of(3);
  ASSERT_TRUE(place);
  EXPECT_EQ(view_.pane().rows().mark_of(*place), QStringLiteral("?"));
  EXPECT_TRUE(view_.chart().place_of(3)) << "a point";
  EXPECT_FALSE(view_.multiples().place_of(3).isEmpty()) << "a small picture";
  QString wanted;
  QObject::connect(&workspace_, &Workspace::view_wanted, &workspace_,
                   [&](const QString& id) { wanted = id; });
  click(*place);
  EXPECT_EQ(wanted, QStringLiteral("what_if"));
  EXPECT_EQ(workspace_.a(), full_) << "it is not chosen";
  workspace_.set_ghost(nullptr);
  ASSERT_TRUE(workspace_.tasks().wait_until_idle(patience_ms));
  EXPECT_EQ(view_.table()->rowCount(), 3);
}

TEST_F(Strategies, SmallPicturesShowTheCategoriesOfMemory) {
  // 10 MiB of parameters all through, 5 MiB of activations over them from 25 of 125 us on.
  const QRectF cell = view_.multiples().place_of(0);
  const QImage picture = view_.multiples().grab(cell.toRect()).toImage();
  const Theme& theme = light_theme();
  const auto count = [&](MemoryCategory category) {
    int pixels = 0;
    for (int y = 0; y < picture.height(); ++y)
      for (int x = 0; x < picture.width(); ++x)
        pixels += picture.pixel(x, y) == theme.of(category).rgb();
    return pixels;
  };
  EXPECT_GT(count(MemoryCategory::parameters), 500);
  EXPECT_GT(count(MemoryCategory::activations), 200);
  EXPECT_GT(count(MemoryCategory::parameters), count(MemoryCategory::activations));
}

TEST(StrategiesEmpty, SayWhatToDo) {
  Workspace workspace;
  const StrategiesView view(workspace);
  ASSERT_TRUE(workspace.tasks().wait_until_idle(patience_ms));
  EXPECT_EQ(view.verdict().sentence(), QStringLiteral("Open run folders or traces to compare "
                                                      "them."));
}

}  // namespace
}  // namespace shardscope::gui
