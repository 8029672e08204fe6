#include <gtest/gtest.h>

#include <QLineEdit>
#include <QListWidget>
#include <QTest>

#include "gui/window/command_palette.h"
#include "gui/window/main_window.h"
#include "tests/gui/patience.h"

namespace shardscope::gui {
namespace {

struct Palette : ::testing::Test {
  Palette() {
    const auto noting = [this](const QString& what) { return [this, what] { done += what; }; };
    palette = new CommandPalette(
        {{.group = "File", .text = "Open", .keys = {QKeySequence("Ctrl+O")}, .run = noting("open")},
         {.group = "View", .text = "Zoom in", .run = noting("in")},
         {.group = "View",
          .text = "Zoom out",
          .run = noting("out"),
          .is_enabled = [] { return false; }}},
        &window);
    palette->show();
    typed = palette->findChild<QLineEdit*>();
    list = palette->findChild<QListWidget*>();
  }

  QWidget window;
  CommandPalette* palette;
  QLineEdit* typed;
  QListWidget* list;
  QStringList done;
};

TEST_F(Palette, ShowsEverythingWithItsKeys) {
  ASSERT_EQ(list->count(), 3);
  EXPECT_TRUE(list->item(0)->text().contains("File: Open"));
  EXPECT_TRUE(list->item(0)->text().contains("Ctrl+O"));
}

TEST_F(Palette, LettersNarrowItDownAndReturnRuns) {
  QTest::keyClicks(typed, "zin");
  ASSERT_EQ(list->count(), 1);
  QTest::keyClick(typed, Qt::Key_Return);
  EXPECT_TRUE(QTest::qWaitFor([&] { return !done.isEmpty(); }, patience_ms));
  EXPECT_EQ(done, QStringList("in"));
}

TEST_F(Palette, ArrowsChoose) {
  QTest::keyClick(typed, Qt::Key_Down);
  QTest::keyClick(typed, Qt::Key_Return);
  EXPECT_TRUE(QTest::qWaitFor([&] { return !done.isEmpty(); }, patience_ms));
  EXPECT_EQ(done, QStringList("in"));
}

TEST_F(Palette, WhatCannotBeDoneDoesNotRun) {
  QTest::keyClicks(typed, "zoomout");
  ASSERT_EQ(list->count(), 1);
  QTest::keyClick(typed, Qt::Key_Return);
  EXPECT_TRUE(palette->isVisible());
}

TEST(WindowPalette, OpensByItsKeyAndRunsWhatIsTyped) {
  MainWindow window;
  window.show();
  ASSERT_TRUE(QTest::qWaitForWindowActive(&window, patience_ms));
  QTest::keyClick(&window, Qt::Key_P, Qt::ControlModifier | Qt::ShiftModifier);
  const auto* palette = window.findChild<CommandPalette*>();
  ASSERT_NE(palette, nullptr);
  auto* typed = palette->findChild<QLineEdit*>();
  QTest::keyClicks(typed, "helpkeys");
  QTest::keyClick(typed, Qt::Key_Return);
  EXPECT_TRUE(QTest::qWaitFor([&] { return window.findChild<QWidget*>("key_sheet") != nullptr; },
                              patience_ms));
}

}  // namespace
}  // namespace shardscope::gui
