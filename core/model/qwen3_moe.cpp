// Qwen3's mixtures of experts. Source: transformers 5.24 and 4.57.6,
// models/qwen3_moe/modeling_qwen3_moe.py and configuration_qwen3_moe.py; conversion_mapping.py for
// the names in files.
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

void build_feed_forward(const ConfigReader& config, const std::string& layer,
                        const FeedForward& shape, Model& model) {
  const std::string mlp = layer + ".mlp";
  if (!has_experts(config, shape.layer))
    return add_dense_feed_forward(model, mlp, "Qwen3MoeMLP", shape);
  const std::int64_t experts = model.transformers == TransformersVersion::v4
                                   ? config.layers({"num_experts"})
                                   : config.layers({"num_experts", "num_local_experts"});
  check_experts(config, "num_experts", experts);
  FeedForward expert = shape;
  expert.inner = config.size({"moe_intermediate_size"});
  add_module(model, mlp, "Qwen3MoeSparseMoeBlock");
  if (model.transformers == TransformersVersion::v5) {
    add_packed_experts(model, mlp + ".experts", {"Qwen3MoeExperts", experts}, expert);
    return add_router(model, mlp + ".gate", {"Qwen3MoeTopKRouter", experts}, expert);
  }
  add_linear(model, mlp + ".gate", {.in = shape.width, .out = experts, .bias = false},
             shape.standard_deviation);
  add_expert_list(model, mlp + ".experts", {"Qwen3MoeMLP", experts}, expert);
}

void build_qwen3_moe(const ConfigReader& config, Model& model) {
  const bool bias = config.flag("attention_bias");
  build_gated_decoder(config,
                      {.name = "Qwen3Moe",
                       .qkv_bias = bias,
                       .out_bias = bias,
                       .query_key_norms = QueryKeyNorms::each_head,
                       .question_prefix = "transformer",
                       .needs_kv_heads = true,
                       .feed_forward = build_feed_forward,
                       .why_no_decoder = "mixture of experts, norms of query and key"},
                      model);
  if (model.transformers == TransformersVersion::v5)
    store_experts_apart(model, {.parts = {"gate_proj", "up_proj", "down_proj"}});
}

void complete_qwen3_moe(ConfigFields& fields, TransformersVersion version) {
  if (!fields.is_true("use_sliding_window")) fields.set("sliding_window", "null");
  fields.set_where_null("mlp_only_layers", "[]");
  if (version == TransformersVersion::v4) copy_rope_type(fields);
}

/// Source: transformers 5.24, configuration_qwen3_moe.py, class Qwen3MoeConfig.
constexpr std::string_view default_config = R"({
  "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": null, "decoder_sparse_step": 1,
  "eos_token_id": null, "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02,
  "intermediate_size": 6144, "max_position_embeddings": 32768, "mlp_only_layers": null, "model_type": "qwen3_moe",
  "moe_intermediate_size": 768, "norm_topk_prob": false, "num_attention_heads": 32, "num_experts_per_tok": 8,
  "num_hidden_layers": 24, "num_key_value_heads": 4, "num_local_experts": 128, "output_router_logits": false,
  "pad_token_id": null, "rms_norm_eps": 1e-06, "rope_parameters": null, "router_aux_loss_coef": 0.001,
  "sliding_window": 4096, "tie_word_embeddings": false, "use_cache": true, "use_sliding_window": false,
  "vocab_size": 151936})";

/// Source: transformers 4.57.6, the same class.
constexpr std::string_view default_config_4 = R"({
  "attention_bias": false, "attention_dropout": 0.0, "decoder_sparse_step": 1, "hidden_act": "silu",
  "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 6144, "max_position_embeddings": 32768,
  "mlp_only_layers": null, "model_type": "qwen3_moe", "moe_intermediate_size": 768, "norm_topk_prob": false,
  "num_attention_heads": 32, "num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 24,
  "num_key_value_heads": 4, "output_router_logits": false, "rms_norm_eps": 1e-06, "rope_scaling": null,
  "rope_theta": 10000.0, "router_aux_loss_coef": 0.001, "sliding_window": 4096, "tie_word_embeddings": false,
  "use_cache": true, "use_sliding_window": false, "vocab_size": 151936})";

}  // namespace

ModelFamily qwen3_moe_family() {
  return {.model_type = "qwen3_moe",
          .default_class = "Qwen3MoeForCausalLM",
          .classes = {"Qwen3MoeForCausalLM", "Qwen3MoeModel", "Qwen3MoeForSequenceClassification",
                      "Qwen3MoeForTokenClassification", "Qwen3MoeForQuestionAnswering"},
          .generating_classes = {"Qwen3MoeForCausalLM"},
          .default_config = default_config,
          .default_config_4 = default_config_4,
          .config_aliases = {{"num_experts", "num_local_experts"}},
          .aliases_from_5 = true,
          .rope = RopeKeys{},
          .complete = complete_qwen3_moe,
          .build = build_qwen3_moe};
}

}  // namespace shardscope
