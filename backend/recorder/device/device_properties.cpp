#include "backend/recorder/device/device_properties.h"

#include <cstdlib>
#include <cstring>

#include "backend/recorder/device/cuda_abi.h"
#include "backend/recorder/device/device_state.h"
#include "backend/recorder/device/log.h"

namespace shardscope::recorder {
namespace {

constexpr int grid_x = 2147483647, grid_yz = 65535, threads_per_block = 1024, registers = 65536;

template <class Value>
void put(void* at, std::size_t offset, Value value) {
  std::memcpy(static_cast<char*>(at) + offset, &value, sizeof value);
}

void put_uuid(char* at, int device) { at[15] = static_cast<char>(device + 1); }

/// Offsets of members in cudaDeviceProp, which CUDA 13 changed (driver_types.h of 12.9 and 13.0).
struct Layout {
  std::size_t bytes, multiprocessors, bus_id, concurrent_kernels, async_engines, unified, bus_width,
      l2, threads_per_multiprocessor, shared_per_multiprocessor, registers_per_multiprocessor,
      managed, cooperative, shared_optin, blocks_per_multiprocessor, pools;
};
constexpr Layout cuda_13{1008, 384, 568, 560, 584, 588, 592, 596,
                         604,  624, 632, 636, 668, 672, 688, 720};
constexpr Layout cuda_12{1032, 388, 584, 576, 600, 604, 612, 616,
                         624,  640, 648, 652, 688, 696, 712, 744};

void fill(void* to, int device, const Layout& layout) {
  const DeviceProperties& is = device_properties();
  std::memset(to, 0, layout.bytes);
  auto* bytes = static_cast<char*>(to);
  std::strncpy(bytes, is.name.c_str(), 255);
  put_uuid(bytes + 256, device);
  // The first members are alike: totalGlobalMem to minor.
  put(to, 288, total_memory());
  put(to, 296, static_cast<std::size_t>(is.shared_per_block));
  put(to, 304, registers);
  put(to, 308, 32);
  put(to, 312, static_cast<std::size_t>(grid_x));
  put(to, 320, threads_per_block);
  for (const std::size_t i : {0U, 1U}) put(to, 324 + 4 * i, threads_per_block);
  put(to, 332, 64);
  put(to, 336, grid_x);
  for (const std::size_t i : {1U, 2U}) put(to, 336 + 4 * i, grid_yz);
  put(to, 352, std::size_t{65536});
  put(to, 360, is.major);
  put(to, 364, is.minor);
  put(to, 368, std::size_t{512});
  put(to, layout.multiprocessors + 8, 1);  // canMapHostMemory
  put(to, layout.multiprocessors, is.multiprocessors);
  put(to, layout.bus_id, device + 1);
  put(to, layout.concurrent_kernels, 1);
  put(to, layout.async_engines, 3);
  put(to, layout.unified, 1);
  put(to, layout.bus_width, 5120);
  put(to, layout.l2, is.l2_bytes);
  put(to, layout.threads_per_multiprocessor, is.threads_per_multiprocessor);
  put(to, layout.shared_per_multiprocessor, static_cast<std::size_t>(is.shared_per_multiprocessor));
  put(to, layout.registers_per_multiprocessor, registers);
  put(to, layout.managed, 1);
  put(to, layout.cooperative, 1);
  put(to, layout.shared_optin, static_cast<std::size_t>(is.shared_per_block_optin));
  put(to, layout.blocks_per_multiprocessor, is.blocks_per_multiprocessor);
  put(to, layout.pools, 1);
}

}  // namespace

const DeviceProperties& device_properties() {
  static const DeviceProperties properties = [] {
    DeviceProperties is;
    const char* name = std::getenv("SHARDSCOPE_DEVICE_NAME");
    is.name = name == nullptr ? "a simulated CUDA device" : name;
    const auto take = [](const char* key, int& value) {
      value = static_cast<int>(setting(key, value));
    };
    take("SHARDSCOPE_DEVICE_MAJOR", is.major);
    take("SHARDSCOPE_DEVICE_MINOR", is.minor);
    take("SHARDSCOPE_DEVICE_MULTIPROCESSORS", is.multiprocessors);
    take("SHARDSCOPE_DEVICE_SHARED_OPTIN", is.shared_per_block_optin);
    take("SHARDSCOPE_DEVICE_SHARED", is.shared_per_multiprocessor);
    take("SHARDSCOPE_DEVICE_THREADS", is.threads_per_multiprocessor);
    take("SHARDSCOPE_DEVICE_L2", is.l2_bytes);
    return is;
  }();
  return properties;
}

int device_attribute(int attribute) {
  const DeviceProperties& is = device_properties();
  switch (attribute) {
    case 1:  // MaxThreadsPerBlock
    case 2:  // MaxBlockDimX
    case 3:
      return threads_per_block;
    case 4:
      return 64;
    case 5:  // MaxGridDimX
      return grid_x;
    case 6:
    case 7:
      return grid_yz;
    case 8:
      return is.shared_per_block;
    case 9:  // TotalConstantMemory
      return 65536;
    case 10:
      return 32;
    case 12:  // MaxRegistersPerBlock
    case 82:  // ... PerMultiprocessor
      return registers;
    case 16:
      return is.multiprocessors;
    case 13:  // ClockRate, kHz
      return 1980000;
    case 36:  // MemoryClockRate, kHz
      return 2619000;
    case 37:  // GlobalMemoryBusWidth
      return 5120;
    case 38:
      return is.l2_bytes;
    case 39:
      return is.threads_per_multiprocessor;
    case 40:  // AsyncEngineCount
      return 3;
    case 75:
      return is.major;
    case 76:
      return is.minor;
    case 81:
      return is.shared_per_multiprocessor;
    case 97:
      return is.shared_per_block_optin;
    case 106:
      return is.blocks_per_multiprocessor;
    case 108:  // MaxPersistingL2CacheSize
      return is.l2_bytes * 5 / 8;
    case 19:   // CanMapHostMemory
    case 31:   // ConcurrentKernels
    case 41:   // UnifiedAddressing
    case 78:   // StreamPrioritiesSupported
    case 83:   // ManagedMemory
    case 88:   // PageableMemoryAccess
    case 89:   // ConcurrentManagedAccess
    case 95:   // CooperativeLaunch
    case 99:   // HostRegisterSupported
    case 102:  // VirtualMemoryManagementSupported
    case 115:  // MemoryPoolsSupported
      return 1;
    default:
      return 0;
  }
}

#pragma GCC visibility push(default)
extern "C" {
Status cudaGetDeviceProperties(void* to, int device) {
  fill(to, device, cuda_13);
  return success;
}
/// The name that CUDA 12's header gives the same call.
Status cudaGetDeviceProperties_v2(void* to, int device) {
  fill(to, device, cuda_12);
  return success;
}
Status cudaDeviceGetAttribute(int* value, int attribute, int) {
  *value = device_attribute(attribute);
  return success;
}
Status cuDeviceGetAttribute(int* value, int attribute, int) {
  *value = device_attribute(attribute);
  return success;
}
}
#pragma GCC visibility pop

}  // namespace shardscope::recorder
