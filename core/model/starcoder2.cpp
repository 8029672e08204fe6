// StarCoder 2. Source: transformers 5.24 and 4.57.6, models/starcoder2/modeling_starcoder2.py and
// configuration_starcoder2.py.
#include "core/model/activations.h"
#include "core/model/config_rules.h"
#include "core/model/family.h"
#include "core/model/gated_decoder.h"
#include "core/model/modules.h"

namespace shardscope {
namespace {

/// Starcoder2MLP.
void add_feed_forward(const ConfigReader& config, const std::string& layer,
                      const FeedForward& shape, Model& model) {
  const std::string mlp = layer + ".mlp";
  const bool bias = config.flag("use_bias");
  add_module(model, mlp, "Starcoder2MLP");
  add_linear(model, mlp + ".c_fc", {.in = shape.width, .out = shape.inner, .bias = bias},
             shape.standard_deviation);
  add_linear(model, mlp + ".c_proj", {.in = shape.inner, .out = shape.width, .bias = bias},
             shape.standard_deviation);
  add_module(model, mlp + ".act", activation_class(shape.activation));
}

void build_starcoder2(const ConfigReader& config, Model& model) {
  const bool bias = config.flag("use_bias");
  build_gated_decoder(
      config,
      {.name = "Starcoder2",
       .qkv_bias = bias,
       .out_bias = bias,
       .norm = NormKind::layer_norm,
       .epsilon_key = "norm_epsilon",
       .feed_forward = add_feed_forward,
       .why_no_decoder = "a feed-forward part without gate beside rotary embedding"},
      model);
}

/// Source: transformers 5.24, configuration_starcoder2.py, class Starcoder2Config.
constexpr std::string_view default_config = R"({
  "attention_dropout": 0.0, "bos_token_id": 50256, "embedding_dropout": 0.0, "eos_token_id": 50256,
  "hidden_act": "gelu_pytorch_tanh", "hidden_size": 3072, "initializer_range": 0.018042, "intermediate_size": 12288,
  "max_position_embeddings": 4096, "model_type": "starcoder2", "norm_epsilon": 1e-05, "num_attention_heads": 24,
  "num_hidden_layers": 30, "num_key_value_heads": 2, "pad_token_id": null, "residual_dropout": 0.0,
  "rope_parameters": null, "sliding_window": null, "tie_word_embeddings": true, "use_bias": true, "use_cache": true,
  "vocab_size": 49152})";

/// Source: transformers 4.57.6, the same class.
constexpr std::string_view default_config_4 = R"({
  "attention_dropout": 0.0, "bos_token_id": 50256, "embedding_dropout": 0.0, "eos_token_id": 50256,
  "hidden_act": "gelu_pytorch_tanh", "hidden_size": 3072, "initializer_range": 0.018042, "intermediate_size": 12288,
  "max_position_embeddings": 4096, "model_type": "starcoder2", "norm_epsilon": 1e-05, "num_attention_heads": 24,
  "num_hidden_layers": 30, "num_key_value_heads": 2, "residual_dropout": 0.0, "rope_scaling": null,
  "rope_theta": 10000.0, "sliding_window": null, "tie_word_embeddings": true, "use_bias": true, "use_cache": true,
  "vocab_size": 49152})";

}  // namespace

ModelFamily starcoder2_family() {
  return {.model_type = "starcoder2",
          .default_class = "Starcoder2ForCausalLM",
          .classes = {"Starcoder2ForCausalLM", "Starcoder2Model",
                      "Starcoder2ForSequenceClassification", "Starcoder2ForTokenClassification"},
          .generating_classes = {"Starcoder2ForCausalLM"},
          .default_config = default_config,
          .default_config_4 = default_config_4,
          .rope = RopeKeys{},
          .build = build_starcoder2};
}

}  // namespace shardscope
