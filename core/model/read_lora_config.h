// PEFT's adapter_config.json, and the same in one option.
#pragma once

#include <string_view>

#include "core/format/json_reader.h"
#include "core/model/lora_config.h"

namespace shardscope {

/// The object of an adapter_config.json, or LoraConfig's arguments. `model_type` decides the
/// targets where none are given. Error with file, line and key for values that PEFT refuses and for
/// settings that change memory in a way that is not modelled.
LoraConfig read_lora_config(const JsonValue& config, std::string_view model_type);

/// --peft: a file or folder of an adapter, or "r=16,alpha=32,dropout=0.05,targets=q_proj+v_proj";
/// targets may be all-linear. Flags: dora, rslora. Also the object of an adapter_config.json as
/// text, "{...}". Error naming `where`.
LoraConfig parse_lora_config(std::string_view text, std::string_view where,
                             std::string_view model_type);

}  // namespace shardscope
