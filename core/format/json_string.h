// Strings as JSON writes them.
#pragma once

#include <string>
#include <string_view>

namespace shardscope {

/// Appends `text` quoted, in ASCII only, as Python's json.dumps spells it; bytes that are not UTF-8
/// become U+FFFD.
void append_json_string(std::string& out, std::string_view text);

}  // namespace shardscope
