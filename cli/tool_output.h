// What another tool prints, asked within bounds.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace shardscope {

/// Standard output of `arguments` (the program first, searched in PATH), which gets no input and
/// whose standard error is dropped. None where it cannot be started, does not end within `limit`
/// (it is killed then), fails, or prints more than 4 MiB.
std::optional<std::string> tool_output(std::vector<std::string> arguments,
                                       std::chrono::milliseconds limit);

}  // namespace shardscope
