// Two smaller models inside zero_optimization: zenflow and leaf_module.
#pragma once

#include "core/config/deepspeed/pydantic_model.h"

namespace shardscope {

/// ZenFlowConfig. Source: deepspeed 0.19.8 runtime/zenflow/zenflow_config.py.
const PydanticModel& zenflow_model();
/// DeepSpeedZeroLeafModuleConfig: by default the MoE blocks of Mixtral, Qwen2-MoE and Qwen3-MoE.
/// Source: deepspeed 0.19.8 runtime/zero/leaf_module_config.py.
const PydanticModel& leaf_module_model();

}  // namespace shardscope
