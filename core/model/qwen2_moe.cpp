// Qwen2's mixtures of experts. Source: transformers 5.24, models/qwen2_moe/modeling_qwen2_moe.py
// and configuration_qwen2_moe.py; conversion_mapping.py for the names in files.
#include <string>

#include "core/model/config_rules.h"
#include "core/model/family.h"
#include "core/model/gated_decoder.h"
#include "core/model/modules.h"
#include "core/model/packed_experts.h"

namespace shardscope {
namespace {

bool has_experts(const ConfigReader& config, std::int64_t layer) {
  if (const auto dense = config.find("mlp_only_layers"))
    for (const JsonValue& number : dense->elements())
      if (number.integer() == layer) return false;
  return (layer + 1) % config.size({"decoder_sparse_step"}) == 0;
}

/// Experts, and one that all tokens go through, behind a gate of its own.
void build_feed_forward(const ConfigReader& config, const std::string& layer,
                        const FeedForward& shape, Model& model) {
  const std::string mlp = layer + ".mlp";
  if (!has_experts(config, shape.layer))
    return add_dense_feed_forward(model, mlp, "Qwen2MoeMLP", shape);
  const std::int64_t experts = config.layers({"num_experts"});
  check_experts(config, "num_experts", experts);
  FeedForward expert = shape, shared = shape;
  expert.inner = config.size({"moe_intermediate_size"});
  shared.inner = config.size({"shared_expert_intermediate_size"});
  add_module(model, mlp, "Qwen2MoeSparseMoeBlock");
  add_router(model, mlp + ".gate", {"Qwen2MoeTopKRouter", experts}, expert);
  add_packed_experts(model, mlp + ".experts", {"Qwen2MoeExperts", experts}, expert);
  add_dense_feed_forward(model, mlp + ".shared_expert", "Qwen2MoeMLP", shared);
  add_linear(model, mlp + ".shared_expert_gate", {.in = shape.width, .out = 1, .bias = false},
             shape.standard_deviation);
}

void build_qwen2_moe(const ConfigReader& config, Model& model) {
  build_gated_decoder(config,
                      {.name = "Qwen2Moe",
                       .qkv_bias = config.flag("qkv_bias"),
                       .question_prefix = "model",
                       .feed_forward = build_feed_forward,
                       .why_no_decoder = "mixture of experts"},
                      model);
  store_experts_apart(model, {.parts = {"gate_proj", "up_proj", "down_proj"}});
}

/// The window is 0, not null, where it is not used.
void complete_qwen2_moe(ConfigFields& fields, TransformersVersion) {
  const bool slides = fields.is_true("use_sliding_window");
  fields.set_where_null("mlp_only_layers", "[]");
  if (!slides) fields.set("sliding_window", "0");
  const std::int64_t first_whole = fields.integer("max_window_layers");
  fill_layer_types(
      fields, [&](std::int64_t layer) { return slides && layer % 2 == 0 && layer < first_whole; });
}

/// Source: transformers 5.24, configuration_qwen2_moe.py, class Qwen2MoeConfig.
constexpr std::string_view default_config = R"({
  "attention_dropout": 0.0, "bos_token_id": null, "decoder_sparse_step": 1, "eos_token_id": null,
  "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 5632,
  "layer_types": null, "max_position_embeddings": 32768, "max_window_layers": 28, "mlp_only_layers": null,
  "model_type": "qwen2_moe", "moe_intermediate_size": 1408, "norm_topk_prob": false, "num_attention_heads": 16,
  "num_experts": 60, "num_experts_per_tok": 4, "num_hidden_layers": 24, "num_key_value_heads": 16,
  "output_router_logits": false, "pad_token_id": null, "qkv_bias": true, "rms_norm_eps": 1e-06,
  "rope_parameters": null, "router_aux_loss_coef": 0.001, "shared_expert_intermediate_size": 5632,
  "sliding_window": 4096, "tie_word_embeddings": false, "use_cache": true, "use_sliding_window": false,
  "vocab_size": 151936})";

}  // namespace

ModelFamily qwen2_moe_family() {
  return {.model_type = "qwen2_moe",
          .default_class = "Qwen2MoeForCausalLM",
          .classes = {"Qwen2MoeForCausalLM", "Qwen2MoeModel", "Qwen2MoeForSequenceClassification",
                      "Qwen2MoeForTokenClassification", "Qwen2MoeForQuestionAnswering"},
          .generating_classes = {"Qwen2MoeForCausalLM"},
          .default_config = default_config,
          .rope = RopeKeys{},
          .complete = complete_qwen2_moe,
          .build = build_qwen2_moe};
}

}  // namespace shardscope
