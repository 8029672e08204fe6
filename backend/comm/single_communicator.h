// The group of one: what a job of one process uses.
#pragma once

#include <memory>

#include "backend/communicator.h"

namespace shardscope {

std::unique_ptr<Communicator> make_single_communicator();

}  // namespace shardscope
