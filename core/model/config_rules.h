// What several Hugging Face config classes do with their fields when they are constructed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/config_fields.h"
#include "core/model/config_reader.h"

namespace shardscope {

/// head_dim null: hidden_size / num_attention_heads.
void fill_head_dim(ConfigFields& fields);
/// num_key_value_heads null: num_attention_heads.
void fill_key_value_heads(ConfigFields& fields);
/// sliding_window is null unless use_sliding_window; layer_types null: layers slide from
/// max_window_layers on, if they do at all.
void fill_window_layers(ConfigFields& fields);
/// layer_types null: every second layer slides, beginning with the first.
void fill_alternating_layers(ConfigFields& fields);
/// rope_scaling's older key "type" is copied to "rope_type" (transformers 4).
void copy_rope_type(ConfigFields& fields);

/// Phi-3's older names of longrope, "su" and "yarn", as type of rope_scaling (transformers 4).
void rename_to_longrope(ConfigFields& fields);

/// layer_types null: whether each layer, from 0, slides.
void fill_layer_types(ConfigFields& fields, const std::function<bool(std::int64_t)>& slides);

/// The types of layers, each once and in alphabetical order: what layer_types says, else by whether
/// each layer, from 0, slides.
std::vector<std::string> layer_types_of(const ConfigReader& config,
                                        const std::function<bool(std::int64_t)>& slides);

/// The key of the base of a rotary embedding in older configs, and the base (JSON) without that
/// key.
struct ThetaRule {
  std::string_view key;
  std::string_view otherwise;
};
/// rope_parameters for each type of layer; an older rope_scaling is that of full attention. Source:
/// convert_rope_params_to_dict of Gemma 3 and OLMo 3.
void fill_rope_by_type(ConfigFields& fields, const ThetaRule& full, const ThetaRule& sliding);

/// rope_parameters, where given, is an object of one object for each type of layer.
void check_rope_parameters(const ConfigReader& config);

/// layer_types, where given, is one known name for each layer: a type of attention, or
/// `further_type`.
void check_layer_types(const ConfigReader& config, std::string_view further_type = {});
/// What the native runtime lacks of a config with use_sliding_window; empty: nothing.
std::string why_windowed(const ConfigReader& config);

}  // namespace shardscope
