// YAML as yaml.safe_dump of PyYAML 6.0.3 writes it.
#pragma once

#include <string>

#include "core/config/values/config_value.h"

namespace shardscope {

/// yaml.safe_dump(value): block style, keys sorted where they can be compared, quotes where a plain
/// word would be read as something else, lines broken at blanks behind column 80, ASCII only. A
/// list or mapping that came into several places through aliases becomes an anchor and aliases
/// again.
std::string yaml_text(const ConfigValue& value);

}  // namespace shardscope
