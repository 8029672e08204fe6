#include "gui/base/tasks.h"
#include "tests/gui/patience.h"

#include <gtest/gtest.h>

#include <QCoreApplication>
#include <QThread>
#include <atomic>
#include <memory>
#include <stdexcept>
#include <vector>

namespace shardscope::gui {
namespace {

TEST(Tasks, BringResultsToTheThreadOfTheWindow) {
  Tasks tasks;
  QThread* worked_on = nullptr;
  QThread* came_to = nullptr;
  tasks.run(
      &tasks,
      [&](std::stop_token) {
        worked_on = QThread::currentThread();
        return 7;
      },
      [&](int value) {
        EXPECT_EQ(value, 7);
        came_to = QThread::currentThread();
      });
  ASSERT_TRUE(tasks.wait_until_idle(patience_ms));
  EXPECT_EQ(came_to, QThread::currentThread());
  EXPECT_NE(worked_on, came_to);
}

TEST(Tasks, WhatIsPostedComesInOrderAndAnEventLoopInsideGoesOn) {
  Tasks tasks;
  std::vector<int> came;
  tasks.run(
      &tasks,
      [&](std::stop_token) {
        tasks.post([&] {
          came.push_back(1);
          while (came.size() < 3) QCoreApplication::processEvents();
          came.push_back(4);
        });
        tasks.post([&] { came.push_back(2); });
        return 3;
      },
      [&](int value) { came.push_back(value); });
  ASSERT_TRUE(tasks.wait_until_idle(patience_ms));
  EXPECT_EQ(came, (std::vector<int>{1, 2, 3, 4}));
}

TEST(Tasks, ResultsForWhatIsGoneAreDropped) {
  Tasks tasks;
  auto owner = std::make_unique<QObject>();
  bool came = false;
  tasks.run(
      owner.get(), [](std::stop_token) { return 0; }, [&](int) { came = true; });
  owner.reset();
  ASSERT_TRUE(tasks.wait_until_idle(patience_ms));
  EXPECT_FALSE(came);
}

TEST(Tasks, WhatIsThrownIsTold) {
  Tasks tasks;
  QString told;
  QObject::connect(&tasks, &Tasks::failed, [&](const QString& message) { told = message; });
  tasks.run(
      &tasks, [](std::stop_token) -> int { throw std::runtime_error("a.json:3: no end"); },
      [](int) { FAIL(); });
  ASSERT_TRUE(tasks.wait_until_idle(patience_ms));
  EXPECT_EQ(told, QStringLiteral("a.json:3: no end"));
}

TEST(Tasks, WhoAsksMayHearOfTheFailureAlone) {
  Tasks tasks;
  QString told, heard;
  QObject::connect(&tasks, &Tasks::failed, [&](const QString& message) { told = message; });
  tasks.run(
      &tasks, [](std::stop_token) -> int { throw std::length_error("too\nlong"); },
      [](int) { FAIL(); }, [&](const QString& message) { heard = message; });
  ASSERT_TRUE(tasks.wait_until_idle(patience_ms));
  EXPECT_EQ(heard, QStringLiteral("too long")) << "in one line";
  EXPECT_EQ(told, QString());
}

TEST(Tasks, AreStoppedAndAwaitedAtTheEnd) {
  std::atomic<bool> ended = false;
  {
    Tasks tasks;
    std::atomic<bool> began = false;
    tasks.run(
        &tasks,
        [&](std::stop_token stop) {
          began = true;
          while (!stop.stop_requested()) QThread::msleep(1);
          ended = true;
          return 0;
        },
        [](int) { FAIL(); });
    while (!began) QThread::msleep(1);
  }
  EXPECT_TRUE(ended);
}

}  // namespace
}  // namespace shardscope::gui
