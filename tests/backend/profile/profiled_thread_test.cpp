// Threads that are asked what they did.
#include "backend/profile/profiled_thread.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <future>
#include <set>
#include <thread>

namespace shardscope {
namespace {

void work() {
  for (volatile int i = 0; i < 30'000'000;) i = i + 1;
}

TEST(ProfiledThread, TellsItsProcessorTimeToOthers) {
  std::promise<ProfiledThread> worker;
  std::promise<void> may_end;
  std::thread thread([&] {
    work();
    worker.set_value(this_thread());
    may_end.get_future().wait();
  });
  const ProfiledThread it = worker.get_future().get();
  const std::int64_t own_begin = processor_ns(this_thread());
  const std::int64_t its_time = processor_ns(it);
  EXPECT_NE(it.id, gettid());
  EXPECT_GT(its_time, 1'000'000);
  work();
  const std::int64_t own_time = processor_ns(this_thread()) - own_begin;
  EXPECT_GT(own_time, 1'000'000);
  // It has only to go to sleep.
  EXPECT_LT(processor_ns(it) - its_time, own_time / 2);
  may_end.set_value();
  thread.join();
}

TEST(ProfiledThread, ATeamBeginsWithTheCallerAndHasEachThreadOnce) {
  for (const int threads : {1, 2, 4}) {
    const std::vector<ProfiledThread> team = team_of_this_thread(threads);
    EXPECT_EQ(team.front().id, gettid());
    std::set<pid_t> ids;
    for (const ProfiledThread& thread : team) ids.insert(thread.id);
    EXPECT_EQ(ids.size(), team.size());
    EXPECT_TRUE(static_cast<int>(team.size()) == threads || team.size() == 1U);
  }
}

}  // namespace
}  // namespace shardscope
