// YAML as yaml.safe_load of PyYAML 6.0.3 reads it, with positions.
#pragma once

#include <string_view>

#include "core/config/values/config_value.h"

namespace shardscope {

/// The single document of a file; None for an empty one. Scalars resolve by YAML 1.1: `no` and `on`
/// are bools, `1e8` is text, `010` is 8. Of a key that stands twice the last value counts, and the
/// mapping notes both lines. Raises ScannerError, ParserError, ComposerError, ConstructorError,
/// ReaderError, UnicodeDecodeError... where PyYAML does, with "file:line". Bounds: 8 MiB, 200
/// levels, 2^18 values and 32 MiB of text after aliases have been followed; beyond them Error.
ConfigValue read_yaml(std::string_view text, std::string_view file);

}  // namespace shardscope
