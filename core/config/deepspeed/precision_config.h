// The sections fp16 and bf16 of a DeepSpeed configuration.
#pragma once

#include <string>
#include <vector>

#include "core/config/values/config_value.h"

namespace shardscope {

/// get_float16_config: every key of fp16 with the value that takes effect. A loss_scale of 0 means
/// dynamic scaling. Source: deepspeed 0.19.8 runtime/precision_config.py.
ConfigValue fp16_config_of(const ConfigValue& config);
/// get_bfloat16_config: of "bf16", else of its old name "bfloat16".
ConfigValue bf16_config_of(const ConfigValue& config);

}  // namespace shardscope
