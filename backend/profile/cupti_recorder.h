// Records of CUPTI. Nothing of CUPTI shows here; a build without it has the same declarations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "backend/profile/device_recording.h"
#include "core/native/job.h"

namespace shardscope {

/// A kernel takes 216 bytes, and 64 more to be tied to its operation: the buffers hold 120,000
/// kernels that have not been read yet. Kineto's defaults are as large (4 MiB each, 32 of them).
struct CuptiOptions {
  ProfileRecords records = ProfileRecords::kernels;
  std::size_t buffers = 8;
  std::size_t buffer_bytes = std::size_t{4} << 20;
  std::size_t most_records = std::size_t{1} << 20;  ///< kept of a window
};

/// Starts and stops as often as wanted; CUPTI serves one recorder of a process at a time. Steps
/// that are replayed as a graph are tied to their operations if the graph was captured after
/// start(), in the probe's hearing.
std::unique_ptr<DeviceRecorder> make_cupti_recorder(const CuptiOptions& options = {});

}  // namespace shardscope
