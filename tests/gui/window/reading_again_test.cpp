#include "gui/window/reading_again.h"

#include <gtest/gtest.h>

#include <QStringList>

#include "core/format/atomic_file.h"
#include "gui/data/open_run.h"
#include "gui/window/opening.h"
#include "tests/gui/patience.h"
#include "tests/gui/run_samples.h"
#include "tests/gui/scenarios.h"

namespace shardscope::gui {
namespace {

using shardscope::testing::SampleRun;
using shardscope::testing::ScratchFolder;
using shardscope::testing::write_sample_run;

class ReadingAgainTest : public ::testing::Test {
 protected:
  ReadingAgainTest() {
    QObject::connect(&again_, &ReadingAgain::told,
                     [this](const QString& message) { told_ += message; });
    write_sample_run(folder_.path());
    workspace_.add(open_run(folder_.path()));
    wait();
  }
  void wait() {
    ASSERT_TRUE(again_.watch().tasks().wait_until_idle(patience_ms));
    ASSERT_TRUE(workspace_.tasks().wait_until_idle(patience_ms));
    ASSERT_TRUE(again_.watch().tasks().wait_until_idle(patience_ms));
  }
  void look_twice() {
    for (int i = 0; i < 2; ++i) {
      again_.watch().look();
      wait();
    }
  }
  /// A run of another strategy, so that its files are of other sizes.
  void change() { write_sample_run(folder_.path(), SampleRun{.strategy = "hybrid_shard"}); }
  std::string label() const { return workspace_.scenarios().front()->label; }

  ScratchFolder folder_;
  Workspace workspace_;
  Opening opening_{workspace_};
  ReadingAgain again_{workspace_, opening_};
  QStringList told_;
};

TEST_F(ReadingAgainTest, WhatHasChangedIsReadWhenAskedFor) {
  change();
  look_twice();
  ASSERT_EQ(told_.size(), 1);
  EXPECT_TRUE(told_[0].contains(QStringLiteral("F5")));
  EXPECT_EQ(label(), "full_shard x2");
  ASSERT_TRUE(again_.has_changes());
  again_.read_again();
  wait();
  EXPECT_EQ(label(), "hybrid_shard x2");
  EXPECT_EQ(workspace_.scenarios().size(), 1U);
  EXPECT_FALSE(again_.has_changes());
}

TEST_F(ReadingAgainTest, AJobThatRunsIsReadAtOnce) {
  write_atomically(folder_ / "running.json", R"({"state": "running"})");
  change();
  look_twice();
  EXPECT_TRUE(told_.isEmpty());
  EXPECT_EQ(label(), "hybrid_shard x2");
}

TEST_F(ReadingAgainTest, WhatIsGoneStaysAndIsTold) {
  std::filesystem::remove_all(folder_.path());
  look_twice();
  ASSERT_EQ(told_.size(), 1);
  EXPECT_TRUE(told_[0].contains(QStringLiteral("gone")));
  EXPECT_EQ(workspace_.scenarios().size(), 1U);
}

}  // namespace
}  // namespace shardscope::gui
