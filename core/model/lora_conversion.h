// What PEFT makes of an adapter's targets where transformers 5 keeps experts in two tensors.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/lora_config.h"

namespace shardscope {

/// The model that an adapter is put on, as it is before.
struct AdaptedNames {
  std::string_view family;  ///< model_type
  std::vector<LoraTargets::Candidate> modules;
  std::vector<std::string> parameters;
};

/// Whether PEFT converts targets of this family. Source: peft 0.21.2,
/// utils/transformers_weight_conversion.py; transformers 5.24, conversion_mapping.py.
bool converts_targets(std::string_view family);

/// Experts' projections and the router among the target modules become target parameters. gate and
/// up are one parameter: of twice the rank, and an Error where only one is named. Source: the same,
/// _convert_peft_config_moe.
LoraConfig converted_for_transformers_5(LoraConfig config, const AdaptedNames& model);

}  // namespace shardscope
