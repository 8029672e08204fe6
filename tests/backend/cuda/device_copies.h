// Host memory mirrored on a CUDA device for the time of a call.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "backend/cuda/cuda_device.h"

namespace shardscope::test {

class DeviceCopies {
 public:
  explicit DeviceCopies(CudaDevice& device) : device_(device) {}
  ~DeviceCopies();
  DeviceCopies(const DeviceCopies&) = delete;
  DeviceCopies& operator=(const DeviceCopies&) = delete;

  /// Where `host` now lies on the device.
  std::byte* copy(std::span<std::byte> host);
  /// Waits for the device and brings everything back.
  void copy_back();

 private:
  struct Copy {
    std::span<std::byte> host;
    void* device;
  };
  CudaDevice& device_;
  std::vector<Copy> copies_;
};

}  // namespace shardscope::test
