// Pydantic models of sections that Shardscope only checks.
#pragma once

#include <span>
#include <string_view>

#include "core/config/deepspeed/pydantic_model.h"

namespace shardscope {

/// The model of a section by its key ("comms_logger", "tensorboard", "wandb", "csv_monitor",
/// "comet", "hybrid_engine", "compile", "weight_quantization", "throughput", "tensor_parallel").
/// Sources: deepspeed 0.19.8 comm/config.py, monitor/config.py, runtime/config.py,
/// compile/config.py, inference/config.py, utils/config.py, runtime/tensor_parallel/config.py.
const PydanticModel& model_of_section(std::string_view key);

}  // namespace shardscope
