// What TrainingArguments say of a training step beside sharding and precision.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/values/config_value.h"

namespace shardscope {

struct TrainerLoop {
  std::int64_t batch = 8;          ///< per_device_train_batch_size
  std::int64_t micro_batches = 1;  ///< gradient_accumulation_steps
  double clip = 1.0;               ///< max_grad_norm; 0: no clipping
  std::string named_optimizer;     ///< `optim`
  /// "adamw", "sgd", "adafactor" or bitsandbytes' name; none: `optim` is another one.
  std::optional<std::string> optimizer;
  std::string implementation;         ///< torch.optim's: "foreach" or "fused"; else empty
  std::string liger;                  ///< Liger's kernels: "on" or their names; empty: none
  std::int64_t checkpoint_every = 0;  ///< every so many blocks are checkpointed; 0: none
  std::int64_t eval_batch = 0;        ///< sequences of an evaluation; 0: there is none
  bool reentrant = false;             ///< use_reentrant of these checkpoints
  bool uses_deepspeed = false;        ///< whose file says clipping and optimizer
  std::vector<std::string> defaults;  ///< what was not given: "batch 8"
  std::vector<std::string> unused;    ///< given keys that change a step and are not simulated
};

/// `given` is the dict of the file. Throws Error with `file` and the key for a value that cannot be
/// simulated. Source: transformers 5.23.0 training_args.py, trainer.py, trainer_optimizer.py.
TrainerLoop trainer_loop(const ConfigValue& given, std::string_view file);

}  // namespace shardscope
