#include "gui/window/opening.h"

#include <gtest/gtest.h>

#include <QCoreApplication>
#include <QStringList>
#include <QTest>
#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gui/window/main_window.h"
#include "tests/gui/patience.h"
#include "tests/gui/run_samples.h"

namespace shardscope::gui {
namespace {

using shardscope::testing::SampleRun;
using shardscope::testing::ScratchFolder;
using shardscope::testing::write_sample_run;

// At once, and after some of what is read has been told: whenever it is, nobody is told after.
TEST(Opening, AWindowMayCloseAtAnyTimeOfALoad) {
  const ScratchFolder folder;
  write_sample_run(folder.path(), SampleRun{.world = 16});
  for (int handled = 0; handled < 4; ++handled) {
    MainWindow window;
    window.open(folder.path());
    for (int i = 0; i < handled; ++i) QCoreApplication::processEvents();
  }
  QCoreApplication::processEvents();
}

TEST(Opening, WhatIsCancelledIsNotAdded) {
  const ScratchFolder folder;
  write_sample_run(folder.path(), SampleRun{.world = 16});
  Workspace workspace;
  Opening opening(workspace);
  QStringList told;
  QObject::connect(&opening, &Opening::failed, [&](const QString& line) { told += line; });
  opening.open(folder.path());
  opening.cancel();
  EXPECT_TRUE(opening.idle());
  ASSERT_TRUE(workspace.tasks().wait_until_idle(patience_ms));
  EXPECT_TRUE(workspace.scenarios().empty());
  EXPECT_TRUE(told.isEmpty());
}

TEST(Opening, WhatIsOpenedAfterACancelIsAdded) {
  const ScratchFolder folder;
  write_sample_run(folder.path());
  Workspace workspace;
  Opening opening(workspace);
  opening.open(folder.path());
  opening.cancel();
  opening.open(folder.path());
  ASSERT_TRUE(workspace.tasks().wait_until_idle(patience_ms));
  EXPECT_TRUE(opening.idle());
  EXPECT_EQ(workspace.scenarios().size(), 1U);
}

ScenarioPointer scenario(const std::string& path, bool is_being_read) {
  auto made = std::make_shared<Scenario>();
  made->label = path;
  made->path = path;
  made->is_being_read = is_being_read;
  return made;
}

/// Shows figures of two places, and goes on when it is told to or stopped.
class SlowPlan {
 public:
  explicit SlowPlan(std::vector<ScenarioPointer> read) : read_(std::move(read)) {}

  std::vector<ScenarioPointer> operator()(const OpenOptions& options) const {
    options.on_figures({scenario("1", true), scenario("2", true)});
    while (!*goes_on_ && !options.stop.stop_requested())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (read_.empty()) throw std::runtime_error("nothing was read");
    return read_;
  }
  void go_on() const { *goes_on_ = true; }

 private:
  std::vector<ScenarioPointer> read_;
  std::shared_ptr<std::atomic<bool>> goes_on_ = std::make_shared<std::atomic<bool>>(false);
};

/// A workspace in which the figures of a slow plan are shown.
class OpeningOfAPlan : public ::testing::Test {
 protected:
  void open(const SlowPlan& plan) {
    opening_.open("plan", plan);
    const auto is_shown = [&] {
      const auto& all = workspace_.scenarios();
      return all.size() == 2 && all[0]->is_being_read && all[1]->is_being_read;
    };
    ASSERT_TRUE(QTest::qWaitFor(is_shown, patience_ms));
  }
  void settle() { ASSERT_TRUE(workspace_.tasks().wait_until_idle(patience_ms)); }

  Workspace workspace_;
  Opening opening_{workspace_};
};

TEST_F(OpeningOfAPlan, FiguresGoWithACancel) {
  open(SlowPlan({scenario("1", false), scenario("2", false)}));
  opening_.cancel();
  EXPECT_TRUE(workspace_.scenarios().empty());
  settle();
  EXPECT_TRUE(workspace_.scenarios().empty());
}

TEST_F(OpeningOfAPlan, FiguresGoWhereNothingIsRead) {
  const SlowPlan plan({});
  open(plan);
  plan.go_on();
  settle();
  EXPECT_TRUE(workspace_.scenarios().empty());
}

TEST_F(OpeningOfAPlan, FiguresOfAPlaceThatIsNotReadGo) {
  const SlowPlan plan({scenario("2", false)});
  open(plan);
  plan.go_on();
  settle();
  ASSERT_EQ(workspace_.scenarios().size(), 1U);
  EXPECT_EQ(workspace_.scenarios().front()->path, "2");
  EXPECT_FALSE(workspace_.scenarios().front()->is_being_read);
}

TEST_F(OpeningOfAPlan, WhatWasOpenBeforeIsThereAgainAfterACancel) {
  workspace_.add(scenario("1", false));
  open(SlowPlan({scenario("1", false), scenario("2", false)}));
  opening_.cancel();
  ASSERT_EQ(workspace_.scenarios().size(), 1U);
  EXPECT_EQ(workspace_.scenarios().front()->path, "1");
  EXPECT_FALSE(workspace_.scenarios().front()->is_being_read);
  settle();
}

}  // namespace
}  // namespace shardscope::gui
