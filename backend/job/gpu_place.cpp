#include "backend/job/gpu_place.h"

#include <fmt/format.h>

#include <algorithm>

#include "backend/base/process_identity.h"
#include "backend/cuda/cuda_probe.h"

namespace shardscope {

int gpu_index(const Environment& environment, int gpus) {
  return environment.local_rank % std::max(1, gpus);
}

std::string gpu_identity(int index) {
  const std::string place = cuda_bus_place(index);
  return place.empty() ? "" : fmt::format("{} {}", host_boot(), place);
}

bool share_gpus(TcpStore& store, int world, const std::string& identity) {
  constexpr const char* found = "gpu_is_shared";
  if (!identity.empty() && store.add("gpu/" + identity, 1) > 1) store.set(found, "");
  store.barrier("gpus", world);
  return store.peek(found).has_value();
}

}  // namespace shardscope
