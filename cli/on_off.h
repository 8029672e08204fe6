// The words of a switch.
#pragma once

#include <string_view>

namespace shardscope {

/// "on" or "off"; throws Error naming `where`.
bool parse_on_off(std::string_view text, std::string_view where);

}  // namespace shardscope
