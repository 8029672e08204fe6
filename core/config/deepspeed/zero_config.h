// The section zero_optimization of a DeepSpeed configuration.
#pragma once

#include <string>
#include <vector>

#include "core/config/deepspeed/pydantic_model.h"
#include "core/config/values/config_value.h"

namespace shardscope {

/// get_zero_config(config): every key of zero_optimization under its JSON name with the value that
/// takes effect, defaults included; leaf_module among them. The old form
/// "zero_optimization": true is stage 1. Bucket sizes and thresholds are elements, not bytes.
/// Raises what DeepSpeed raises. Source: deepspeed 0.19.8 runtime/zero/config.py.
ConfigValue zero_config_of(const ConfigValue& config, std::vector<std::string>* warnings);

/// DeepSpeedZeroConfig, DeepSpeedZeroOffloadParamConfig and DeepSpeedZeroOffloadOptimizerConfig.
const PydanticModel& zero_model();
const PydanticModel& offload_param_model();
const PydanticModel& offload_optimizer_model();

}  // namespace shardscope
