#include "sim/kernels/device_efficiency.h"

#include <algorithm>

namespace shardscope {

double share_of(const std::map<Dtype, double>& shares, Dtype dtype) {
  if (const auto found = shares.find(dtype); found != shares.end()) return found->second;
  double least = 1;
  for (const auto& [other, share] : shares) least = std::min(least, share);
  return least;
}

double reached_share(const MatmulEfficiency& efficiency, Dtype dtype) {
  return share_of(efficiency.reached, dtype);
}

double bandwidth_share(const MemoryEfficiency& efficiency, WorkKind kind) {
  for (const WorkKind of : {kind, WorkKind::pointwise})
    if (const auto found = efficiency.share.find(of); found != efficiency.share.end())
      return found->second;
  return 1;
}

}  // namespace shardscope
