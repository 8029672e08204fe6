// One sitting at the whole window, by mouse and keys: open, compare, select, zoom, undo, export.
#include <gtest/gtest.h>

#include <QAbstractItemModel>
#include <QImage>
#include <QTest>
#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "gui/app/write_views.h"
#include "gui/strategies/strategies_view.h"
#include "gui/table/table_pane.h"
#include "gui/timeline/text_rows_model.h"
#include "gui/timeline/timeline_canvas.h"
#include "gui/timeline/timeline_view.h"
#include "gui/units/units_view.h"
#include "gui/window/main_window.h"
#include "tests/gui/patience.h"
#include "tests/gui/run_samples.h"

namespace shardscope::gui {
namespace {

namespace fs = std::filesystem;

constexpr PictureSize laptop{.width = 1280, .height = 720, .scale = 2};

bool holds_text(const QAbstractItemModel& model, const QString& text) {
  for (int row = 0; row < model.rowCount(); ++row)
    for (int column = 0; column < model.columnCount(); ++column)
      if (model.index(row, column).data().toString().contains(text)) return true;
  return false;
}

QByteArray content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return QByteArray::fromStdString({std::istreambuf_iterator<char>(file), {}});
}

bool has_one_colour(const QImage& image) {
  for (int y = 0; y < image.height(); ++y)
    for (int x = 0; x < image.width(); ++x)
      if (image.pixel(x, y) != image.pixel(0, 0)) return false;
  return true;
}

/// A window of 1280 x 720 with two runs on disk: no_shard of 1 us a step and full_shard of 2 us.
class Sitting : public ::testing::Test {
 protected:
  Sitting() {
    shardscope::testing::write_sample_run(folder_ / "no_shard",
                                          {.strategy = "no_shard", .step_time = Duration{1000}});
    shardscope::testing::write_sample_run(folder_ / "full_shard",
                                          {.strategy = "full_shard", .step_time = Duration{2000}});
    QObject::connect(&window_, &MainWindow::failed,
                     [](const QString& told) { ADD_FAILURE() << told.toStdString(); });
    window_.resize(laptop.width, laptop.height);
    window_.show();
    EXPECT_TRUE(QTest::qWaitForWindowActive(&window_, patience_ms));
    open("no_shard");
    open("full_shard");
  }

  void settle() { EXPECT_TRUE(workspace().tasks().wait_until_idle(patience_ms)); }
  void open(const std::string& run) {
    window_.open(folder_ / run);
    settle();
  }
  /// By Ctrl and its place.
  template <class Kind>
  Kind& bring_up(const QString& id) {
    const auto& views = window_.views();
    View* view = window_.view(id);
    const auto place = std::find(views.begin(), views.end(), view) - views.begin();
    QTest::keyClick(&window_, static_cast<Qt::Key>(Qt::Key_1 + place), Qt::ControlModifier);
    EXPECT_TRUE(view->isVisible()) << id.toStdString();
    settle();
    return dynamic_cast<Kind&>(*view);
  }
  void click(TablePane& pane, int row, Qt::KeyboardModifiers modifiers = {}) {
    const QRect cell = pane.visualRect(pane.model()->index(row, 0));
    QTest::mouseClick(pane.viewport(), Qt::LeftButton, modifiers, cell.center());
    settle();
  }
  Workspace& workspace() { return window_.workspace(); }

  shardscope::testing::ScratchFolder folder_;
  MainWindow window_;
};

TEST_F(Sitting, FromTwoRunsToAPictureOfTheirDifference) {
  ASSERT_EQ(workspace().scenarios().size(), 2u);
  const ScenarioPointer unsharded = workspace().scenarios()[0];
  const ScenarioPointer sharded = workspace().scenarios()[1];

  // The unsharded run is the baseline, on top.
  auto& strategies = bring_up<StrategiesView>("strategies");
  click(strategies.pane(), 1);
  click(strategies.pane(), 0, Qt::ControlModifier);
  EXPECT_EQ(workspace().a(), sharded);
  EXPECT_EQ(workspace().b(), unsharded);

  auto& units = bring_up<UnitsView>("units");
  units.show_tab(UnitsView::operations_tab);
  click(units.pane(UnitsView::operations_tab), 0);
  EXPECT_EQ(workspace().selection().operation, OperationId{0});

  auto& timeline = bring_up<TimelineView>("timeline");
  EXPECT_TRUE(holds_text(timeline.details(), "forward"));

  const TimeRange before = workspace().visible();
  QTest::keyClick(&timeline.canvas(), Qt::Key_W);
  EXPECT_LT(workspace().visible().length(), before.length());
  QTest::keyClick(&window_, Qt::Key_Z, Qt::ControlModifier);
  EXPECT_EQ(workspace().visible(), before);
}

TEST_F(Sitting, EveryViewGoesIntoEveryFormat) {
  const std::map<ExportFormat, QByteArray> signatures{{ExportFormat::png, "\x89PNG\r\n"},
                                                      {ExportFormat::svg, "<?xml"},
                                                      {ExportFormat::pdf, "%PDF-"},
                                                      {ExportFormat::csv, ""}};
  const std::set<std::string> is_asked_first{"what_if", "snapshots", "query"};
  for (const auto& [format, signature] : signatures) {
    const std::string name(name_of(format));
    const auto written = write_views(
        window_, {.output = folder_ / name, .format = format, .into_folder = true, .size = laptop});
    EXPECT_EQ(written.size(), window_.views().size());
    for (const fs::path& file : written) {
      const QByteArray content = content_of(file);
      EXPECT_FALSE(content.isEmpty()) << file;
      EXPECT_TRUE(content.startsWith(signature)) << file;
      if (format == ExportFormat::csv) {
        // A header and at least a row; nothing can be tried out on a run without its job, this one
        // has no snapshot, and a query is asked by hand.
        EXPECT_GE(content.count("\r\n"), is_asked_first.contains(file.stem()) ? 1 : 2) << file;
      }
      if (format != ExportFormat::png) continue;
      const QImage image = QImage::fromData(content, "PNG");
      EXPECT_EQ(image.size(), QSize(2560, 1440)) << file;
      EXPECT_FALSE(has_one_colour(image)) << file;
    }
  }
}

}  // namespace
}  // namespace shardscope::gui
