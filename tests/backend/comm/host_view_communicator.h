// A communicator of device memory, as the contract's checks want it.
#pragma once

#include <memory>

#include "backend/comm/communicator.h"
#include "backend/device/device_memory.h"

namespace shardscope::testing {

/// Makes the calls of `inner` block, and gives the host pages in place of the arena: what lies in
/// them is moved to the same place of the device's arena before a call that reads it, and back
/// after one that writes it, so that collectives work on the memory that training has. `memory`
/// must outlive it, and it the arena.
std::unique_ptr<Communicator> make_host_view(std::unique_ptr<Communicator> inner,
                                             DeviceMemory& memory);

}  // namespace shardscope::testing
