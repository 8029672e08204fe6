// accelerate's DeepSpeedPlugin: what Accelerator knows of DeepSpeed before it prepares anything.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/config/deepspeed/hf_config.h"
#include "core/config/values/config_value.h"
#include "core/config/values/environment.h"

namespace shardscope {

/// The fields of accelerate.utils.DeepSpeedPlugin, under its names. Source: accelerate 1.15.0
/// utils/dataclasses.py.
struct DeepSpeedPlugin {
  ConfigValue gradient_accumulation_steps;
  ConfigValue gradient_clipping;
  ConfigValue zero_stage;
  ConfigValue is_train_batch_min = true;
  ConfigValue offload_optimizer_device;
  ConfigValue offload_param_device;
  ConfigValue offload_optimizer_nvme_path;
  ConfigValue offload_param_nvme_path;
  ConfigValue zero3_init_flag;
  ConfigValue zero3_save_16bit_model;
  ConfigValue transformer_moe_cls_names;
  ConfigValue enable_msamp;
  ConfigValue msamp_opt_level;
  HfDeepSpeedConfig hf_ds_config{ConfigValue::dict()};
  std::vector<std::string> warnings;  ///< what accelerate prints meanwhile

  /// deepspeed_config: what will be handed to deepspeed.initialize, "auto" still in it.
  const ConfigValue& deepspeed_config() const { return hf_ds_config.config(); }
  ConfigValue& deepspeed_config() { return hf_ds_config.config(); }
  /// The fields as a dict in the dataclass's order, without hf_ds_config.
  ConfigValue fields() const;
  /// DeepSpeedPlugin.set_mixed_precision with "no", "fp16", "bf16" or "fp8"; raises ValueError
  /// where the configuration enables the other 16-bit type.
  void set_mixed_precision(std::string_view mixed_precision);
};

/// DeepSpeedPlugin(**arguments) in an environment: `arguments` is a dict of its fields
/// (hf_ds_config among them: a dict, or the path of a file that `read_file` knows); what it lacks
/// comes from ACCELERATE_* variables. Raises what accelerate raises. Example:
/// make_deepspeed_plugin(ConfigValue::dict(), {{"ACCELERATE_DEEPSPEED_ZERO_STAGE", "3"}},
/// read_file).zero_stage is 3.
DeepSpeedPlugin make_deepspeed_plugin(const ConfigValue& arguments, const Environment& environment,
                                      const ReadFile& read_file);
/// The same around a configuration that transformers made already.
DeepSpeedPlugin make_deepspeed_plugin(HfDeepSpeedConfig config, const Environment& environment);

}  // namespace shardscope
