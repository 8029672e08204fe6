// config.json and generation_config.json as transformers writes them.
#pragma once

#include <string>

#include "core/format/json_reader.h"
#include "core/model/model.h"

namespace shardscope {

/// config.json as save_pretrained of the model's release writes it: `config` with the family's
/// defaults filled in, older keys renamed (torch_dtype, num_labels; from release 5 rope_theta and
/// rope_scaling), sorted, and with the class and dtype of `model`. Source: transformers,
/// configuration_utils.py, to_diff_dict.
std::string config_text(const JsonValue& config, const Model& model);
/// generation_config.json; empty for a class that does not generate text.
std::string generation_config_text(const JsonValue& config, const Model& model);

}  // namespace shardscope
