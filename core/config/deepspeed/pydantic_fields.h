// One field of a pydantic model: coercion and limits.
#pragma once

#include <string_view>

#include "core/config/deepspeed/pydantic_model.h"

namespace shardscope {

/// The value that the field takes on; raises ValidationError whose place is `key`.
ConfigValue coerced(const ModelField& field, const ConfigValue& value, std::string_view key);

}  // namespace shardscope
