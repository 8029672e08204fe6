// Properties of the simulated device.
#pragma once

#include <cstddef>
#include <string>

namespace shardscope::recorder {

/// From the environment, as `shardscope record` fills it in from the hardware profile and
/// backend/recorder/compute_capabilities.json.
struct DeviceProperties {
  std::string name;
  int major = 9, minor = 0;
  int multiprocessors = 132;
  int shared_per_block = 49152, shared_per_block_optin = 232448, shared_per_multiprocessor = 233472;
  int threads_per_multiprocessor = 2048, blocks_per_multiprocessor = 32;
  int l2_bytes = 52428800;
};
const DeviceProperties& device_properties();

/// By the number of cudaDeviceAttr, which is CUdevice_attribute's.
int device_attribute(int attribute);

}  // namespace shardscope::recorder
