// Times copies between the host's memory and a device's.
#pragma once

#include "backend/device/device_memory.h"
#include "core/base/quantities.h"

namespace shardscope {

/// One direction: what a small copy takes, and how fast a large one goes.
struct CopyFigures {
  Bandwidth bandwidth;
  Duration latency;
};
struct HostCopies {
  CopyFigures to_device;
  CopyFigures to_host;
};

/// Of pages that are not locked, as the trainer's batches and checkpoints are; medians. `large` is
/// what bandwidth is measured with.
HostCopies time_host_copies(DeviceMemory& memory, Bytes large = 256_MiB);

}  // namespace shardscope
