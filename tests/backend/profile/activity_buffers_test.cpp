#include "backend/profile/activity_buffers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <future>
#include <set>
#include <vector>

namespace shardscope {
namespace {

TEST(ActivityBuffers, AreReadInTheOrderInWhichTheyAreCompleted) {
  std::vector<int> read;
  ActivityBuffers buffers(3, 64, [&](const ActivityBuffers::Filled& filled) {
    EXPECT_EQ(filled.bytes.size(), 8u);
    read.push_back(filled.bytes[0]);
  });
  buffers.open_window();
  for (std::uint8_t i = 1; i <= 20; ++i) {
    std::span<std::uint8_t> buffer = buffers.request();
    while (buffer.empty()) buffer = buffers.request();
    buffer[0] = i;
    buffers.completed(buffer.data(), 8);
  }
  buffers.wait_until_read();
  ASSERT_EQ(read.size(), 20u);
  EXPECT_TRUE(std::ranges::is_sorted(read));
}

TEST(ActivityBuffers, AreZeroEachTime) {
  ActivityBuffers buffers(1, 64, [](const ActivityBuffers::Filled&) {});
  buffers.open_window();
  for (int round = 0; round < 3; ++round) {
    const std::span<std::uint8_t> buffer = buffers.request();
    ASSERT_EQ(buffer.size(), 64u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 8, 0u);
    EXPECT_THAT(buffer, testing::Each(0));
    // Beyond what is said to be filled, too.
    std::memset(buffer.data(), 0xff, buffer.size());
    buffers.completed(buffer.data(), 8);
    buffers.wait_until_read();
  }
}

TEST(ActivityBuffers, AreRefusedAndCountedWhileAllAreInUse) {
  std::promise<void> may_read;
  std::shared_future<void> told = may_read.get_future().share();
  ActivityBuffers buffers(2, 64, [told](const ActivityBuffers::Filled&) { told.wait(); });
  buffers.open_window();
  std::uint8_t* first = buffers.request().data();
  EXPECT_FALSE(buffers.request().empty());
  buffers.completed(first, 64);
  // One is lent, the other is being read.
  EXPECT_TRUE(buffers.request().empty());
  EXPECT_EQ(buffers.lent(), 1u);
  may_read.set_value();
  buffers.wait_until_read();
  EXPECT_EQ(buffers.request().data(), first);
  EXPECT_EQ(buffers.take_refusals(), 1);
  EXPECT_EQ(buffers.take_refusals(), 0);
}

TEST(ActivityBuffers, ComeBackLateWhenTheirWindowIsOver) {
  std::vector<bool> late;
  ActivityBuffers buffers(
      2, 64, [&](const ActivityBuffers::Filled& filled) { late.push_back(filled.is_late); });
  EXPECT_TRUE(buffers.request().empty()) << "no window is open";
  buffers.open_window();
  std::uint8_t* const first = buffers.request().data();
  std::uint8_t* const second = buffers.request().data();
  buffers.close_window();
  buffers.completed(first, 8);
  buffers.open_window();
  buffers.completed(second, 8);
  buffers.wait_until_read();
  buffers.completed(buffers.request().data(), 8);
  buffers.wait_until_read();
  EXPECT_EQ(late, (std::vector{true, true, false}));
  EXPECT_EQ(buffers.lent(), 0u);
  EXPECT_EQ(buffers.take_refusals(), 0) << "outside of windows nothing is refused";
}

TEST(ActivityBuffers, OfSomebodyElseAreLeftAlone) {
  int read = 0;
  ActivityBuffers buffers(1, 64, [&](const ActivityBuffers::Filled&) { ++read; });
  buffers.open_window();
  std::uint8_t other[8] = {};
  buffers.completed(other, 8);
  buffers.wait_until_read();
  EXPECT_EQ(read, 0);
}

TEST(ActivityBuffers, ReadWhatIsLeftBeforeTheyGo) {
  std::atomic<int> read{0};
  {
    ActivityBuffers buffers(4, 64, [&](const ActivityBuffers::Filled&) { ++read; });
    buffers.open_window();
    for (int i = 0; i < 4; ++i) buffers.completed(buffers.request().data(), 8);
  }
  EXPECT_EQ(read, 4);
}

}  // namespace
}  // namespace shardscope
