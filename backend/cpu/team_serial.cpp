#include <thread>

#include "backend/cpu/team.h"

namespace shardscope::cpu {

void run_team(int threads, TeamFunction function, const void* state) {
  for (int index = 0; index < threads; ++index) function(state, Member{index, threads});
}

void set_library_threads(int) {}

int available_cores() {
  const unsigned cores = std::thread::hardware_concurrency();
  return cores == 0 ? 1 : static_cast<int>(cores);
}

}  // namespace shardscope::cpu
