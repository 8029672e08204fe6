// Gemma 3, its text model. Source: transformers 5.24 and 4.57.6, models/gemma3/modeling_gemma3.py
// and configuration_gemma3.py, class Gemma3TextConfig.
#include <cstdint>
#include <functional>

#include "core/model/config_rules.h"
#include "core/model/family.h"
#include "core/model/gated_decoder.h"

namespace shardscope {
namespace {

constexpr std::int64_t usual_pattern = 6;
constexpr std::string_view global_theta = "1000000.0", local_theta = "10000.0";

/// Whether a layer, from 0, slides, where the config names no types.
bool slides(std::int64_t layer, std::int64_t pattern) { return (layer + 1) % pattern != 0; }

std::function<bool(std::int64_t)> slides_of(const ConfigReader& config) {
  const std::int64_t pattern =
      config.optional_size("sliding_window_pattern").value_or(usual_pattern);
  return [pattern](std::int64_t layer) { return slides(layer, pattern); };
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
                      .rotary_types = layer_types_of(config, slides_of(config)),
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

/// The class reads keys that it does not declare.
void construct_gemma3(ConfigFields& fields, const Model& model) {
  fill_layer_pattern(fields);
  if (model.transformers == TransformersVersion::v5)
    fill_rope_by_type(fields, {"rope_theta", global_theta}, {"rope_local_base_freq", local_theta});
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
