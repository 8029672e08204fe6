// LoRA on a parameter that no linear layer has, such as the weights of all experts in one tensor.
// Source: peft 0.21.2, tuners/lora/layer.py, ParamWrapper.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/model/lora_config.h"
#include "core/pytorch/engine/module.h"

namespace shardscope::eager {

/// Whether target_parameters names it. `key` is its full name in the model without adapters.
bool is_target_parameter(const LoraConfig& config, std::string_view key);
/// "a.base_layer.b" as "a.b".
std::string without_base_layers(std::string name);

struct AdaptedParameter {
  std::string parameter;  ///< own name
  std::string key;        ///< full name
  std::int64_t rank = 0;
  double scaling = 1;
};
/// ParamWrapper around `base`, which may be one. Error where PEFT raises.
std::shared_ptr<Module> parameter_adapter(Session& s, std::shared_ptr<Module> base,
                                          const AdaptedParameter& adapted,
                                          const LoraConfig& config);

/// get_delta_weight, added to the parameter: merge().
void merge_parameter_adapter(Session& s, Module& layer);

}  // namespace shardscope::eager
