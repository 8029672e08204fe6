// The three batch sizes of DeepSpeed, of which each follows from the others.
#pragma once

#include "core/config/values/config_value.h"

namespace shardscope {

/// train_batch_size = train_micro_batch_size_per_gpu * gradient_accumulation_steps * world.
struct DeepSpeedBatch {
  ConfigValue train;  ///< None: not given
  ConfigValue micro;
  ConfigValue accumulation;
};

/// DeepSpeedConfig._configure_train_batch_size: fills in what is None and checks the product.
/// Raises AssertionError where it does not hold, TypeError for "auto". `world` is an int, or a
/// float under sequence_parallel_size. Source: deepspeed 0.19.8 runtime/config.py. Example: train
/// 64, micro None, accumulation 2, world 8: micro is 4.
DeepSpeedBatch completed_batch(DeepSpeedBatch given, const ConfigValue& world);

}  // namespace shardscope
