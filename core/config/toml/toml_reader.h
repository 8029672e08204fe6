// TOML, as Python's tomllib reads it.
#pragma once

#include <string>
#include <string_view>

#include "core/config/values/config_value.h"

namespace shardscope {

/// The dict of a TOML document, with the line of each key and value. Dates and times become text.
/// Throws Error with file and line where it is no TOML.
ConfigValue read_toml(std::string_view text, const std::string& file);

}  // namespace shardscope
