// An arena that no other process reads.
#pragma once

#include <memory>

#include "backend/comm/communicator.h"

namespace shardscope {

std::unique_ptr<Arena> make_private_arena(Bytes size);

}  // namespace shardscope
