// What Megatron-LM makes of a command line that it does not seem to say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/values/finding.h"

namespace shardscope::megatron {

/// What Megatron-LM's own checks refuse is an error (rule "refused"), with the line of its flag;
/// what they warn of or pass over a warning; what is taken and not predicted here a note. `world`:
/// ranks, where the script does not say them. What only the caller of the script can say ("$@") is
/// no error.
std::vector<Finding> lint_command_line(std::string_view text, const std::string& file,
                                       std::optional<std::int64_t> world);

}  // namespace shardscope::megatron
