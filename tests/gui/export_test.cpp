#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <QImage>
#include <QPointer>
#include <QProgressDialog>
#include <QPushButton>
#include <QStandardItemModel>
#include <QTemporaryDir>
#include <QTest>
#include <QXmlStreamReader>
#include <fstream>

#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "gui/app/write_views.h"
#include "gui/export/export_dialog.h"
#include "gui/export/export_view.h"
#include "gui/export/table_file.h"
#include "gui/export/table_reader.h"
#include "tests/gui/patience.h"
#include "tests/gui/scenarios.h"

namespace shardscope::gui {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

constexpr PictureSize small{.width = 300, .height = 200, .scale = 2};

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  return names;
}

struct Export : ::testing::Test {
  Export() {
    window.workspace().add(shardscope::testing::small_scenario("one"));
    window.workspace().add(shardscope::testing::small_scenario("two"));
  }
  fs::path path(const std::string& name) const {
    return folder.filePath(name.c_str()).toStdString();
  }
  View& view() { return *window.view("diagnostics"); }

  QTemporaryDir folder;
  MainWindow window;
};

TEST_F(Export, APngHasPixelsOfTheScale) {
  const QByteArray bytes = export_view(view(), ExportFormat::png, small)();
  const QImage image = QImage::fromData(bytes, "PNG");
  EXPECT_EQ(image.size(), QSize(600, 400));
}

TEST_F(Export, AnSvgIsWellFormedAndNamesViewAndScenarios) {
  window.workspace().set_b(window.workspace().scenarios()[1]);
  const QByteArray bytes = export_view(view(), ExportFormat::svg, small)();
  QXmlStreamReader xml(bytes);
  QString text;
  while (!xml.atEnd())
    if (xml.readNext() == QXmlStreamReader::Characters) text += xml.text();
  EXPECT_FALSE(xml.hasError()) << xml.errorString().toStdString();
  EXPECT_TRUE(text.contains("Diagnostics"));
  EXPECT_TRUE(text.contains("A  one"));
  EXPECT_TRUE(text.contains("B  two"));
}

TEST_F(Export, APdfHasAPageForEachView) {
  const QByteArray bytes = export_pdf({&view(), &view()}, small);
  EXPECT_TRUE(bytes.startsWith("%PDF-"));
  EXPECT_EQ(bytes.count("/Type /Page\n"), 2);
}

TEST_F(Export, EveryViewGoesIntoAFolder) {
  write_views(window,
              {.output = path("new/folder"), .format = ExportFormat::csv, .into_folder = true});
  EXPECT_EQ(names_in(path("new/folder")).size(), window.views().size());
}

TEST_F(Export, TheWholeWindowIsAPicture) {
  write_views(window, {.views = {"window"},
                       .output = path("w.png"),
                       .size = {.width = 900, .height = 600, .scale = 2}});
  EXPECT_EQ(QImage(folder.filePath("w.png")).size(), QSize(1800, 1200));
}

TEST_F(Export, AnUnknownViewIsNamedWithThoseThereAre) {
  try {
    write_views(window, {.views = {"memry"}, .output = path("x.png")});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("--export: there is no view \"memry\""));
  }
}

TEST_F(Export, AFullDiskIsOneLineAndLeavesNothing) {
  QString told;
  QObject::connect(&window, &MainWindow::failed, [&](const QString& message) { told = message; });
  fs::create_symlink("/dev/full", path("full.png"));
  export_to(view(), path("full.png"), [](const QString&) { FAIL(); });
  ASSERT_TRUE(window.workspace().tasks().wait_until_idle(patience_ms));
  EXPECT_TRUE(told.contains("No space left on device")) << told.toStdString();
  EXPECT_FALSE(told.contains('\n'));
}

TEST_F(Export, ATableIsReadBetweenEventsAndWrittenWhole) {
  ASSERT_TRUE(window.workspace().tasks().wait_until_idle(patience_ms));
  QString told;
  export_to(view(), path("d.csv"), [&](const QString& line) { told = line; });
  EXPECT_FALSE(fs::exists(path("d.csv")));
  ASSERT_TRUE(QTest::qWaitFor([&] { return !told.isEmpty(); }, patience_ms));
  EXPECT_EQ(read_whole(path("d.csv")), csv_of(*view().table()).toStdString());
}

TEST_F(Export, CancelledNothingIsWritten) {
  ASSERT_TRUE(window.workspace().tasks().wait_until_idle(patience_ms));
  export_to(view(), path("d.csv"), [](const QString&) { FAIL(); });
  const QPointer<QProgressDialog> progress = window.findChild<QProgressDialog*>("export_progress");
  ASSERT_NE(progress, nullptr);
  progress->findChild<QPushButton*>()->click();
  ASSERT_TRUE(QTest::qWaitFor([&] { return progress == nullptr; }, patience_ms));
  ASSERT_TRUE(window.workspace().tasks().wait_until_idle(patience_ms));
  EXPECT_THAT(names_in(folder.path().toStdString()), UnorderedElementsAre());
}

TEST_F(Export, WhereAFolderIsMissingNothingIsLeft) {
  EXPECT_THROW(write_views(window, {.views = {"diagnostics"}, .output = path("none/x.png")}),
               Error);
  EXPECT_THAT(names_in(folder.path().toStdString()), UnorderedElementsAre());
}

TEST_F(Export, WhatCannotReplaceAFileLeavesItAsItWas) {
  fs::create_directory(path("x.csv"));
  EXPECT_THROW(
      write_views(window,
                  {.views = {"diagnostics"}, .output = path("x.csv"), .format = ExportFormat::csv}),
      Error);
  EXPECT_THAT(names_in(folder.path().toStdString()), UnorderedElementsAre("x.csv"));
}

TEST(TableReading, StopsWhereTheTableChangesMeanwhile) {
  QStandardItemModel model(3, 1);
  TableReader reader(model, ExportFormat::csv, nullptr);
  int overtaken = 0;
  QObject::connect(&reader, &TableReader::overtaken, [&] { ++overtaken; });
  QObject::connect(&reader, &TableReader::finished, [](const QString&) { FAIL(); });
  model.removeRow(1);
  model.removeRow(1);
  QCoreApplication::processEvents();
  EXPECT_EQ(overtaken, 1);
}

/// Bytes (MiB) | Name, the second row with a child.
struct Table : ::testing::Test {
  Table() {
    model.setHorizontalHeaderLabels({"Bytes (MiB)", "Name"});
    add(model.invisibleRootItem(), "1.50", 1.5000125, "a, \"b\"");
    add(add(model.invisibleRootItem(), "3", 3, "x|y"), "", QVariant(), "child");
  }
  static QStandardItem* add(QStandardItem* parent, const QString& text, const QVariant& number,
                            const QString& name) {
    auto* bytes = new QStandardItem(text);
    bytes->setData(number, View::number_role);
    bytes->setTextAlignment(Qt::AlignRight);
    parent->appendRow({bytes, new QStandardItem(name)});
    return bytes;
  }
  QStandardItemModel model;
};

TEST_F(Table, CsvHasAllDigitsAndQuotes) {
  EXPECT_EQ(csv_of(model).toStdString(),
            "Bytes (MiB),Name\r\n1.5000125,\"a, \"\"b\"\"\"\r\n3,x|y\r\n,child\r\n");
}

TEST_F(Table, MarkdownIsAsShownAndEscaped) {
  EXPECT_EQ(markdown_of(model).toStdString(),
            "| Bytes (MiB) | Name |\n| --: | --- |\n| 1.50 | a, \"b\" |\n| 3 | x\\|y |\n"
            "| &emsp; | child |\n");
}

}  // namespace
}  // namespace shardscope::gui
