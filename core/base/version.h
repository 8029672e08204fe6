// The version of the programs.
#pragma once

#include <string_view>

namespace shardscope {

/// "0.1.0", from the top CMakeLists.txt.
std::string_view program_version();

}  // namespace shardscope
