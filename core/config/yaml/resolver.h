// What a plain scalar of YAML 1.1 is, and the values of scalars.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/config/values/config_value.h"

namespace shardscope::yaml {

/// The tag of a scalar without quotes: "tag:yaml.org,2002:bool" for "no", "...str" for "1e8".
/// Source: PyYAML 6.0.3 resolver.py, the implicit resolvers.
std::string resolved_tag(std::string_view text);

/// The value of a scalar of one of the standard tags (null, bool, int, float, timestamp, binary,
/// str; without their prefix). Raises what Python raises where the text does not fit the tag.
/// Source: PyYAML 6.0.3 constructor.py, SafeConstructor.
ConfigValue scalar_value(std::string_view tag, const std::string& text);

}  // namespace shardscope::yaml
