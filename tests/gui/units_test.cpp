#include "gui/units/units_view.h"

#include <gtest/gtest.h>

#include <QAbstractItemModelTester>
#include <QApplication>
#include <QHeaderView>
#include <QImage>
#include <QLineEdit>
#include <QStyleOptionHeader>
#include <QTest>
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "gui/base/theme.h"
#include "gui/table/column_table_model.h"
#include "gui/table/table_pane.h"
#include "tests/gui/patience.h"
#include "tests/gui/scenarios.h"

namespace shardscope::gui {
namespace {

class UnitsAndOperations : public ::testing::Test {
 protected:
  UnitsAndOperations() {
    view_.resize(1400, 600);
    view_.show();
    workspace_.add(scenario_);
    EXPECT_TRUE(workspace_.tasks().wait_until_idle(patience_ms));
    view_.show_tab(UnitsView::operations_tab);
  }

  QString name_at(int place) { return view_.table()->index(place, 0).data().toString(); }

  const ScenarioPointer scenario_ = shardscope::testing::small_scenario("one", 1.25);
  Workspace workspace_;
  UnitsView view_{workspace_};
};

TEST_F(UnitsAndOperations, TheModelsKeepTheirPromises) {
  for (const auto tab : {UnitsView::units_tab, UnitsView::operations_tab}) {
    view_.show_tab(tab);
    QAbstractItemModelTester tester(view_.table(),
                                    QAbstractItemModelTester::FailureReportingMode::Fatal);
    for (int column = 0; column < view_.table()->columnCount(); ++column) {
      view_.table()->sort(column, Qt::DescendingOrder);
      view_.pane(tab).rows().filter(QStringLiteral("layers.1"));
      view_.table()->sort(column, Qt::AscendingOrder);
      view_.pane(tab).rows().filter(QString());
    }
    EXPECT_EQ(view_.table()->rowCount(), 2);
  }
}

TEST_F(UnitsAndOperations, ReturnAndADoubleClickLeadToTheOperationInTheTimeline) {
  QStringList wanted;
  QObject::connect(&workspace_, &Workspace::view_wanted, &workspace_,
                   [&](const QString& id) { wanted += id; });
  TablePane& pane = view_.pane(UnitsView::operations_tab);
  const auto place = pane.rows().place_of(1);  // the all_gather, profiled [50, 125) us
  ASSERT_TRUE(place);
  QTest::mouseDClick(pane.viewport(), Qt::LeftButton, {},
                     pane.visualRect(view_.table()->index(*place, 0)).center());
  EXPECT_EQ(wanted, QStringList{QStringLiteral("timeline")});
  EXPECT_EQ(workspace_.selection().operation, OperationId{2});
  EXPECT_EQ(workspace_.selection().time, (TimeRange{.begin = 50e3, .end = 125e3}));
  EXPECT_LE(workspace_.visible().begin, 50e3);
  EXPECT_GE(workspace_.visible().end, 125e3);
  pane.setCurrentIndex(view_.table()->index(1 - *place, 0));
  QTest::keyClick(&pane, Qt::Key_Return);
  EXPECT_EQ(wanted.size(), 2);
  EXPECT_EQ(workspace_.selection().operation, OperationId{1});
}

TEST_F(UnitsAndOperations, AAgainstBHasBothAndTheirDifference) {
  workspace_.add(shardscope::testing::small_scenario("two", 2));
  workspace_.set_b(workspace_.scenarios()[1]);
  view_.show_pair();
  ASSERT_TRUE(workspace_.tasks().wait_until_idle(patience_ms));
  const ColumnTable& table = view_.pane(UnitsView::operations_tab).rows().table();
  ASSERT_NE(table.find("duration_a"), nullptr);
  // 60 us times 1.25 and times 2.
  EXPECT_EQ(table.find("duration_a")->numbers[0], 75e3);
  EXPECT_EQ(table.find("difference")->numbers[0], 45e3);
  view_.show_tab(UnitsView::memory_tab);
  EXPECT_NE(view_.pane(UnitsView::memory_tab).rows().table().find("memory_b"), nullptr);
  workspace_.set_b(nullptr);
  ASSERT_TRUE(workspace_.tasks().wait_until_idle(patience_ms));
  EXPECT_NE(view_.pane(UnitsView::operations_tab).rows().table().find("duration_profiled"), nullptr)
      << "without B the rows are A's again";
}

TEST_F(UnitsAndOperations, AWhatIfStandsInAColumnOfItsOwn) {
  workspace_.set_ghost(shardscope::testing::small_scenario("tried"));
  ASSERT_TRUE(workspace_.tasks().wait_until_idle(patience_ms));
  const Column* tried =
      view_.pane(UnitsView::operations_tab).rows().table().find("duration_what_if");
  ASSERT_NE(tried, nullptr);
  EXPECT_EQ(tried->numbers[1], 60e3);
}

TEST_F(UnitsAndOperations, AClickSelectsTheOperationForAllViews) {
  TablePane& pane = view_.pane(UnitsView::operations_tab);
  view_.table()->sort(0, Qt::AscendingOrder);
  QTest::mouseClick(pane.viewport(), Qt::LeftButton, {},
                    pane.visualRect(view_.table()->index(0, 0)).center());
  const Selection& selection = workspace_.selection();
  EXPECT_EQ(selection.scenario, scenario_);
  EXPECT_EQ(selection.operation, OperationId{2});
  EXPECT_EQ(selection.unit, "layers.1");
  EXPECT_EQ(selection.span, 1u);
  EXPECT_EQ(selection.time, (TimeRange{.begin = 50e3, .end = 125e3}));
}

TEST_F(UnitsAndOperations, WhatOthersSelectIsTheCurrentRow) {
  workspace_.select({.scenario = scenario_, .operation = {1}, .unit = "layers.0"});
  const TablePane& pane = view_.pane(UnitsView::operations_tab);
  EXPECT_EQ(name_at(pane.currentIndex().row()), QStringLiteral("forward layers.0"));
  view_.show_tab(UnitsView::units_tab);
  EXPECT_EQ(name_at(view_.pane(UnitsView::units_tab).currentIndex().row()),
            QStringLiteral("layers.0"));
  // And it stays the operation that was selected.
  EXPECT_EQ(workspace_.selection().operation, OperationId{1});
}

TEST_F(UnitsAndOperations, TheCurrentRowStaysWhenRowsAreSorted) {
  workspace_.select({.scenario = scenario_, .operation = {1}});
  for (const auto order : {Qt::AscendingOrder, Qt::DescendingOrder}) {
    view_.table()->sort(0, order);
    EXPECT_EQ(name_at(view_.pane(UnitsView::operations_tab).currentIndex().row()),
              QStringLiteral("forward layers.0"));
  }
}

TEST_F(UnitsAndOperations, TypingFilters) {
  view_.filter_box().setFocus();
  QTest::keyClicks(&view_.filter_box(), QStringLiteral("kind:all_gather"));
  EXPECT_TRUE(QTest::qWaitFor([&] { return view_.table()->rowCount() == 1; }, patience_ms));
  EXPECT_EQ(name_at(0), QStringLiteral("all_gather layers.1"));
  EXPECT_TRUE(view_.summary().startsWith(QStringLiteral("1 of 2 rows")))
      << view_.summary().toStdString();
}

TEST_F(UnitsAndOperations, TheSelectedRowsAreSummed) {
  view_.pane(UnitsView::operations_tab).selectAll();
  // Twice 15 us.
  EXPECT_TRUE(
      view_.summary().contains(QStringLiteral("Difference, predicted less profiled -30.0 us")))
      << view_.summary().toStdString();
}

TEST_F(UnitsAndOperations, OneSelectedRowLeavesTheSumOfAll) {
  const QString all = view_.summary();
  view_.pane(UnitsView::operations_tab).selectRow(1);
  EXPECT_EQ(view_.summary(), all);
  view_.pane(UnitsView::operations_tab).rows().filter(QStringLiteral("kind:all_gather"));
  EXPECT_TRUE(view_.summary().contains(QStringLiteral("predicted less profiled -15.0 us")))
      << view_.summary().toStdString();
  view_.pane(UnitsView::operations_tab).rows().filter(QString());
  EXPECT_EQ(view_.summary(), all);
}

TEST_F(UnitsAndOperations, ATitleHasRoomOnTwoLinesBesideTheArrowOfItsOrder) {
  TablePane& pane = view_.pane(UnitsView::units_tab);
  view_.show_tab(UnitsView::units_tab);
  const QHeaderView& header = *pane.horizontalHeader();
  for (int column = 0; column < view_.table()->columnCount(); ++column) {
    if (pane.isColumnHidden(column)) continue;
    QStyleOptionHeader option;
    option.initFrom(&header);
    option.rect = QRect(0, 0, pane.columnWidth(column), header.height());
    option.state |= QStyle::State_Horizontal;
    option.orientation = Qt::Horizontal;
    option.sortIndicator = QStyleOptionHeader::SortDown;
    const QRect room = header.style()->subElementRect(QStyle::SE_HeaderLabel, &option, &header);
    const QString title = view_.table()->headerData(column, Qt::Horizontal).toString();
    const QRect text = header.fontMetrics().boundingRect(QRect(0, 0, room.width(), 1000),
                                                         Qt::AlignCenter | Qt::TextWordWrap, title);
    EXPECT_LE(text.height(), 2 * header.fontMetrics().lineSpacing()) << title.toStdString();
    EXPECT_LE(text.width(), room.width()) << title.toStdString();
  }
}

TEST_F(UnitsAndOperations, OfNothingThereIsNothing) {
  workspace_.remove(scenario_);
  ASSERT_TRUE(workspace_.tasks().wait_until_idle(patience_ms));
  EXPECT_EQ(view_.table()->rowCount(), 0);
  EXPECT_EQ(view_.summary(), QStringLiteral("Nothing is open"));
}

/// Five rows of names in a column too narrow for the long ones, of which the first and the last are
/// the same.
class NarrowCells : public ::testing::Test {
 protected:
  NarrowCells() {
    Column name{.id = "name", .title = "Name"};
    set_texts(name, {"transformer.h.0.attention.weight.of_rank_0", "WWW",
                     "transformer.h.0.attention.weight.of_rank_1", "WWW",
                     "transformer.h.0.attention.weight.of_rank_0"});
    auto table = std::make_shared<ColumnTable>();
    table->rows = 5;
    table->columns = {name};
    set_units(*table);
    model_.show(table);
    pane_.setFocusPolicy(Qt::NoFocus);
    pane_.resize(400, 300);
    pane_.show();
    pane_.setColumnWidth(0, 140);
    QApplication::processEvents();
  }
  ~NarrowCells() override { set_appearance(*qApp, Appearance::light); }

  QImage cell(int place) {
    return pane_.viewport()->grab(pane_.visualRect(model_.index(place, 0))).toImage();
  }

  Tasks tasks_;
  ColumnTableModel model_{tasks_};
  TablePane pane_{model_, QStringLiteral("Names"), nullptr};
};

TEST_F(NarrowCells, NamesThatDifferAtTheirEndLookDifferent) {
  EXPECT_EQ(cell(0), cell(4));
  EXPECT_NE(cell(0), cell(2));
}

/// Contrast of two colours, 1 to 21. Source: WCAG 2.1, "contrast ratio" and "relative luminance".
double contrast(const QColor& a, const QColor& b) {
  const auto linear = [](double part) {
    return part <= 0.03928 ? part / 12.92 : std::pow((part + 0.055) / 1.055, 2.4);
  };
  const auto luminance = [&](const QColor& colour) {
    return 0.2126 * linear(colour.redF()) + 0.7152 * linear(colour.greenF()) +
           0.0722 * linear(colour.blueF());
  };
  const auto [darker, lighter] = std::minmax({luminance(a), luminance(b)});
  return (lighter + 0.05) / (darker + 0.05);
}

/// Of what is seen most, the background, and what differs most from it, the middle of a letter.
double contrast_in(const QImage& image) {
  std::map<QRgb, int> pixels;
  for (int y = 0; y < image.height(); ++y)
    for (int x = 0; x < image.width(); ++x) ++pixels[image.pixel(x, y)];
  const auto ground = std::ranges::max_element(pixels, {}, &std::pair<const QRgb, int>::second);
  double best = 1;
  for (const auto& [colour, count] : pixels)
    best = std::max(best, contrast(QColor(colour), QColor(ground->first)));
  return best;
}

TEST_F(NarrowCells, ASelectedRowCanBeReadInLightAndDark) {
  EXPECT_NEAR(contrast(Qt::black, Qt::white), 21, 1e-9);
  constexpr double readable = 4.5;  // WCAG 2.1, 1.4.3, level AA
  for (const Appearance appearance : {Appearance::light, Appearance::dark}) {
    SCOPED_TRACE(appearance == Appearance::light ? "light" : "dark");
    set_appearance(*qApp, appearance);
    const QPalette palette = QApplication::palette();
    EXPECT_GE(
        contrast(palette.color(QPalette::HighlightedText), palette.color(QPalette::Highlight)),
        readable);
    for (const int place : {0, 1}) {
      const QImage before = cell(place);
      pane_.selectRow(place);
      QApplication::processEvents();
      EXPECT_NE(cell(place), before) << "it is not seen that it is selected";
      EXPECT_GE(contrast_in(cell(place)), readable) << place;
      pane_.clearSelection();
    }
  }
}

/// A table that is large enough to be sorted on a worker.
ColumnTablePointer large_table() {
  auto table = std::make_shared<ColumnTable>();
  table->rows = ColumnTableModel::most_at_once + 1000;
  Column number{.id = "number", .quantity = Quantity::count};
  for (std::size_t i = 0; i < table->rows; ++i)
    number.numbers.push_back(static_cast<double>(i * 7919 % 1000));
  table->columns = {number};
  set_units(*table);
  return table;
}

TEST(ColumnTableModelOnAWorker, SortsAndKeepsPersistentIndexesOnTheirRows) {
  Tasks tasks;
  ColumnTableModel model(tasks);
  const QAbstractItemModelTester tester(&model,
                                        QAbstractItemModelTester::FailureReportingMode::Fatal);
  const ColumnTablePointer table = large_table();
  model.show(table);
  ASSERT_TRUE(tasks.wait_until_idle(patience_ms));
  const QPersistentModelIndex seventh = model.index(7, 0);
  model.sort(0, Qt::AscendingOrder);
  EXPECT_EQ(model.row_at(7), 7u);  // the old order until the new one is there
  ASSERT_TRUE(tasks.wait_until_idle(patience_ms));
  for (int place = 1; place < model.rowCount(); ++place) {
    const std::uint32_t before = model.row_at(place - 1), here = model.row_at(place);
    const double a = table->columns[0].numbers[before], b = table->columns[0].numbers[here];
    ASSERT_TRUE(a < b || (a == b && before < here)) << place;
  }
  EXPECT_EQ(model.row_at(seventh.row()), 7u);
}

TEST(ColumnTableModelOnAWorker, TheLastOfSeveralWishesCounts) {
  Tasks tasks;
  ColumnTableModel model(tasks);
  model.show(large_table());
  model.sort(0, Qt::AscendingOrder);
  model.filter(QStringLiteral("number:999"));
  model.sort(0, Qt::DescendingOrder);
  ASSERT_TRUE(tasks.wait_until_idle(patience_ms));
  // 21000 rows have each of 1000 values 21 times.
  EXPECT_EQ(model.rowCount(), 21);
}

}  // namespace
}  // namespace shardscope::gui
