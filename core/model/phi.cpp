// Phi 1, 1.5 and 2. Source: transformers 5.24 and 4.57.6, models/phi/modeling_phi.py and
// configuration_phi.py.
#include "core/model/activations.h"
#include "core/model/config_rules.h"
#include "core/model/family.h"
#include "core/model/gated_decoder.h"
#include "core/model/modules.h"

namespace shardscope {
namespace {

constexpr RopeKeys rope_keys{.default_partial = "0.5", .default_is_partial = true};

/// PhiMLP.
void add_feed_forward(const ConfigReader&, const std::string& layer, const FeedForward& shape,
                      Model& model) {
  const std::string mlp = layer + ".mlp";
  add_module(model, mlp, "PhiMLP");
  add_module(model, mlp + ".activation_fn", activation_class(shape.activation));
  add_linear(model, mlp + ".fc1", {.in = shape.width, .out = shape.inner},
             shape.standard_deviation);
  add_linear(model, mlp + ".fc2", {.in = shape.inner, .out = shape.width},
             shape.standard_deviation);
}

void build_phi(const ConfigReader& config, Model& model) {
  refuse_query_key_norms(config);
  build_gated_decoder(config,
                      {.name = "Phi",
                       .rope = rope_keys,
                       .qkv_bias = true,
                       .out_bias = true,
                       .out_projection = "dense",
                       .norm = NormKind::layer_norm,
                       .epsilon_key = "layer_norm_eps",
                       .norms = {"input_layernorm"},
                       .dropouts = {"resid_dropout"},
                       .final_norm = "final_layernorm",
                       .dropout_before_final_norm = "embed_dropout",
                       .head_bias = true,
                       .feed_forward = add_feed_forward,
                       .why_no_decoder = "attention beside the feed-forward part, partial rotary"},
                      model);
}

void complete_phi(ConfigFields& fields, TransformersVersion) { fill_key_value_heads(fields); }

/// Source: transformers 5.24, configuration_phi.py, class PhiConfig.
constexpr std::string_view default_config = R"({
  "attention_dropout": 0.0, "bos_token_id": 1, "embd_pdrop": 0.0, "eos_token_id": 2, "hidden_act": "gelu_new",
  "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 8192, "layer_norm_eps": 1e-05,
  "max_position_embeddings": 2048, "model_type": "phi", "num_attention_heads": 32, "num_hidden_layers": 24,
  "num_key_value_heads": null, "pad_token_id": null, "qk_layernorm": false, "resid_pdrop": 0.0,
  "rope_parameters": null, "tie_word_embeddings": false, "use_cache": true, "vocab_size": 51200})";

/// Source: transformers 4.57.6, the same class.
constexpr std::string_view default_config_4 = R"({
  "attention_dropout": 0.0, "bos_token_id": 1, "embd_pdrop": 0.0, "eos_token_id": 2, "hidden_act": "gelu_new",
  "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 8192, "layer_norm_eps": 1e-05,
  "max_position_embeddings": 2048, "model_type": "phi", "num_attention_heads": 32, "num_hidden_layers": 24,
  "num_key_value_heads": null, "partial_rotary_factor": 0.5, "qk_layernorm": false, "resid_pdrop": 0.0,
  "rope_scaling": null, "rope_theta": 10000.0, "tie_word_embeddings": false, "use_cache": true, "vocab_size": 51200})";

}  // namespace

ModelFamily phi_family() {
  return {.model_type = "phi",
          .default_class = "PhiForCausalLM",
          .classes = {"PhiForCausalLM", "PhiModel", "PhiForSequenceClassification",
                      "PhiForTokenClassification"},
          .generating_classes = {"PhiForCausalLM"},
          .default_config = default_config,
          .default_config_4 = default_config_4,
          .rope = rope_keys,
          .complete = complete_phi,
          .build = build_phi};
}

}  // namespace shardscope
