// Gemma 3, its text model. Source: transformers 5.24 and 4.57.6, models/gemma3/modeling_gemma3.py
// and configuration_gemma3.py, class Gemma3TextConfig.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "core/model/config_rules.h"
#include "core/model/family.h"
#include "core/model/gated_decoder.h"

namespace shardscope {
namespace {

constexpr std::int64_t usual_pattern = 6;
constexpr std::string_view global_theta = "1000000.0", local_theta = "10000.0";

/// Whether a layer, from 0, slides, where the config names no types.
bool slides(std::int64_t layer, std::int64_t pattern) { return (layer + 1) % pattern != 0; }

/// Each once, in alphabetical order.
std::vector<std::string> layer_types_of(const ConfigReader& config) {
  std::set<std::string> types;
  if (const auto given = config.find("layer_types")) {
    for (const JsonValue& type : given->elements()) types.insert(type.string());
  } else {
    const std::int64_t pattern =
        config.optional_size("sliding_window_pattern").value_or(usual_pattern);
    const std::int64_t layers = config.layers({"num_hidden_layers"});
    for (std::int64_t layer = 0; layer < layers; ++layer)
      types.insert(slides(layer, pattern) ? "sliding_attention" : "full_attention");
  }
  return {types.begin(), types.end()};
}

/// Parameters for each type of layer are an object of objects.
void check_rope_parameters(const ConfigReader& config) {
  const auto rope = config.find("rope_parameters");
  if (!rope) return;
  for (const auto& [type, parameters] : rope->members())
    if (!parameters.is_null()) parameters.members();
}

void build_gemma3(const ConfigReader& config, Model& model) {
  const auto both_ways = config.find("use_bidirectional_attention");
  if (both_ways && both_ways->is_boolean() && both_ways->boolean())
    throw config.error("use_bidirectional_attention",
                       "attention in both directions is not simulated; export the model "
                       "(docs/own_models.md)");
  check_rope_parameters(config);
  const bool bias = config.flag("attention_bias");
  GatedDecoder gemma3{.name = "Gemma3",
                      .base_class = "TextModel",
                      .activation_key = "hidden_activation",
                      .qkv_bias = bias,
                      .out_bias = bias,
                      .query_key_norms = QueryKeyNorms::each_head,
                      .norms = {"input_layernorm", "post_attention_layernorm",
                                "pre_feedforward_layernorm", "post_feedforward_layernorm"},
                      .rotary_types = layer_types_of(config),
                      .needs_kv_heads = true,
                      .whole_heads = true,
                      .why_no_decoder = "norms after each part, sliding window"};
  if (model.transformers == TransformersVersion::v4)
    gemma3.base_model_prefix = model.class_name == "Gemma3TextModel" ? "" : "language_model";
  gemma3.embedding_class = "Gemma3TextScaledWordEmbedding";
  build_gated_decoder(config, gemma3, model);
  add_embedding_scale(model);
  if (model.transformers == TransformersVersion::v4)
    model.no_split_classes = model.no_split_classes_of_class = {
        "Gemma3DecoderLayer", "SiglipEncoderLayer", "SiglipMultiheadAttentionPoolingHead",
        "SiglipVisionEmbeddings"};
}

/// Five layers of six slide; older configs say sliding_window_pattern.
void fill_layer_pattern(ConfigFields& fields) {
  const std::int64_t pattern = fields.is_null("sliding_window_pattern")
                                   ? usual_pattern
                                   : fields.integer("sliding_window_pattern", 1);
  fields.set("_sliding_window_pattern", std::to_string(pattern));
  fill_layer_types(fields, [&](std::int64_t layer) { return slides(layer, pattern); });
}

/// What `key` of the older form says, or the default.
nlohmann::json theta_of(const ConfigFields& fields, std::string_view key,
                        std::string_view otherwise) {
  return nlohmann::json::parse(fields.is_null(key) ? std::string(otherwise) : fields.text(key));
}

/// convert_rope_params_to_dict: parameters for each type of layer.
void fill_rope_parameters(ConfigFields& fields) {
  nlohmann::json rope = nlohmann::json::parse(fields.text("rope_parameters"));
  if (!rope.is_object()) rope = nlohmann::json::object();
  for (const char* type : {"full_attention", "sliding_attention"})
    if (!rope[type].is_object()) rope[type] = {{"rope_type", "default"}};
  const nlohmann::json scaling = nlohmann::json::parse(fields.text("rope_scaling"));
  if (scaling.is_object()) rope["full_attention"].update(scaling);
  const auto set_where_missing = [&](const char* type, const nlohmann::json& theta) {
    if (!rope[type].contains("rope_theta")) rope[type]["rope_theta"] = theta;
  };
  set_where_missing("full_attention", theta_of(fields, "rope_theta", global_theta));
  set_where_missing("sliding_attention", theta_of(fields, "rope_local_base_freq", local_theta));
  for (const char* older : {"rope_scaling", "rope_theta", "rope_local_base_freq"})
    fields.erase(older);
  fields.set("rope_parameters", rope.dump());
}

/// The class reads keys that it does not declare.
void construct_gemma3(ConfigFields& fields, const Model& model) {
  fill_layer_pattern(fields);
  if (model.transformers == TransformersVersion::v5) fill_rope_parameters(fields);
}

/// Source: transformers 5.24, configuration_gemma3.py, class Gemma3TextConfig.
constexpr std::string_view default_config = R"({
  "attention_bias": false, "attention_dropout": 0.0, "attn_logit_softcapping": null, "bos_token_id": 2,
  "eos_token_id": 1, "final_logit_softcapping": null, "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh",
  "hidden_size": 2304, "initializer_range": 0.02, "intermediate_size": 9216, "layer_types": null,
  "max_position_embeddings": 131072, "model_type": "gemma3_text", "num_attention_heads": 8, "num_hidden_layers": 26,
  "num_key_value_heads": 4, "pad_token_id": 0, "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06,
  "rope_parameters": null, "sliding_window": 4096, "tie_word_embeddings": true, "use_bidirectional_attention": false,
  "use_cache": true, "vocab_size": 262208})";

/// Source: transformers 4.57.6, the same class.
constexpr std::string_view default_config_4 = R"({
  "attention_bias": false, "attention_dropout": 0.0, "attn_logit_softcapping": null, "bos_token_id": 2,
  "eos_token_id": 1, "final_logit_softcapping": null, "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh",
  "hidden_size": 2304, "initializer_range": 0.02, "intermediate_size": 9216, "layer_types": null,
  "max_position_embeddings": 131072, "model_type": "gemma3_text", "num_attention_heads": 8, "num_hidden_layers": 26,
  "num_key_value_heads": 4, "pad_token_id": 0, "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06,
  "rope_local_base_freq": 10000.0, "rope_scaling": null, "rope_theta": 1000000.0, "sliding_window": 4096,
  "tie_word_embeddings": true, "use_bidirectional_attention": false, "use_cache": true, "vocab_size": 262208})";

}  // namespace

ModelFamily gemma3_text_family() {
  return {.model_type = "gemma3_text",
          .default_class = "Gemma3ForCausalLM",
          .classes = {"Gemma3ForCausalLM", "Gemma3TextModel"},
          .generating_classes = {"Gemma3ForCausalLM"},
          .default_config = default_config,
          .default_config_4 = default_config_4,
          .construct = construct_gemma3,
          .build = build_gemma3};
}

}  // namespace shardscope
