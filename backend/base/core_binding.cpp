#include "backend/base/core_binding.h"

#include <sched.h>

#include <algorithm>
#include <thread>

namespace shardscope {

int cores_at_start() {
  static const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return cores;
}

bool bind_to_cores(const RankOnHost& place) {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return false;
  if (place.ranks < 2 || CPU_COUNT(&allowed) != place.ranks * place.threads) return false;
  cpu_set_t mine;
  CPU_ZERO(&mine);
  int position = 0;
  for (std::size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed)) continue;
    if (position++ / place.threads == place.rank) CPU_SET(core, &mine);
  }
  return ::sched_setaffinity(0, sizeof(mine), &mine) == 0;
}

}  // namespace shardscope
