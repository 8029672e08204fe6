#include "gui/data/zoom_history.h"

#include <gtest/gtest.h>

namespace shardscope::gui {
namespace {

constexpr TimeRange first{.begin = 0, .end = 100}, second{.begin = 10, .end = 50},
    third{.begin = 20, .end = 30};

TEST(ZoomHistory, UndoesAndDoesAgain) {
  ZoomHistory history(first);
  history.remember(second);
  history.remember(third);
  EXPECT_EQ(history.undo(), second);
  EXPECT_EQ(history.undo(), first);
  EXPECT_EQ(history.undo(), first) << "there is nothing before it";
  EXPECT_EQ(history.redo(), second);
}

TEST(ZoomHistory, ANewRangeForgetsWhatWasUndone) {
  ZoomHistory history(first);
  history.remember(second);
  history.undo();
  history.remember(third);
  EXPECT_FALSE(history.can_redo());
  EXPECT_EQ(history.undo(), first);
}

TEST(ZoomHistory, AMovementIsUndoneAsOne) {
  ZoomHistory history(first);
  history.remember(second);
  for (int frame = 0; frame < 50; ++frame)
    history.replace({.begin = 10.0 + frame, .end = 50.0 + frame});
  EXPECT_EQ(history.undo(), first);
}

TEST(ZoomHistory, ForgetsTheOldest) {
  ZoomHistory history(first);
  for (std::size_t i = 0; i < 3 * ZoomHistory::most_remembered; ++i)
    history.remember({.begin = 0, .end = 200.0 + static_cast<double>(i)});
  std::size_t steps = 0;
  while (history.can_undo()) history.undo(), ++steps;
  EXPECT_EQ(steps, ZoomHistory::most_remembered - 1);
}

}  // namespace
}  // namespace shardscope::gui
