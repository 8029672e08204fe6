// Sections of a DeepSpeed configuration that change neither memory nor schedule, but can be
// refused.
#pragma once

#include "core/config/values/config_value.h"

namespace shardscope {

// Each raises what DeepSpeed raises for its sections; they stand in the order in which
// DeepSpeedConfig._initialize_params reads them. Source: deepspeed 0.19.8 runtime/config.py.

/// comms_logger, tensorboard, wandb, csv_monitor, comet.
void check_monitors(const ConfigValue& config);
/// flops_profiler: whether it is enabled.
ConfigValue flops_profiler_enabled(const ConfigValue& config);
/// autotuning, hybrid_engine, pipeline, data_efficiency.
void check_tuning_and_data(const ConfigValue& config);
/// checkpoint: tag_validation and parallel_write.
void check_checkpoint(const ConfigValue& config);
/// aio, checkpoint.writer, weight_quantization, compile, timers, tensor_parallel, expert_parallel.
void check_engine_sections(const ConfigValue& config);

}  // namespace shardscope
