#include "backend/comm/collective_queue.h"

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace shardscope {
namespace {

TEST(CollectiveQueue, RunsInTheOrderHandedOver) {
  CollectiveQueue queue(4);
  std::vector<int> order;
  CollectiveQueue::Ticket last;
  for (int i = 0; i < 100; ++i) last = queue.submit([&order, i] { order.push_back(i); });
  queue.wait(last);
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST(CollectiveQueue, RunsOnAThreadOfItsOwn) {
  CollectiveQueue queue(1);
  std::thread::id where;
  queue.wait(queue.submit([&where] { where = std::this_thread::get_id(); }));
  EXPECT_NE(where, std::this_thread::get_id());
}

TEST(CollectiveQueue, SubmitDoesNotWaitForTheTask) {
  CollectiveQueue queue(2);
  std::atomic<bool> go = false;
  const auto ticket = queue.submit([&go] {
    while (!go) std::this_thread::yield();
  });
  EXPECT_FALSE(queue.done(ticket));
  go = true;
  queue.wait(ticket);
  EXPECT_TRUE(queue.done(ticket));
}

TEST(CollectiveQueue, RecordsWhenATaskRan) {
  CollectiveQueue queue(2);
  const auto sleep = [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
  const auto first = queue.submit(sleep);
  const auto second = queue.submit(sleep);
  queue.wait(second);
  EXPECT_GE(queue.times(first).end - queue.times(first).start, 20_ms);
  EXPECT_GE(queue.times(second).start, queue.times(first).end);
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  EXPECT_LE(queue.times(second).end.ns,
            std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

TEST(CollectiveQueue, WaitThrowsWhatATaskThrew) {
  CollectiveQueue queue(8);
  bool ran_after = false;
  const auto good = queue.submit([] {});
  const auto bad = queue.submit([] { throw std::runtime_error("lost rank 1"); });
  const auto after = queue.submit([&ran_after] { ran_after = true; });
  queue.wait(good);
  EXPECT_THROW(queue.wait(bad), std::runtime_error);
  EXPECT_THROW(queue.wait(after), std::runtime_error);
  EXPECT_FALSE(ran_after);
}

TEST(CollectiveQueue, EndsWithWhatWasHandedOver) {
  int ran = 0;
  {
    CollectiveQueue queue(16);
    for (int i = 0; i < 10; ++i) queue.submit([&ran] { ++ran; });
  }
  EXPECT_EQ(ran, 10);
}

}  // namespace
}  // namespace shardscope
