// What the base class of all Hugging Face configs holds and drops, in transformers 4 and 5.
#pragma once

#include <string_view>

#include "core/format/json_reader.h"
#include "core/model/model.h"

namespace shardscope {

/// The fields that every config has. Source: PretrainedConfig.__init__ (4.57.6, with
/// _get_global_generation_defaults) and PreTrainedConfig (5.23), configuration_utils.py.
JsonValue common_config_defaults(TransformersVersion version);
/// Whether a key that no class declares is dropped while reading: parameters of generation in
/// transformers 5, and what other keys say already.
bool is_dropped_key(std::string_view key, TransformersVersion version);

}  // namespace shardscope
