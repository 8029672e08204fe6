// Regular expressions that users give, of a size that cannot hang or exhaust the program.
#pragma once

#include <regex>
#include <string>
#include <string_view>

namespace shardscope {

/// The pattern as ECMAScript. Error naming `where` if it is none, is longer than 256 characters or
/// has a counted repetition; `way_out` says what to give instead.
std::regex bounded_pattern(const std::string& pattern, const std::string& where,
                           std::string_view way_out);

}  // namespace shardscope
