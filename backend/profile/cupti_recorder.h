// Records of CUPTI. Nothing of CUPTI shows here; a build without it has the same declarations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "backend/profile/device_recording.h"
#include "core/native/job.h"

namespace shardscope {

/// A kernel takes 216 bytes, and 64 more to be tied to its operation: the buffers hold 120,000
/// kernels that have not been read yet. CUPTI keeps one for each thread that calls CUDA until the
/// window ends, and NCCL has many threads: so there are many small ones.
struct CuptiOptions {
  ProfileRecords records = ProfileRecords::kernels;
  std::size_t buffers = 64;
  std::size_t buffer_bytes = std::size_t{512} << 10;
  std::size_t most_records = std::size_t{1} << 20;  ///< kept of a window
};

/// Starts and stops as often as wanted; CUPTI serves one recorder of a process at a time. Steps
/// that are replayed as a graph are tied to their operations if the graph was captured after
/// start(), in the probe's hearing.
std::unique_ptr<DeviceRecorder> make_cupti_recorder(const CuptiOptions& options = {});

}  // namespace shardscope
