// config.json and generation_config.json as transformers 5 writes them.
#pragma once

#include <string>

#include "core/format/json_reader.h"
#include "core/model/model.h"

namespace shardscope {

/// config.json as save_pretrained writes it: `config` with the family's defaults filled in, older
/// keys renamed (torch_dtype, rope_theta, rope_scaling, num_labels), sorted, and with the class and
/// dtype of `model`.
std::string config_text(const JsonValue& config, const Model& model);
/// generation_config.json; empty for a class that does not generate text.
std::string generation_config_text(const JsonValue& config, const Model& model);

}  // namespace shardscope
