#include "backend/profile/listeners.h"

#include <utility>

#include "backend/profile/nccl_profile.h"
#include "backend/profile/nvtx_ranges.h"

namespace shardscope {

std::vector<std::unique_ptr<Probe>> make_listeners(const Schedule& schedule) {
  std::vector<std::unique_ptr<Probe>> listeners;
  if (auto ranges = make_nvtx_ranges(schedule)) listeners.push_back(std::move(ranges));
  if (auto nccl = make_nccl_probe(schedule)) listeners.push_back(std::move(nccl));
  return listeners;
}

std::vector<Probe*> probes_of(const std::vector<std::unique_ptr<Probe>>& listeners) {
  std::vector<Probe*> probes;
  for (const std::unique_ptr<Probe>& listener : listeners) probes.push_back(listener.get());
  return probes;
}

}  // namespace shardscope
