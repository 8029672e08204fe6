#include "backend/base/core_binding.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>
#include <vector>

namespace shardscope {
namespace {

std::vector<int> cores_of_this_thread() {
  cpu_set_t allowed;
  EXPECT_EQ(::sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &allowed)) cores.push_back(core);
  return cores;
}

/// On a thread of its own, whose cores are gone with it.
std::vector<int> cores_of(const RankOnHost& place) {
  std::vector<int> cores;
  std::thread([&] {
    bind_to_cores(place);
    cores = cores_of_this_thread();
  }).join();
  return cores;
}

TEST(CoreBinding, GivesEachRankItsPartWhereTheRanksFillTheCores) {
  const std::vector<int> all = cores_of_this_thread();
  const int ranks = static_cast<int>(all.size());
  if (ranks < 2) GTEST_SKIP() << "one core: nothing to divide";
  for (int rank = 0; rank < ranks; ++rank)
    EXPECT_EQ(cores_of({.rank = rank, .ranks = ranks, .threads = 1}),
              std::vector<int>{all[static_cast<std::size_t>(rank)]});
}

TEST(CoreBinding, LeavesOthersToTheScheduler) {
  const std::vector<int> all = cores_of_this_thread();
  const int cores = static_cast<int>(all.size());
  EXPECT_EQ(cores_of({.rank = 0, .ranks = 1, .threads = cores}), all);      // alone
  EXPECT_EQ(cores_of({.rank = 0, .ranks = cores + 1, .threads = 1}), all);  // taking turns
  EXPECT_EQ(cores_of({.rank = 0, .ranks = cores, .threads = 2}), all);
  if (cores > 2) {
    EXPECT_EQ(cores_of({.rank = 0, .ranks = cores - 1, .threads = 1}), all);
  }
}

TEST(CoreBinding, CoresAtStartAreThoseBeforeAnyBinding) {
  const int before = cores_at_start();
  EXPECT_EQ(before, static_cast<int>(std::thread::hardware_concurrency()));
  std::thread([&] {
    bind_to_cores({.rank = 0, .ranks = before, .threads = 1});
    EXPECT_EQ(cores_at_start(), before);
  }).join();
}

}  // namespace
}  // namespace shardscope
