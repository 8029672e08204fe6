// accelerate's FullyShardedDataParallelPlugin made by a program: arguments before the environment.
#pragma once

#include "core/config/accelerate/fsdp_plugin.h"
#include "core/config/values/config_value.h"
#include "core/config/values/environment.h"

namespace shardscope::accelerate {

/// FullyShardedDataParallelPlugin(**arguments), as transformers makes it of fsdp_plugin_args: what
/// an argument says overrules the environment's FSDP_* variable. In version 1 the strategy still
/// comes from the environment (FULL_SHARD without one): reshard_after_forward only stands beside
/// it. Raises ValueError and KeyError as the plugin does. Source: accelerate 1.15.0
/// utils/dataclasses.py.
FsdpPlugin make_fsdp_plugin(const ConfigValue& arguments, const Environment& environment);

}  // namespace shardscope::accelerate
