// YAML as yaml.safe_dump of PyYAML writes it.
#pragma once

#include <string>

#include "core/config/config_value.h"

namespace shardscope {

/// Blocks of two spaces, keys in the order of the value (safe_dump sorts them: sort before), texts
/// that would read as something else in quotes. Long lines are not folded.
std::string yaml_text(const ConfigValue& value);

}  // namespace shardscope
