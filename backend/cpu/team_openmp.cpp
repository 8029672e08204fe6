#include <omp.h>

#include "backend/cpu/team.h"

namespace shardscope::cpu {

void run_team(int threads, TeamFunction function, const void* state) {
#pragma omp parallel for num_threads(threads) schedule(static, 1)
  for (int index = 0; index < threads; ++index) function(state, Member{index, threads});
}

void set_library_threads(int threads) { omp_set_num_threads(threads); }

int available_cores() { return omp_get_num_procs(); }

}  // namespace shardscope::cpu
