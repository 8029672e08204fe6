#include "gui/window/file_watch.h"

#include <gtest/gtest.h>

#include <QObject>
#include <stdexcept>
#include <stop_token>

#include "core/format/atomic_file.h"
#include "gui/data/open_run.h"
#include "tests/gui/patience.h"
#include "tests/gui/run_samples.h"

namespace shardscope::gui {
namespace {

using shardscope::testing::SampleRun;
using shardscope::testing::ScratchFolder;
using shardscope::testing::write_sample_run;

class FileWatchTest : public ::testing::Test {
 protected:
  FileWatchTest() {
    QObject::connect(&watch_, &FileWatch::changed, [this](const ScenarioPointer&, bool is_running) {
      ++changed_;
      was_running_ = is_running;
    });
    QObject::connect(&watch_, &FileWatch::gone, [this](const ScenarioPointer&) { ++gone_; });
    write_sample_run(folder_.path());
    workspace_.add(open_run(folder_.path()));
    wait();
  }
  void wait() { ASSERT_TRUE(watch_.tasks().wait_until_idle(patience_ms)); }
  void look() {
    watch_.look();
    wait();
  }
  /// Of another size, so that no clock of the file system matters.
  void change_metrics() {
    metrics_ += "{\"step\": 1}\n";
    write_atomically(RunFolder{folder_.path()}.metrics(), metrics_);
  }

  ScratchFolder folder_;
  Workspace workspace_;
  FileWatch watch_{workspace_};
  std::string metrics_;
  int changed_ = 0, gone_ = 0;
  bool was_running_ = false;
};

TEST_F(FileWatchTest, NothingIsToldWhereNothingChanges) {
  look();
  look();
  EXPECT_EQ(changed_ + gone_, 0);
}

TEST_F(FileWatchTest, AChangeIsToldOnceItStays) {
  change_metrics();
  look();
  EXPECT_EQ(changed_, 0);
  change_metrics();
  look();
  EXPECT_EQ(changed_, 0);
  look();
  EXPECT_EQ(changed_, 1);
  look();
  EXPECT_EQ(changed_, 1);
  EXPECT_FALSE(was_running_);
}

TEST_F(FileWatchTest, OfAJobThatRunsIsSaidSo) {
  write_atomically(folder_ / "running.json", R"({"state": "running"})");
  change_metrics();
  look();
  look();
  EXPECT_EQ(changed_, 1);
  EXPECT_TRUE(was_running_);
}

TEST_F(FileWatchTest, AFileThatVanishesIsTold) {
  std::filesystem::remove_all(folder_.path());
  look();
  look();
  EXPECT_EQ(gone_, 1);
  EXPECT_EQ(changed_, 0);
  EXPECT_EQ(workspace_.scenarios().size(), 1U);
}

TEST_F(FileWatchTest, ALookThatFailsIsNotTheLast) {
  watch_.tasks().run(
      &watch_, [](const std::stop_token&) -> int { throw std::runtime_error("no memory"); },
      [](int) {});
  look();
  change_metrics();
  look();
  look();
  EXPECT_EQ(changed_, 1);
}

TEST_F(FileWatchTest, WhatIsClosedIsNotWatched) {
  workspace_.remove(workspace_.scenarios().front());
  wait();
  change_metrics();
  look();
  look();
  EXPECT_EQ(changed_, 0);
}

}  // namespace
}  // namespace shardscope::gui
