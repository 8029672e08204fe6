// Hjson as DeepSpeed reads its configuration file: JSON with comments, quoteless text, missing and
// trailing commas.
#pragma once

#include <string_view>

#include "core/config/values/config_value.h"
#include "core/format/json_reader.h"

namespace shardscope {

/// hjson.loads. Numbers with a fraction or exponent that are whole and below 1e10 become ints
/// (5e8 is 500000000, 1e10 a float). Throws Refusal of the type that Python raises
/// (HjsonDecodeError, IndexError for a comment without its end, UnicodeDecodeError) with
/// "file:line". With `refuse` a key that stands twice is a ValueError, as
/// dict_raise_error_on_duplicate_keys makes it. Deeper than 256 and over 16 MiB is refused.
/// Source: hjson 3.1.0 decoder.py; deepspeed 0.19.8 runtime/config.py DeepSpeedConfig.__init__.
ConfigValue read_hjson(std::string_view text, std::string_view file,
                       DuplicateKeys duplicates = DuplicateKeys::refuse);

}  // namespace shardscope
