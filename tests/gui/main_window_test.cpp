#include "gui/window/main_window.h"

#include <gtest/gtest.h>

#include <QAbstractItemView>
#include <QApplication>
#include <QComboBox>
#include <QDockWidget>
#include <QDropEvent>
#include <QMenu>
#include <QMenuBar>
#include <QMimeData>
#include <QProgressBar>
#include <QPushButton>
#include <QStatusBar>
#include <QTemporaryDir>
#include <QTest>
#include <QToolBar>
#include <filesystem>
#include <fstream>

#include "gui/window/message_banner.h"
#include "gui/window/mnemonics.h"
#include "gui/window/view_pane.h"
#include "tests/gui/patience.h"
#include "tests/gui/run_samples.h"
#include "tests/gui/scenarios.h"

namespace shardscope::gui {
namespace {

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

TEST(MainWindow, APictureOfTheWindowFitsItsSizeAndShowsTheTimeline) {
  MainWindow window;
  window.workspace().add(shardscope::testing::small_scenario("one"));
  const QSize size(1280, 720);
  window.show_compared(size);
  EXPECT_EQ(window.size(), size);
  const View* timeline = window.view("timeline");
  ASSERT_TRUE(timeline->isVisible());
  EXPECT_LE(timeline->mapTo(&window, QPoint(0, timeline->height())).y(), size.height());
  EXPECT_GT(timeline->height(), size.height() / 4);
}

TEST(MainWindow, XChangesAAndB) {
  MainWindow window;
  window.show();
  const auto one = shardscope::testing::small_scenario("one");
  const auto two = shardscope::testing::small_scenario("two");
  window.workspace().add(one);
  window.workspace().add(two);
  window.workspace().set_b(two);
  ASSERT_TRUE(QTest::qWaitForWindowActive(&window, patience_ms));
  QTest::keyClick(&window, Qt::Key_X);
  EXPECT_EQ(window.workspace().a(), two);
}

/// Shown, active, with two scenarios.
struct TwoRuns : ::testing::Test {
  TwoRuns() {
    window.show();
    window.workspace().add(shardscope::testing::small_scenario("one"));
    window.workspace().add(shardscope::testing::small_scenario("two"));
    EXPECT_TRUE(QTest::qWaitForWindowActive(&window, patience_ms));
  }
  bool shows(const QString& id) { return window.view(id)->isVisible(); }

  MainWindow window;
};

TEST(EmptyWindow, WelcomesAndShowsNoViews) {
  MainWindow window;
  window.show();
  const auto* page = window.findChild<QWidget*>("welcome_page");
  EXPECT_TRUE(page->isVisible());
  for (View* view : window.views()) EXPECT_FALSE(view->isVisible());
  window.workspace().add(shardscope::testing::small_scenario("one"));
  EXPECT_FALSE(page->isVisible());
  EXPECT_TRUE(window.views().front()->isVisible());
  window.workspace().remove(window.workspace().a());
  EXPECT_TRUE(page->isVisible());
}

TEST(EmptyWindow, AllCommandsCanBeAskedForTheirState) {
  MainWindow window;
  for (const Command& command : window.commands()) {
    EXPECT_FALSE(command.group.isEmpty());
    EXPECT_TRUE(command.run) << command.text.toStdString();
    if (command.is_enabled) command.is_enabled();
    if (command.is_checked) command.is_checked();
  }
}

TEST(MessageBanner, KeepsTheLastFewUntilDismissed) {
  QWidget window;
  MessageBanner banner(&window);
  for (int i = 0; i < 7; ++i) banner.tell(QString::number(i));
  banner.tell("6");
  EXPECT_EQ(banner.messages(), (QStringList{"2", "3", "4", "5", "6"}));
  banner.dismiss();
  EXPECT_TRUE(banner.messages().isEmpty());
}

TEST(MessageBanner, WhatHoldsNoLongerIsTakenBack) {
  MessageBanner banner(nullptr);
  banner.tell(QStringLiteral("/runs/a: cannot be read"));
  banner.tell(QStringLiteral("/runs/a/trace.json: is damaged"));
  banner.tell(QStringLiteral("/runs/a2: cannot be read"));
  banner.tell(QStringLiteral("/runs/b has changed on disk"));
  banner.withdraw(QStringLiteral("/runs/a"));
  EXPECT_EQ(banner.messages(), (QStringList{QStringLiteral("/runs/a2: cannot be read"),
                                            QStringLiteral("/runs/b has changed on disk")}));
}

TEST(MainWindow, WhatFailsStaysInTheBannerUntilItIsDismissed) {
  MainWindow window;
  window.show();
  window.open("/nowhere/at/all");
  ASSERT_TRUE(window.workspace().tasks().wait_until_idle(patience_ms));
  auto* banner = window.findChild<MessageBanner*>();
  EXPECT_TRUE(banner->isVisible());
  banner->dismiss();
  EXPECT_FALSE(banner->isVisible());
}

TEST(MainWindow, RunsStandInTheOrderInWhichTheyWereAskedFor) {
  const shardscope::testing::ScratchFolder folder;
  MainWindow window;
  std::vector<std::filesystem::path> asked;
  // The first ones have the most ranks to read.
  for (int world = 8; world > 0; --world) {
    asked.push_back(folder / ("run_" + std::to_string(world)));
    shardscope::testing::write_sample_run(asked.back(), {.world = world});
  }
  for (const auto& path : asked) window.open(path);
  ASSERT_TRUE(window.workspace().tasks().wait_until_idle(patience_ms));
  std::vector<std::filesystem::path> there;
  for (const ScenarioPointer& one : window.workspace().scenarios()) there.push_back(one->path);
  EXPECT_EQ(there, asked);
  EXPECT_EQ(window.workspace().a()->path, asked.front());
}

/// A trace of PyTorch's profiler with that many operators, one after the other.
void write_large_trace(const std::filesystem::path& path, int operators) {
  std::ofstream file(path);
  file << R"({"schemaVersion": 1, "traceEvents": [)";
  for (int i = 0; i < operators; ++i)
    file << (i > 0 ? "," : "") << R"({"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, )"
         << R"("tid": 1, "ts": )" << 10 * i << R"(, "dur": 9})";
  file << "]}";
}

TEST(MainWindow, ClosesWhileItOpensAndAddsNothing) {
  const QTemporaryDir folder;
  const std::filesystem::path trace = folder.filePath("trace.json").toStdString();
  write_large_trace(trace, 200'000);
  bool is_closed = false;
  int changes = 0;
  {
    MainWindow window;
    window.show();
    QObject::connect(&window.workspace(), &Workspace::scenarios_changed, [&] { ++changes; });
    // Progress is told before what was read is handed over: whenever it comes, it is in mid-load.
    QObject::connect(window.findChild<QProgressBar*>(QStringLiteral("opening_progress")),
                     &QProgressBar::valueChanged, [&](int now) {
                       if (now <= 0 || is_closed) return;
                       is_closed = true;
                       window.close();
                     });
    window.open(trace);
    ASSERT_TRUE(QTest::qWaitFor([&] { return is_closed; }, patience_ms));
    window.open(trace);  // in flight when the window is destroyed
  }
  EXPECT_EQ(changes, 0);
}

TEST(MainWindow, WhatIsCancelledIsNotAddedAndNotTold) {
  MainWindow window;
  QObject::connect(&window, &MainWindow::failed,
                   [](const QString& told) { ADD_FAILURE() << told.toStdString(); });
  window.open("/nowhere/at/all");
  window.findChild<QPushButton*>("cancel_opening")->click();
  ASSERT_TRUE(window.workspace().tasks().wait_until_idle(patience_ms));
}

TEST(MainWindow, WhatIsNotOnThisMachineIsToldWhenDropped) {
  MainWindow window;
  window.show();
  QMimeData data;
  data.setUrls({QUrl("https://example.org/trace.json")});
  QDragEnterEvent enter(QPoint(5, 5), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
  QApplication::sendEvent(&window, &enter);
  QDropEvent drop(QPointF(5, 5), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
  QApplication::sendEvent(&window, &drop);
  EXPECT_EQ(window.findChild<MessageBanner*>()->messages().size(), 1);
}

TEST_F(TwoRuns, ControlAndANumberBringUpAView) {
  QTest::keyClick(&window, Qt::Key_2, Qt::ControlModifier);
  EXPECT_TRUE(window.views()[1]->isVisible());
  QTest::keyClick(&window, Qt::Key_1, Qt::ControlModifier);
  EXPECT_TRUE(window.views()[0]->isVisible());
}

TEST_F(TwoRuns, MemoryOverTimelineLeavesTheWindowAsLargeAsItWas) {
  window.resize(1280, 800);
  QTest::keyClick(&window, Qt::Key_0, Qt::ControlModifier);
  QTest::qWait(50);
  EXPECT_TRUE(shows(QStringLiteral("memory")));
  EXPECT_TRUE(shows(QStringLiteral("timeline")));
  EXPECT_EQ(window.size(), QSize(1280, 800));
}

TEST(OpenedFile, IsSaidInTheStatusBar) {
  const shardscope::testing::ScratchFolder folder;
  shardscope::testing::write_sample_run(folder / "one");
  MainWindow window;
  window.show();
  window.open(folder / "one");
  ASSERT_TRUE(window.workspace().tasks().wait_until_idle(patience_ms));
  const QString said = window.statusBar()->currentMessage();
  EXPECT_TRUE(said.startsWith(QStringLiteral("Opened one: full_shard x2 (predicted: 1 rank, ")))
      << said.toStdString();
  EXPECT_TRUE(said.contains(QStringLiteral("profiled: 2 ranks"))) << said.toStdString();
  EXPECT_TRUE(window.findChild<MessageBanner*>()->messages().isEmpty());
}

TEST(OpenedFile, ThatIsCutOffIsToldOverTheViewsAndMarkedInTheChoosers) {
  const shardscope::testing::ScratchFolder folder;
  std::ofstream(folder / "cut.json")
      << R"({"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7,
             "ts": 10, "dur": 5, "args": {"stream": 7}}, {"ph": "X", "cat": "ker)";
  MainWindow window;
  window.show();
  window.open(folder / "cut.json");
  ASSERT_TRUE(window.workspace().tasks().wait_until_idle(patience_ms));
  ASSERT_EQ(window.workspace().scenarios().size(), 1u);
  const QString told = window.findChild<MessageBanner*>()->messages().join(u'\n');
  EXPECT_TRUE(told.contains(QStringLiteral("cut.json")) && told.contains(QStringLiteral("cut off")))
      << told.toStdString();
  const auto* bar = window.findChild<QToolBar*>(QStringLiteral("pair_bar"));
  const auto* chooser = bar->findChild<QComboBox*>();
  EXPECT_FALSE(chooser->itemIcon(0).isNull());
  EXPECT_TRUE(chooser->toolTip().contains(QStringLiteral("cut off")));
}

TEST_F(TwoRuns, EachMenuStandsInTheBarOnce) {
  QStringList titles;
  for (const QAction* action : window.menuBar()->actions())
    titles += without_mnemonic(action->text());
  EXPECT_EQ(titles.removeDuplicates(), 0) << titles.join(u' ').toStdString();
  EXPECT_TRUE(titles.contains(QStringLiteral("Compare")));
}

TEST_F(TwoRuns, QuitAndSaveStandOnceInTheFileMenuWithTheirKeys) {
  const QMenu* file = nullptr;
  for (const QAction* action : window.menuBar()->actions())
    if (without_mnemonic(action->text()) == "File") file = action->menu();
  ASSERT_NE(file, nullptr);
  for (const char* key : {"Ctrl+Q", "Ctrl+S"}) {
    SCOPED_TRACE(key);
    QList<QAction*> with_key;
    for (QAction* action : window.findChildren<QAction*>())
      if (action->shortcuts().contains(QKeySequence(QLatin1String(key)))) with_key += action;
    ASSERT_EQ(with_key.size(), 1);
    EXPECT_TRUE(file->actions().contains(with_key.front()));
    EXPECT_TRUE(with_key.front()->isEnabled());
  }
}

TEST_F(TwoRuns, AWindowStartsWithinASmallScreen) {
  // 48 pixels are left to a window manager's frame.
  EXPECT_EQ(usual_size(QSize(1366, 768)), QSize(1280, 720));
  EXPECT_EQ(usual_size(QSize(1920, 1080)), QSize(1280, 800));
  EXPECT_EQ(MainWindow().size(), QSize(1280, 800));
  // The views do not make it larger again.
  window.resize(usual_size(QSize(1366, 768)));
  QApplication::processEvents();
  EXPECT_LE(window.height(), 720);
  EXPECT_LE(window.width(), 1366);
}

TEST_F(TwoRuns, ControlTShowsTheTableBehindTheView) {
  window.show_view(window.view("diagnostics"));
  const auto* pane = qobject_cast<ViewPane*>(window.view("diagnostics")->parentWidget());
  ASSERT_NE(pane, nullptr);
  QTest::keyClick(&window, Qt::Key_T, Qt::ControlModifier);
  EXPECT_TRUE(pane->shows_table());
  EXPECT_EQ(pane->findChild<QAbstractItemView*>("", Qt::FindDirectChildrenOnly)->model(),
            window.view("diagnostics")->table());
  QTest::keyClick(&window, Qt::Key_T, Qt::ControlModifier);
  EXPECT_FALSE(pane->shows_table());
}

TEST_F(TwoRuns, F11LeavesOneViewAndBringsTheOthersBack) {
  window.show_view(window.views().front());
  QTest::keyClick(&window, Qt::Key_F11);
  EXPECT_FALSE(window.menuBar()->isVisible());
  for (const QDockWidget* dock : window.findChildren<QDockWidget*>())
    EXPECT_EQ(!dock->isHidden(), dock->isAncestorOf(window.views().front()));
  QTest::keyClick(&window, Qt::Key_F11);
  EXPECT_TRUE(window.menuBar()->isVisible());
  for (const QDockWidget* dock : window.findChildren<QDockWidget*>())
    EXPECT_FALSE(dock->isHidden());
}

TEST_F(TwoRuns, TheMenuOfThisViewHasWhatCanBeDoneThere) {
  View* view = window.view("memory");
  window.show_view(view);
  QMenu* menu = nullptr;
  for (const QAction* action : window.menuBar()->actions())
    if (without_mnemonic(action->text()) == "This view") menu = action->menu();
  ASSERT_NE(menu, nullptr);
  Q_EMIT menu->aboutToShow();
  QStringList texts;
  for (const QAction* action : menu->actions())
    texts += without_mnemonic(action->text()).section('\t', 0, 0);
  EXPECT_TRUE(texts.contains("Export..."));
  for (const Command& command : view->commands())
    EXPECT_TRUE(texts.join('\n').contains(command.text)) << command.text.toStdString();
}

TEST_F(TwoRuns, TheTitleNamesWhatIsCompared) {
  EXPECT_EQ(window.windowTitle(), "one");
  window.workspace().set_b(window.workspace().scenarios()[1]);
  EXPECT_EQ(window.windowTitle(), "one and two");
}

TEST_F(TwoRuns, AAndBCanBeAskedForByLabel) {
  window.compare("two", "one");
  EXPECT_EQ(window.workspace().a()->label, "two");
  EXPECT_EQ(window.workspace().b()->label, "one");
  window.compare("tow", std::nullopt);
  EXPECT_TRUE(window.findChild<MessageBanner*>()->messages().join("").contains(
      "--a: nothing that is open is called \"tow\"; did you mean \"two\"?"));
}

TEST_F(TwoRuns, AppearanceChangesWhileItRuns) {
  window.set_appearance(AppearanceChoice::dark);
  QApplication::processEvents();
  EXPECT_LT(window.palette().color(QPalette::Window).lightness(), 100);
  window.set_appearance(AppearanceChoice::light);
  QApplication::processEvents();
  EXPECT_GT(window.palette().color(QPalette::Window).lightness(), 200);
}

TEST(WindowSettings, RememberWhatWasOpenedLastFirst) {
  WindowSettings settings;
  for (const char* path : {"/a", "/b", "/a"}) settings.add_recent(path);
  EXPECT_EQ(WindowSettings().recent(), (QStringList{"/a", "/b"}));
  settings.set_appearance(AppearanceChoice::dark);
  EXPECT_EQ(WindowSettings().appearance(), AppearanceChoice::dark);
}

}  // namespace
}  // namespace shardscope::gui
