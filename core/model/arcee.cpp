// Arcee's AFM. Source: transformers 5.24, models/arcee/modeling_arcee.py and
// configuration_arcee.py.
#include <string>

#include "core/model/activations.h"
#include "core/model/config_rules.h"
#include "core/model/family.h"
#include "core/model/gated_decoder.h"
#include "core/model/modules.h"

namespace shardscope {
namespace {

/// No gate.
void build_feed_forward(const ConfigReader& config, const std::string& layer,
                        const FeedForward& shape, Model& model) {
  const std::string mlp = layer + ".mlp";
  const bool bias = config.flag("mlp_bias");
  add_module(model, mlp, "ArceeMLP");
  add_linear(model, mlp + ".up_proj", {.in = shape.width, .out = shape.inner, .bias = bias},
             shape.standard_deviation);
  add_linear(model, mlp + ".down_proj", {.in = shape.inner, .out = shape.width, .bias = bias},
             shape.standard_deviation);
  add_module(model, mlp + ".act_fn", activation_class(shape.activation));
}

void build_arcee(const ConfigReader& config, Model& model) {
  const bool bias = config.flag("attention_bias");
  build_gated_decoder(config,
                      {.name = "Arcee",
                       .qkv_bias = bias,
                       .out_bias = bias,
                       .whole_heads = true,
                       .feed_forward = build_feed_forward,
                       .why_no_decoder = "a feed-forward part without a gate"},
                      model);
}

void complete_arcee(ConfigFields& fields, TransformersVersion) {
  fill_head_dim(fields);
  fill_key_value_heads(fields);
}

/// Source: transformers 5.24, configuration_arcee.py, class ArceeConfig.
constexpr std::string_view default_config = R"({
  "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 128000, "eos_token_id": 128001,
  "head_dim": null, "hidden_act": "relu2", "hidden_size": 2560, "initializer_range": 0.02,
  "intermediate_size": 18432, "max_position_embeddings": 4096, "mlp_bias": false, "model_type": "arcee",
  "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": null, "pad_token_id": null,
  "rms_norm_eps": 1e-05, "rope_parameters": null, "tie_word_embeddings": false, "use_cache": true,
  "vocab_size": 32000})";

}  // namespace

ModelFamily arcee_family() {
  return {.model_type = "arcee",
          .default_class = "ArceeForCausalLM",
          .classes = {"ArceeForCausalLM", "ArceeModel", "ArceeForSequenceClassification",
                      "ArceeForTokenClassification"},
          .generating_classes = {"ArceeForCausalLM"},
          .default_config = default_config,
          .rope = RopeKeys{},
          .complete = complete_arcee,
          .build = build_arcee};
}

}  // namespace shardscope
