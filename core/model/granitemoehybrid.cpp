// Granite 4, its models of attention alone. Source: transformers 5.24,
// models/granitemoehybrid/modeling_granitemoehybrid.py and configuration_granitemoehybrid.py.
#include <string>

#include "core/model/activations.h"
#include "core/model/config_rules.h"
#include "core/model/family.h"
#include "core/model/gated_decoder.h"
#include "core/model/modules.h"

namespace shardscope {
namespace {

constexpr const char* way_out = "export the model (docs/own_models.md)";
constexpr std::int64_t most_of_a_size = 1 << 26;

/// Layers of Mamba and experts, which the larger models have, are not known.
void check_kind(const ConfigReader& config) {
  const auto types = config.find("layer_types");
  const auto older = types ? types : config.find("layers_block_type");
  if (!older)
    throw config.error("layer_types", "layers of a state space are not simulated", way_out);
  for (const JsonValue& type : older->elements())
    if (type.string() != "full_attention" && type.string() != "attention")
      throw type.error("layers of a state space are not simulated", way_out);
  if (config.integer("num_local_experts") > 0)
    throw config.error("num_local_experts", "Granite 4's experts are not simulated", way_out);
  const auto positions = config.find("position_embedding_type");
  if (!positions || positions->string() != "rope")
    throw config.error("position_embedding_type", "attention without positions is not simulated",
                       way_out);
}

/// Gate and up in one Linear, under names of its own.
void build_feed_forward(const ConfigReader& config, const std::string& layer,
                        const FeedForward& shape, Model& model) {
  const std::string mlp = layer + ".shared_mlp";
  const std::int64_t inner = config.size({"shared_intermediate_size"});
  add_module(model, mlp, "GraniteMoeHybridMLP");
  add_module(model, mlp + ".activation", activation_class(shape.activation));
  add_linear(model, mlp + ".input_linear", {.in = shape.width, .out = 2 * inner, .bias = false},
             shape.standard_deviation);
  add_linear(model, mlp + ".output_linear", {.in = inner, .out = shape.width, .bias = false},
             shape.standard_deviation);
}

void build_granite_hybrid(const ConfigReader& config, Model& model) {
  check_kind(config);
  const bool bias = config.flag("attention_bias");
  build_gated_decoder(
      config,
      {.name = "GraniteMoeHybrid",
       .qkv_bias = bias,
       .out_bias = bias,
       .order = LayerOrder::norms_feed_forward_attention,
       .feed_forward = build_feed_forward,
       .why_no_decoder = "multipliers of embedding, attention, residual and logits"},
      model);
}

/// Files of transformers 4 say "attention".
void complete_granite_hybrid(ConfigFields& fields, TransformersVersion) {
  fill_key_value_heads(fields);
  if (fields.text("mamba_d_head") == R"("auto")")
    fields.set("mamba_d_head", std::to_string(fields.integer("mamba_expand", 0, most_of_a_size) *
                                              fields.integer("hidden_size", 1, most_of_a_size) /
                                              fields.integer("mamba_n_heads", 1)));
  fields.erase("layers_block_type");
  fields.set("layer_types", "null");
  fill_layer_types(fields, [](std::int64_t) { return false; });
}

/// Source: transformers 5.24, configuration_granitemoehybrid.py, class GraniteMoeHybridConfig.
constexpr std::string_view default_config = R"({
  "attention_bias": false, "attention_dropout": 0.0, "attention_multiplier": 1.0, "bos_token_id": 1,
  "embedding_multiplier": 1.0, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096,
  "initializer_range": 0.02, "intermediate_size": 11008, "layer_types": null, "logits_scaling": 1.0,
  "mamba_chunk_size": 256, "mamba_conv_bias": true, "mamba_d_conv": 4, "mamba_d_head": "auto",
  "mamba_d_state": 256, "mamba_expand": 2, "mamba_n_groups": 1, "mamba_n_heads": 128,
  "mamba_proj_bias": false, "max_position_embeddings": 2048, "model_type": "granitemoehybrid",
  "num_attention_heads": 32, "num_experts_per_tok": 2, "num_hidden_layers": 32, "num_key_value_heads": null,
  "num_local_experts": 8, "output_router_logits": false, "pad_token_id": null, "position_embedding_type": null,
  "residual_multiplier": 1.0, "rms_norm_eps": 1e-06, "rope_parameters": null, "router_aux_loss_coef": 0.001,
  "shared_intermediate_size": 1024, "tie_word_embeddings": false, "use_cache": true, "vocab_size": 32000})";

}  // namespace

ModelFamily granitemoehybrid_family() {
  return {.model_type = "granitemoehybrid",
          .default_class = "GraniteMoeHybridForCausalLM",
          .classes = {"GraniteMoeHybridForCausalLM", "GraniteMoeHybridModel"},
          .generating_classes = {"GraniteMoeHybridForCausalLM"},
          .default_config = default_config,
          .rope = RopeKeys{},
          .complete = complete_granite_hybrid,
          .build = build_granite_hybrid};
}

}  // namespace shardscope
