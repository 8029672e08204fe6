#include "sim/kernels/device_efficiency.h"

#include <algorithm>

namespace shardscope {

double reached_share(const MatmulEfficiency& efficiency, Dtype dtype) {
  if (const auto found = efficiency.reached.find(dtype); found != efficiency.reached.end())
    return found->second;
  double least = 1;
  for (const auto& [other, share] : efficiency.reached) least = std::min(least, share);
  return least;
}

double bandwidth_share(const MemoryEfficiency& efficiency, WorkKind kind) {
  for (const WorkKind of : {kind, WorkKind::pointwise})
    if (const auto found = efficiency.share.find(of); found != efficiency.share.end())
      return found->second;
  return 1;
}

}  // namespace shardscope
