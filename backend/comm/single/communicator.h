// The group of one: what a job of one process uses.
#pragma once

#include <memory>

#include "backend/comm/communicator.h"
#include "backend/device/device_memory.h"

namespace shardscope {

/// Arena and copies are `memory`'s, which must outlive it.
std::unique_ptr<Communicator> make_single_communicator(DeviceMemory& memory = host_memory());

}  // namespace shardscope
