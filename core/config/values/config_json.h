// JSON as Python's json module reads and writes it, with positions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/config/values/config_value.h"
#include "core/format/json_reader.h"

namespace shardscope {

/// json.loads: NaN, Infinity and -Infinity are numbers, integers have any size. Throws Refusal of
/// type JSONDecodeError with "file:line"; a key that stands twice is noted (last_wins) or raised as
/// ValueError (refuse, what DeepSpeed does). Deeper than 256 and over 64 MiB is refused.
ConfigValue read_json(std::string_view text, std::string_view file,
                      DuplicateKeys duplicates = DuplicateKeys::last_wins);

/// json.dumps(value, indent=indent); negative: on one line. Keys that are no text are written as
/// json.dumps turns them into text.
std::string json_text(const ConfigValue& value, int indent = -1);

}  // namespace shardscope
