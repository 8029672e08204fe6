// Threads of this process, by which others may ask what they did.
#pragma once

#include <cstdint>
#include <ctime>
#include <vector>

namespace shardscope {

struct ProfiledThread {
  int id = 0;           ///< as the kernel numbers it
  clockid_t clock = 0;  ///< its processor time, for clock_gettime
};

ProfiledThread this_thread();

/// The threads that run a kernel together when the calling thread runs it with so many
/// (`cpu::run_team`); the calling thread is the first.
std::vector<ProfiledThread> team_of_this_thread(int threads);

/// Processor time of the thread so far; from any thread while it lives.
std::int64_t processor_ns(const ProfiledThread& thread);

}  // namespace shardscope
