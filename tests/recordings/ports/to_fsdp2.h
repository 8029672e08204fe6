// `accelerate to-fsdp2`: a configuration of FSDP version 1 rewritten for version 2.
#pragma once

#include <string>
#include <vector>

#include "core/config/values/config_value.h"

namespace shardscope::accelerate {

struct ToFsdp2 {
  ConfigValue config;
  std::vector<std::string> warnings;  ///< keys that were dropped
};

/// What accelerate makes of the file's value; hybrid sharding and NO_SHARD lose their replication.
/// Names in lower case and numbers of strategies pass unchanged. Raises ValueError for an empty
/// file. Source: accelerate 1.15.0 commands/to_fsdp2.py.
ToFsdp2 to_fsdp2(const ConfigValue& file);

}  // namespace shardscope::accelerate
