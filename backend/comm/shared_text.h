// A text that one rank has and all need.
#pragma once

#include <string>

#include "backend/comm/communicator.h"

namespace shardscope {

/// Collective: the text that rank `from` gives, on all ranks.
std::string shared_text(std::string text, int from, Communicator& world);

}  // namespace shardscope
