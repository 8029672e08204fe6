// What the host of a published run waits for, beside what its runtime does.
#pragma once

#include "core/schedule/schedule.h"

namespace shardscope {

struct HostWaits {
  /// For the end of each operation that it launches: CUDA_LAUNCH_BLOCKING=1.
  bool each_launch = false;
  /// For the device, before each micro-batch: it reads sizes of the batch from it.
  bool each_micro_batch = false;
  bool operator==(const HostWaits&) const = default;
};

/// The steady step with these waits.
Schedule with_host_waits(Schedule schedule, const HostWaits& waits);

}  // namespace shardscope
