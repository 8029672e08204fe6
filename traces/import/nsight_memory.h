// Allocations and frees of device memory in an export of Nsight Systems.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "traces/import/imported_trace.h"

namespace shardscope {

/// A row of CUDA_GPU_MEMORY_USAGE_EVENTS: a call of cudaMalloc or cudaFree, which for PyTorch is a
/// segment of its allocator.
struct NsightAllocation {
  std::uint32_t event = 0;
  std::int64_t device = 0;
  std::int64_t process = 0;  ///< that the address belongs to
  std::int64_t address = 0;
  std::optional<Bytes> bytes;  ///< of a free, where the row says so
  bool is_free = false;
};

/// Adds the devices and the changes of their memory to `trace`, by time. All of it is reserved and
/// allocated at once: what lies inside a segment Nsight does not see. Returns how many frees were
/// of memory whose allocation is not there and whose size is not said; they change nothing.
std::int64_t add_memory_changes(std::vector<NsightAllocation> allocations, ImportedTrace& trace);

}  // namespace shardscope
