// Moments on a stream, by CUDA's events.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "backend/device_timeline.h"

namespace shardscope::cuda {

/// `stream` must outlive it. To half a microsecond (CUDA runtime API, cudaEventElapsedTime).
std::unique_ptr<DeviceTimeline> make_event_timeline(std::size_t places, cudaStream_t stream);

}  // namespace shardscope::cuda
