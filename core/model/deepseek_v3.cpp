// DeepSeek-V3: attention over latents, mixtures of experts with a shared one. Source: transformers
// 5.24 and 4.57, models/deepseek_v3/modeling_deepseek_v3.py and configuration_deepseek_v3.py;
// conversion_mapping.py (qwen2_moe) for the names in files.
#include <fmt/format.h>

#include <string>

#include "core/model/config_rules.h"
#include "core/model/family.h"
#include "core/model/gated_decoder.h"
#include "core/model/grouped_mixture.h"
#include "core/model/modules.h"

namespace shardscope {
namespace {

void build_feed_forward(const ConfigReader& config, const std::string& layer,
                        const FeedForward& shape, Model& model) {
  build_grouped_mixture(config, layer, "DeepseekV3", shape, model);
}

/// DeepseekV3Attention: queries, keys and values out of latents; one rotary key for all heads.
void build_attention(const ConfigReader& config, const std::string& name,
                     const AttentionParts& shape, Model& model) {
  // Keys and values are made for all heads, and then repeated: transformers fails in the first
  // step.
  if (const std::int64_t pairs = config.size({"num_key_value_heads"}); pairs != shape.heads)
    throw config.error("num_key_value_heads",
                       fmt::format("expected num_attention_heads, {}, got {}", shape.heads, pairs));
  const bool bias = config.flag("attention_bias");
  const std::int64_t rotary = config.size({"qk_rope_head_dim"});
  const std::int64_t plain = config.size({"qk_nope_head_dim"});
  const std::int64_t value = config.size({"v_head_dim"});
  const std::int64_t latent = config.size({"kv_lora_rank"});
  const std::int64_t query = shape.heads * (plain + rotary);
  const auto linear = [&](const char* part, std::int64_t in, std::int64_t out, bool has_bias) {
    add_linear(model, name + part, {.in = in, .out = out, .bias = has_bias},
               shape.standard_deviation);
  };
  const auto norm = [&](const char* part, std::int64_t width) {
    add_norm(model, name + part,
             {.kind = NormKind::rms_norm,
              .class_name = "DeepseekV3RMSNorm",
              .width = width,
              .epsilon = 1e-6});
  };
  if (const auto rank = config.optional_size("q_lora_rank")) {
    linear(".q_a_proj", shape.width, *rank, bias);
    norm(".q_a_layernorm", *rank);
    linear(".q_b_proj", *rank, query, false);
  } else {
    linear(".q_proj", shape.width, query, false);
  }
  linear(".kv_a_proj_with_mqa", shape.width, latent + rotary, bias);
  norm(".kv_a_layernorm", latent);
  linear(".kv_b_proj", latent, shape.heads * (plain + value), false);
  linear(".o_proj", shape.heads * value, shape.width, bias);
}

void build_deepseek_v3(const ConfigReader& config, Model& model) {
  build_gated_decoder(config,
                      {.name = "DeepseekV3",
                       .head_dim_key = "qk_rope_head_dim",
                       .needs_kv_heads = true,
                       .feed_forward = build_feed_forward,
                       .attention = build_attention,
                       .why_no_decoder = "mixture of experts, attention over latents"},
                      model);
  finish_grouped_mixtures(model);
}

void complete_deepseek_v3(ConfigFields& fields, TransformersVersion version) {
  fill_key_value_heads(fields);
  const std::int64_t rotary = fields.integer("qk_rope_head_dim", 1, 1 << 20);
  const std::int64_t plain = fields.integer("qk_nope_head_dim", 1, 1 << 20);
  fields.integer("first_k_dense_replace", 0, 1 << 20);
  fields.set("qk_head_dim", std::to_string(rotary + plain));
  fields.set("head_dim", std::to_string(rotary));
  if (version == TransformersVersion::v4) copy_rope_type(fields);
}

/// Source: transformers 5.24, configuration_deepseek_v3.py, class DeepseekV3Config.
constexpr std::string_view default_config = R"({
  "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 0, "eos_token_id": 1, "first_k_dense_replace": 3,
  "hidden_act": "silu", "hidden_size": 7168, "initializer_range": 0.02, "intermediate_size": 18432,
  "kv_lora_rank": 512, "max_position_embeddings": 4096, "model_type": "deepseek_v3", "moe_intermediate_size": 2048,
  "n_group": 8, "n_routed_experts": 256, "n_shared_experts": 1, "norm_topk_prob": true, "num_attention_heads": 128,
  "num_experts_per_tok": 8, "num_hidden_layers": 61, "num_key_value_heads": 128, "num_nextn_predict_layers": 1,
  "output_router_logits": false, "pad_token_id": null, "pretraining_tp": 1, "q_lora_rank": 1536,
  "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "rms_norm_eps": 1e-06, "rope_interleave": true,
  "rope_parameters": null, "routed_scaling_factor": 2.5, "tie_word_embeddings": false, "topk_group": 4,
  "use_cache": true, "v_head_dim": 128, "vocab_size": 129280})";

/// Source: transformers 4.57, the same class.
constexpr std::string_view default_config_4 = R"({
  "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 0, "eos_token_id": 1, "first_k_dense_replace": 3,
  "hidden_act": "silu", "hidden_size": 7168, "initializer_range": 0.02, "intermediate_size": 18432,
  "kv_lora_rank": 512, "max_position_embeddings": 4096, "model_type": "deepseek_v3", "moe_intermediate_size": 2048,
  "n_group": 8, "n_routed_experts": 256, "n_shared_experts": 1, "norm_topk_prob": true, "num_attention_heads": 128,
  "num_experts_per_tok": 8, "num_hidden_layers": 61, "num_key_value_heads": 128, "pad_token_id": null,
  "pretraining_tp": 1, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "rms_norm_eps": 1e-06,
  "rope_interleave": true, "rope_scaling": null, "rope_theta": 10000.0, "routed_scaling_factor": 2.5,
  "tie_word_embeddings": false, "topk_group": 4, "use_cache": true, "v_head_dim": 128, "vocab_size": 129280})";

}  // namespace

ModelFamily deepseek_v3_family() {
  return {.model_type = "deepseek_v3",
          .default_class = "DeepseekV3ForCausalLM",
          .classes = {"DeepseekV3ForCausalLM", "DeepseekV3Model",
                      "DeepseekV3ForSequenceClassification", "DeepseekV3ForTokenClassification"},
          .generating_classes = {"DeepseekV3ForCausalLM"},
          .default_config = default_config,
          .default_config_4 = default_config_4,
          .config_aliases = {{"num_local_experts", "n_routed_experts"},
                             {"num_mtp_layers", "num_nextn_predict_layers"}},
          .aliases_from_5 = true,
          .rope = RopeKeys{},
          .complete = complete_deepseek_v3,
          .build = build_deepseek_v3};
}

}  // namespace shardscope
