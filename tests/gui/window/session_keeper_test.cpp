#include "gui/window/session_keeper.h"

#include <gtest/gtest.h>

#include <QTest>

#include "core/format/atomic_file.h"
#include "gui/window/main_window.h"
#include "tests/gui/patience.h"
#include "tests/gui/run_samples.h"

namespace shardscope::gui {
namespace {

using shardscope::testing::SampleRun;
using shardscope::testing::ScratchFolder;
using shardscope::testing::write_sample_run;

class SessionKeeperTest : public ::testing::Test {
 protected:
  SessionKeeperTest() {
    write_sample_run(folder_ / "runs/full_shard");
    write_sample_run(folder_ / "runs/zero1", SampleRun{.strategy = "zero1"});
  }
  static void wait(MainWindow& window) {
    ASSERT_TRUE(window.workspace().tasks().wait_until_idle(patience_ms));
    ASSERT_TRUE(window.workspace().tasks().wait_until_idle(patience_ms));
  }
  void save(MainWindow& window) {
    window.open(folder_ / "runs");
    wait(window);
    Workspace& workspace = window.workspace();
    ASSERT_EQ(workspace.scenarios().size(), 2U);
    workspace.set_a(workspace.scenarios()[1]);
    workspace.set_b(workspace.scenarios()[0]);
    workspace.set_time_mode(TimeMode::time);
    workspace.set_step(1);
    wait(window);
    workspace.show({.begin = 100, .end = 600});
    workspace.set_cursors({.a = 200, .b = 300});
    workspace.set_notes({*workspace.note_at(150, "late")});
    window.sessions().save(file_);
    wait(window);
  }
  static QStringList told_by(MainWindow& window, const std::filesystem::path& file) {
    QStringList told;
    QObject::connect(&window, &MainWindow::failed,
                     [&told](const QString& message) { told += message; });
    window.open(file);
    wait(window);
    return told;
  }

  ScratchFolder folder_;
  std::filesystem::path file_ = folder_ / "demo.shardscope-session.json";
};

TEST_F(SessionKeeperTest, AnotherWindowShowsWhatWasSaved) {
  {
    MainWindow window;
    save(window);
  }
  MainWindow window;
  EXPECT_EQ(told_by(window, file_), QStringList());
  const Workspace& workspace = window.workspace();
  ASSERT_EQ(workspace.scenarios().size(), 2U);
  EXPECT_EQ(workspace.a()->label, "zero1 x2");
  EXPECT_EQ(workspace.b()->label, "full_shard x2");
  EXPECT_EQ(workspace.time_mode(), TimeMode::time);
  EXPECT_EQ(workspace.step(), StepChoice(1));
  ASSERT_EQ(workspace.notes().size(), 1U);
  EXPECT_EQ(workspace.notes()[0].text, "late");
  EXPECT_DOUBLE_EQ(workspace.axis_time_of(workspace.notes()[0]).value_or(-1), 150);
  EXPECT_EQ(workspace.visible(), (TimeRange{.begin = 100, .end = 600}));
  EXPECT_EQ(workspace.cursors(), (Cursors{.a = 200, .b = 300}));
}

TEST_F(SessionKeeperTest, AMovedFolderOpensWhereItIs) {
  {
    MainWindow window;
    save(window);
  }
  const ScratchFolder other;
  std::filesystem::rename(folder_.path() / "runs", other / "runs");
  std::filesystem::rename(file_, other / "demo.shardscope-session.json");
  MainWindow window;
  EXPECT_EQ(told_by(window, other / "demo.shardscope-session.json"), QStringList());
  ASSERT_EQ(window.workspace().scenarios().size(), 2U);
  EXPECT_EQ(window.workspace().a()->path, other / "runs/zero1");
}

TEST_F(SessionKeeperTest, WhatIsGoneIsToldAndTheRestOpens) {
  {
    MainWindow window;
    save(window);
  }
  std::filesystem::remove_all(folder_ / "runs/zero1");
  MainWindow window;
  const QStringList told = told_by(window, file_);
  ASSERT_EQ(told.size(), 1);
  EXPECT_TRUE(told[0].contains(QStringLiteral("runs/zero1: is not there")))
      << told[0].toStdString();
  ASSERT_EQ(window.workspace().scenarios().size(), 1U);
  EXPECT_EQ(window.workspace().a()->label, "full_shard x2");
}

TEST_F(SessionKeeperTest, HostileFilesAreToldInALine) {
  const auto told_of = [&](const std::string& text) {
    write_atomically(file_, text);
    MainWindow window;
    return told_by(window, file_);
  };
  EXPECT_EQ(told_of("{").size(), 1);
  EXPECT_EQ(told_of(R"({"schema": "shardscope.session/1", "layout": "bm8gbGF5b3V0"})").size(), 1);
  EXPECT_EQ(told_of(R"({"schema": "shardscope.session/1", "open": ["../../../dev/zero"]})").size(),
            1);
}

TEST_F(SessionKeeperTest, AFullDiskIsToldAndTheOldFileStays) {
  MainWindow window;
  save(window);
  const std::string before = read_whole(file_);
  QStringList told;
  QObject::connect(&window, &MainWindow::failed, [&](const QString& line) { told += line; });
  window.sessions().save("/dev/full");
  wait(window);
  EXPECT_EQ(told.size(), 1);
  EXPECT_EQ(read_whole(file_), before);
}

}  // namespace
}  // namespace shardscope::gui
