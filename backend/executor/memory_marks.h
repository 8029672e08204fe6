// What is taken of a device's memory while the parts of a run are made, one after the other.
#pragma once

#include <string>
#include <vector>

#include "backend/device/device_memory.h"
#include "core/base/quantities.h"

namespace shardscope {

/// In use on the device, by all processes, when `owner` had taken its part.
struct MemoryMark {
  std::string owner;
  Bytes in_use;
  bool operator==(const MemoryMark&) const = default;
};

/// Notes `owner` where the memory can tell; the host's cannot.
void note(std::vector<MemoryMark>& marks, std::string owner, const DeviceMemory& memory);

}  // namespace shardscope
