// A Hugging Face model as Megatron-LM builds it.
#pragma once

#include "core/config/megatron/settings.h"
#include "core/format/json_reader.h"

namespace shardscope::megatron {

/// Takes shape, layers and dropout of a config.json over into `settings`; the rest stays. `config`
/// is one that model_of_config takes. Throws Error naming --model for a family that Megatron-LM is
/// not predicted with.
void take_model(const JsonValue& config, Settings& settings);

}  // namespace shardscope::megatron
