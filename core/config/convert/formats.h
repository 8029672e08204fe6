// The writers behind `written`, one per tool.
#pragma once

#include "core/config/convert/portable_strategy.h"
#include "core/config/values/config_value.h"

namespace shardscope {

/// accelerate's file: FSDP with that version, or MULTI_GPU where version 2 shards nothing.
ConfigValue accelerate_config(const PortableStrategy& strategy, int fsdp_version);
/// DeepSpeed's file; what the training script decides is left at "auto".
ConfigValue deepspeed_config(const PortableStrategy& strategy);

}  // namespace shardscope
