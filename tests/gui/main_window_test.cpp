#include "gui/window/main_window.h"

#include <gtest/gtest.h>

#include <QTest>
#include <filesystem>

#include "tests/gui/scenarios.h"

namespace shardscope::gui {
namespace {

constexpr int patience_ms = 60'000;

TEST(MainWindow, EveryViewHasAnIdATitleAndATable) {
  MainWindow window;
  ASSERT_FALSE(window.views().empty());
  for (View* view : window.views()) {
    EXPECT_FALSE(view->objectName().isEmpty());
    EXPECT_FALSE(view->accessibleName().isEmpty());
    EXPECT_NE(view->table(), nullptr);
    EXPECT_EQ(window.view(view->objectName()), view);
  }
}

TEST(MainWindow, WhatIsNoRunIsTold) {
  MainWindow window;
  QString told;
  QObject::connect(&window, &MainWindow::failed, [&](const QString& message) { told = message; });
  window.open("/nowhere/at/all");
  ASSERT_TRUE(window.workspace().tasks().wait_until_idle(patience_ms));
  EXPECT_TRUE(told.contains(QStringLiteral("/nowhere/at/all"))) << told.toStdString();
}

TEST(MainWindow, XChangesAAndB) {
  MainWindow window;
  window.show();
  const auto one = shardscope::testing::small_scenario("one");
  const auto two = shardscope::testing::small_scenario("two");
  window.workspace().add(one);
  window.workspace().add(two);
  window.workspace().set_b(two);
  ASSERT_TRUE(QTest::qWaitForWindowActive(&window));
  QTest::keyClick(&window, Qt::Key_X);
  EXPECT_EQ(window.workspace().a(), two);
}

}  // namespace
}  // namespace shardscope::gui
