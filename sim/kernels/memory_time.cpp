#include "sim/kernels/memory_time.h"

namespace shardscope {

Duration moving_time(WorkKind kind, Bytes bytes, const RooflineFigures& device,
                     const DeviceEfficiency& efficiency) {
  const double rate =
      device.memory_bandwidth.bytes_per_s * bandwidth_share(efficiency.memory, kind);
  return efficiency.memory.latency + bytes / Bandwidth{rate};
}

Duration memory_bound_time(const DeviceWork& work, const RooflineFigures& given,
                           const DeviceEfficiency& efficiency) {
  RooflineFigures device = given;
  if (work.blocks > 0 && work.blocks < device.multiprocessors)
    device.memory_bandwidth.bytes_per_s *=
        static_cast<double>(work.blocks) / device.multiprocessors;
  return moving_time(work.kind, work.bytes, device, efficiency) +
         efficiency.memory.latency * (work.launches - 1);
}

}  // namespace shardscope
