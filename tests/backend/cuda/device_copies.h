// Host memory mirrored in a device's for the time of a call.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "backend/device/device_memory.h"

namespace shardscope::test {

class DeviceCopies {
 public:
  explicit DeviceCopies(DeviceMemory& memory) : memory_(memory) {}

  /// Where `host` now lies for the device: where it did if that is the host's memory, too.
  std::byte* copy(std::span<std::byte> host);
  /// Waits for the device and brings everything back.
  void copy_back();

 private:
  struct Copy {
    std::span<std::byte> host;
    std::unique_ptr<Arena> device;
  };
  DeviceMemory& memory_;
  std::vector<Copy> copies_;
};

}  // namespace shardscope::test
