// transformers.Trainer: which of FSDP, DeepSpeed and DDP it ends up with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/config/accelerate/fsdp_plugin.h"
#include "core/config/trainer/training_args.h"
#include "core/pytorch/plans/module_tree.h"

namespace shardscope {

/// What the Trainer's Accelerator is set to.
struct TrainerSetup {
  std::string distributed_type;  ///< "FSDP", "DEEPSPEED", "MULTI_GPU"
  std::string mixed_precision;
  std::optional<accelerate::FsdpPlugin> fsdp;  ///< absent: FSDP is off
  bool deepspeed = false;
};

/// Trainer(model, args) as one of several ranks that a launcher started: `environment` of the
/// arguments says what accelerate launch has set, and the arguments overrule it. Raises what
/// Trainer.__init__ raises, ValueError for combinations that it refuses. `no_split_classes` is the
/// model's _no_split_modules. Source: transformers 5.23.0 trainer.py; accelerate 1.15.0 state.py.
TrainerSetup set_up_trainer(const TrainingArguments& arguments, const ModuleTree& model,
                            const std::vector<std::string>& no_split_classes);

}  // namespace shardscope
