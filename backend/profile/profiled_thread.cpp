#include "backend/profile/profiled_thread.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>

#include "backend/cpu/team.h"

namespace shardscope {

ProfiledThread this_thread() {
  ProfiledThread thread{.id = ::gettid()};
  ::pthread_getcpuclockid(::pthread_self(), &thread.clock);
  return thread;
}

std::vector<ProfiledThread> team_of_this_thread(int threads) {
  std::vector<ProfiledThread> team(static_cast<std::size_t>(std::max(threads, 1)));
  team.front() = this_thread();
  cpu::parallel(threads, [&team](cpu::Member member) {
    team[static_cast<std::size_t>(member.index)] = this_thread();
  });
  // Without OpenMP one thread is all members.
  const auto again = [&](const ProfiledThread& thread) { return thread.id == team.front().id; };
  team.erase(std::remove_if(team.begin() + 1, team.end(), again), team.end());
  return team;
}

std::int64_t processor_ns(const ProfiledThread& thread) {
  timespec time{};
  if (::clock_gettime(thread.clock, &time) != 0) return 0;
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace shardscope
