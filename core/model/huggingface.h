// A model from a Hugging Face config.json, exactly as transformers builds it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "core/format/json_reader.h"
#include "core/model/model.h"

namespace shardscope {

struct ModelOptions {
  std::string class_name;  ///< empty: the config's architectures[0], else the family's causal
                           ///< language model
  std::optional<Dtype>
      dtype;  ///< of the parameters; absent: the config's dtype or torch_dtype, else float32
  TransformersVersion transformers = TransformersVersion::v5;  ///< whose layout and defaults
  /// Class(config) instead of from_config: torch's default dtype, except in parts that the class
  /// builds by from_config. Goes before `dtype`.
  bool constructor = false;
  /// The caller reads quantization_config (core/model/read_quantization.h); else it is refused.
  bool quantized_base = false;
};

/// Throws Error with file, line and key: unknown model_type or architecture (names those known),
/// wrong type, shapes that do not divide.
Model model_of_config(const JsonValue& config, const ModelOptions& options = {});
/// The attn_implementation that the config asks for, "eager", "sdpa" or "flash_attention_2" (with
/// another number); "" where it asks for none. Source: transformers 5.24, configuration_utils.py:
/// both names of the key count, and flash_attention needs its package where it trains. Throws Error
/// for others, which are not simulated.
std::string attention_of_config(const JsonValue& config);
/// Throws Error where the config makes attention return its weights, which keeps them in memory.
void refuse_attention_weights(const JsonValue& config);
/// The config.json that `folder_or_config` names.
std::filesystem::path config_path(const std::filesystem::path& folder_or_config);

}  // namespace shardscope
