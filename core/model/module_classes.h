// The classes above a module's class: wrapping policies test with isinstance.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/model/model.h"

namespace shardscope {

/// Nearest first, up to but without torch.nn.Module. Knows the classes of the model's family and of
/// torch.nn that it uses. Source: torch 2.15, torch/nn/modules; transformers 5.23 and 4.57.6,
/// models/*/modeling_*.py. Example: T5Stack: T5PreTrainedModel, PreTrainedModel.
std::vector<std::string> module_class_bases(const Model& model, std::string_view class_name);

}  // namespace shardscope
