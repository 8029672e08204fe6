// GLM-4.5. Source: transformers 5.24, models/glm4_moe/modeling_glm4_moe.py and
// configuration_glm4_moe.py; conversion_mapping.py (qwen2_moe) for the names in files.
#include <string>

#include "core/model/config_rules.h"
#include "core/model/family.h"
#include "core/model/gated_decoder.h"
#include "core/model/grouped_mixture.h"

namespace shardscope {
namespace {

constexpr RopeKeys rope_keys{.default_partial = "0.5", .default_is_partial = true};

void build_feed_forward(const ConfigReader& config, const std::string& layer,
                        const FeedForward& shape, Model& model) {
  build_grouped_mixture(config, layer, "Glm4Moe", shape, model);
}

void build_glm4_moe(const ConfigReader& config, Model& model) {
  const bool normed = config.flag("use_qk_norm");
  build_gated_decoder(config,
                      {.name = "Glm4Moe",
                       .rope = rope_keys,
                       .qkv_bias = config.flag("attention_bias"),
                       .query_key_norms = normed ? QueryKeyNorms::each_head : QueryKeyNorms::none,
                       .needs_kv_heads = true,
                       .feed_forward = build_feed_forward,
                       .why_no_decoder = "mixture of experts, partial rotary"},
                      model);
  finish_grouped_mixtures(model);
}

void complete_glm4_moe(ConfigFields& fields, TransformersVersion) {
  fields.integer("first_k_dense_replace", 0, 1 << 20);
}

/// Source: transformers 5.24, configuration_glm4_moe.py, class Glm4MoeConfig.
constexpr std::string_view default_config = R"({
  "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": null, "eos_token_id": null,
  "first_k_dense_replace": 1, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
  "intermediate_size": 10944, "max_position_embeddings": 131072, "model_type": "glm4_moe",
  "moe_intermediate_size": 1408, "n_group": 1, "n_routed_experts": 128, "n_shared_experts": 1,
  "norm_topk_prob": true, "num_attention_heads": 96, "num_experts_per_tok": 8, "num_hidden_layers": 46,
  "num_key_value_heads": 8, "num_nextn_predict_layers": 1, "output_router_logits": false, "pad_token_id": null,
  "rms_norm_eps": 1e-05, "rope_parameters": null, "routed_scaling_factor": 1.0, "tie_word_embeddings": false,
  "topk_group": 1, "use_cache": true, "use_qk_norm": false, "vocab_size": 151552})";

}  // namespace

ModelFamily glm4_moe_family() {
  return {.model_type = "glm4_moe",
          .default_class = "Glm4MoeForCausalLM",
          .classes = {"Glm4MoeForCausalLM", "Glm4MoeModel"},
          .generating_classes = {"Glm4MoeForCausalLM"},
          .default_config = default_config,
          .config_aliases = {{"num_local_experts", "n_routed_experts"},
                             {"num_mtp_layers", "num_nextn_predict_layers"}},
          .rope = rope_keys,
          .complete = complete_glm4_moe,
          .build = build_glm4_moe};
}

}  // namespace shardscope
