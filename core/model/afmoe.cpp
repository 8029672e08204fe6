// AFMoE, Arcee's mixtures of experts (Trinity). Source: transformers 5.24,
// models/afmoe/modeling_afmoe.py and configuration_afmoe.py.
#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "core/model/config_rules.h"
#include "core/model/family.h"
#include "core/model/gated_decoder.h"
#include "core/model/modules.h"
#include "core/model/packed_experts.h"

namespace shardscope {
namespace {

constexpr std::int64_t most_of_a_size = 1 << 26;

/// Release 4 runs the file of the models' own repositories, which became that of 5.0: each expert
/// is a module of its own.
bool has_expert_modules(const Model& model) {
  return model.transformers == TransformersVersion::v4;
}

/// The bias of the choice is a parameter that never trains.
void build_mixture(const ConfigReader& config, const std::string& name, const FeedForward& shape,
                   Model& model) {
  const std::int64_t experts = config.layers({"num_experts"});
  check_experts(config, "num_experts", experts);
  FeedForward expert = shape;
  expert.inner = config.size({"moe_intermediate_size"});
  FeedForward shared = expert;
  shared.inner *= config.layers({"num_shared_experts"});
  const bool apart = has_expert_modules(model);
  add_module(model, name, apart ? "AfmoeMoE" : "AfmoeSparseMoeBlock");
  const ParameterId bias =
      add_parameter(model, name + ".expert_bias", {experts}, {.kind = Initialization::Kind::zeros});
  model.parameters[bias.value].dtype = Dtype::float32;
  model.parameters[bias.value].trainable = false;
  add_module(model, name + ".router", "AfmoeTokenChoiceRouter");
  add_linear(model, name + ".router.gate", {.in = shape.width, .out = experts, .bias = false},
             shape.standard_deviation);
  add_dense_feed_forward(model, name + ".shared_experts", "AfmoeMLP", shared);
  if (!apart)
    return add_packed_experts(model, name + ".experts", {"AfmoeExperts", experts}, expert);
  add_module(model, name + ".experts", "AfmoeExpertList");
  for (std::int64_t i = 0; i < experts; ++i)
    add_dense_feed_forward(model, fmt::format("{}.experts.{}", name, i), "AfmoeMLP", expert);
}

void build_feed_forward(const ConfigReader& config, const std::string& layer,
                        const FeedForward& shape, Model& model) {
  const std::string name = layer + ".mlp";
  if (shape.layer < config.integer("num_dense_layers"))
    return add_dense_feed_forward(model, name, "AfmoeMLP", shape);
  build_mixture(config, name, shape, model);
}

void build_afmoe(const ConfigReader& config, Model& model) {
  const bool bias = config.flag("attention_bias");
  build_gated_decoder(config,
                      {.name = "Afmoe",
                       .qkv_bias = bias,
                       .out_bias = bias,
                       .query_key_norms = QueryKeyNorms::each_head,
                       .attention_gate = "gate_proj",
                       .norms = {"input_layernorm", "post_attention_layernorm", "pre_mlp_layernorm",
                                 "post_mlp_layernorm"},
                       .order = LayerOrder::attention_norms_feed_forward,
                       .feed_forward = build_feed_forward,
                       .why_no_decoder = "a mixture of experts"},
                      model);
  if (!has_expert_modules(model))
    store_experts_apart(model, {.parts = {"gate_proj", "up_proj", "down_proj"}});
}

void complete_afmoe(ConfigFields& fields, TransformersVersion) {
  fill_key_value_heads(fields);
  fields.integer("num_dense_layers", 0, most_of_a_size);
  const std::int64_t interval = fields.integer("global_attn_every_n_layers", 1, most_of_a_size);
  fill_layer_types(fields, [&](std::int64_t layer) { return (layer + 1) % interval != 0; });
}

/// Source: transformers 5.24, configuration_afmoe.py, class AfmoeConfig.
constexpr std::string_view default_config = R"({
  "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": null, "eos_token_id": null,
  "global_attn_every_n_layers": 4, "head_dim": 128, "hidden_act": "silu", "hidden_size": 2048,
  "initializer_range": 0.02, "intermediate_size": 6144, "layer_types": null,
  "max_position_embeddings": 16384, "model_type": "afmoe", "moe_intermediate_size": 1408,
  "mup_enabled": false, "num_attention_heads": 16, "num_dense_layers": 1, "num_experts": 64,
  "num_experts_per_tok": 6, "num_hidden_layers": 32, "num_key_value_heads": null,
  "num_shared_experts": 2, "output_router_logits": false, "pad_token_id": null, "rms_norm_eps": 1e-05,
  "rope_parameters": null, "route_scale": 1.0, "sliding_window": 1024, "tie_word_embeddings": false,
  "use_cache": true, "vocab_size": 200192})";

/// The same where rotary embeddings stand as release 4 has them.
constexpr std::string_view default_config_4 = R"({
  "attention_bias": false, "attention_dropout": 0.0, "global_attn_every_n_layers": 4, "head_dim": 128,
  "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 6144,
  "layer_types": null, "max_position_embeddings": 16384, "model_type": "afmoe",
  "moe_intermediate_size": 1408, "mup_enabled": false, "num_attention_heads": 16, "num_dense_layers": 1,
  "num_experts": 64, "num_experts_per_tok": 6, "num_hidden_layers": 32, "num_key_value_heads": null,
  "num_shared_experts": 2, "output_router_logits": false, "rms_norm_eps": 1e-05, "rope_scaling": null,
  "rope_theta": 10000.0, "route_scale": 1.0, "sliding_window": 1024, "tie_word_embeddings": false,
  "use_cache": true, "vocab_size": 200192})";

}  // namespace

ModelFamily afmoe_family() {
  return {.model_type = "afmoe",
          .default_class = "AfmoeForCausalLM",
          .classes = {"AfmoeForCausalLM", "AfmoeModel"},
          .generating_classes = {"AfmoeForCausalLM"},
          .default_config = default_config,
          .default_config_4 = default_config_4,
          .rope = RopeKeys{},
          .complete = complete_afmoe,
          .build = build_afmoe};
}

}  // namespace shardscope
