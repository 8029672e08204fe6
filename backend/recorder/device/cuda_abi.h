// What of CUDA's binary interface the simulated device answers to: types by value and
// layouts, as CUDA 12 and 13 have them. No header of CUDA is needed to build it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shardscope::recorder {

using Status = int;
inline constexpr Status success = 0;
inline constexpr Status invalid_value = 1;
inline constexpr Status memory_allocation = 2;
inline constexpr Status invalid_device = 101;
inline constexpr Status not_found = 500;
inline constexpr Status not_ready = 600;
inline constexpr Status not_supported = 801;
inline constexpr Status capture_unmatched = 903;

/// Of the runtime, the driver and the libraries: 13.2.
inline constexpr int cuda_version = 13020;

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
};

/// cudaLaunchConfig_t
struct LaunchConfig {
  Dim3 grid, block;
  std::size_t shared_bytes;
  void* stream;
  void* attributes;
  unsigned attribute_count;
};

/// CUlaunchConfig
struct DriverLaunchConfig {
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  void* stream;
  void* attributes;
  unsigned attribute_count;
};

/// cudaPointerAttributes (CUDA 12 has the first four members only)
struct PointerAttributes {
  int type;  ///< 0 unregistered, 1 host, 2 device
  int device;
  void* device_pointer;
  void* host_pointer;
};

/// The first members of cudaFuncAttributes; the rest stays as the caller has it.
struct FunctionAttributes {
  std::size_t shared_bytes, constant_bytes, local_bytes;
  int threads_per_block, registers, ptx_version, binary_version, cache_mode;
  int dynamic_shared_bytes;
};

/// Passed by value.
struct UniqueId {
  char bytes[128];
};
struct IpcHandle {
  char bytes[64];
};

}  // namespace shardscope::recorder
