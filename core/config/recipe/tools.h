// The readers of each tool's file. `value` is the dict of the file, `file` its name for messages.
#pragma once

#include <string>
#include <string_view>

#include "core/config/python/python_functions.h"
#include "core/config/recipe/recipe.h"

namespace shardscope::recipes {

/// `trl sft --config`: SFTConfig, ModelConfig and ScriptArguments. Source: TRL 1.16.0,
/// trainer/sft_config.py, trainer/model_config.py, scripts/sft.py, trainer/utils.py.
Recipe read_trl(const ConfigValue& value, const std::string& file);
/// Source: axolotl 067b021, utils/schemas, utils/config/__init__.py, loaders/model.py,
/// core/builders/base.py.
Recipe read_axolotl(const ConfigValue& value, const std::string& file);
/// Source: LLaMA-Factory ff6d4d1, hparams, model/adapter.py, model/model_utils/quantization.py and
/// checkpointing.py.
Recipe read_llama_factory(const ConfigValue& value, const std::string& file);
/// Source: torchtune bd2a0fc, recipes/lora_finetune_single_device.py and full_finetune_*.py.
Recipe read_torchtune(const ConfigValue& value, const std::string& file);
/// Source: litgpt 2685705, finetune/lora.py, finetune/full.py, args.py.
Recipe read_litgpt(const ConfigValue& value, const std::string& file);
/// Source: ms-swift 3602360, swift/arguments.
Recipe read_ms_swift(const ConfigValue& value, const std::string& file);
/// The TOML of torchtitan's releases of 2024 and 2025. Source: torchtitan 000204a (July 2025),
/// config/job_config.py, models/llama3/infra/parallelize.py; older names: 08e5379,
/// config_manager.py.
Recipe read_torchtitan(const ConfigValue& value, const std::string& file);
/// A function that returns a Trainer.Config, the only one that can be called without arguments
/// unless named. Source: torchtitan 0.3.0, trainer.py, config/configs.py,
/// models/llama3/config_registry.py, components/optimizer/optimizer.py (default_adamw).
Recipe read_torchtitan_python(std::string_view text, const PythonName& name);

}  // namespace shardscope::recipes
