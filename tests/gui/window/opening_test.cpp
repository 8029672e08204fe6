#include "gui/window/opening.h"

#include <gtest/gtest.h>

#include <QCoreApplication>
#include <QStringList>

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

}  // namespace
}  // namespace shardscope::gui
