// The command line of this process, for the ranks that it starts.
#pragma once

#include <string>
#include <vector>

namespace shardscope {

/// As it was given, the program's name first.
std::vector<std::string> own_arguments();

}  // namespace shardscope
