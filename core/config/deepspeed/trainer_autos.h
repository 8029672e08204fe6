// "auto" in a DeepSpeed configuration as transformers' Trainer fills it in.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/config/deepspeed/hf_config.h"
#include "core/config/deepspeed/model_widths.h"
#include "core/config/values/config_value.h"

namespace shardscope {

/// transformers.integrations.deepspeed.HfTrainerDeepSpeedConfig. Source: transformers 5.23.0.
struct TrainerDeepSpeedConfig {
  HfDeepSpeedConfig hf;
  std::string dtype;  ///< "torch.bfloat16": what models are loaded in
  /// Values that stand in the file and contradict the arguments; finalize refuses them.
  std::vector<std::string> mismatches;
};

/// trainer_config_process: `arguments` is a dict of TrainingArguments with their defaults, `world`
/// the number of ranks.
TrainerDeepSpeedConfig processed_by_trainer(HfDeepSpeedConfig config, const ConfigValue& arguments,
                                            std::int64_t world, bool auto_find_batch_size = false);

/// trainer_config_finalize, when the model and the number of steps are known. Raises ValueError for
/// mismatches, and for "auto" that needs a hidden size which the model lacks.
void finalize_by_trainer(TrainerDeepSpeedConfig& config, const ConfigValue& arguments,
                         const ModelWidths& model, std::int64_t training_steps);

/// TrainingArguments.get_warmup_steps: warmup_steps below 1 is a share of all steps.
std::int64_t warmup_steps_of(const ConfigValue& warmup_steps, std::int64_t training_steps);

}  // namespace shardscope
