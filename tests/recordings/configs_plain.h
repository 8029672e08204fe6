// Values of configuration files as the recorder writes them.
#pragma once

#include <nlohmann/json.hpp>

#include "core/config/values/config_value.h"

namespace shardscope::recordings {

/// As record.py's plain(): None, numbers, texts, lists and dicts; infinity is "inf".
nlohmann::ordered_json plain(const ConfigValue& value);
/// A recorded value as Python would hand it over; integers stay integers.
ConfigValue config_value(const nlohmann::ordered_json& recorded);

}  // namespace shardscope::recordings
