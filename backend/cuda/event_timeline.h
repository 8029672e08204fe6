// Moments on the selected stream, by CUDA's events.
#pragma once

#include <memory>

#include "backend/cuda/cuda_streams.h"
#include "backend/device/device_timeline.h"

namespace shardscope::cuda {

/// `streams` must outlive it. To half a microsecond (CUDA runtime API, cudaEventElapsedTime).
std::unique_ptr<DeviceTimeline> make_event_timeline(std::size_t places, const CudaStreams& streams);

}  // namespace shardscope::cuda
