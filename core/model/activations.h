// The activation that a config names.
#pragma once

#include <string>
#include <string_view>

#include "core/model/config_reader.h"

namespace shardscope {

/// The name under `key`, checked to be one of transformers' (activation_class knows its class).
std::string read_activation(const ConfigReader& config, std::string_view key);
/// The same of a name that another key implies; the complaint names `key`.
void check_activation(const ConfigReader& config, std::string_view key, std::string_view name);

}  // namespace shardscope
