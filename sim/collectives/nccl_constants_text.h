// The text of sim/collectives/nccl_2.28.9.json, which is part of the program.
#pragma once

#include <string_view>

namespace shardscope {

std::string_view nccl_constants_text();

}  // namespace shardscope
