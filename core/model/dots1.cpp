// dots.llm1. Source: transformers 5.24, models/dots1/modeling_dots1.py and configuration_dots1.py;
// conversion_mapping.py (qwen2_moe) for the names in files.
#include <string>

#include "core/model/config_rules.h"
#include "core/model/family.h"
#include "core/model/gated_decoder.h"
#include "core/model/grouped_mixture.h"

namespace shardscope {
namespace {

void build_feed_forward(const ConfigReader& config, const std::string& layer,
                        const FeedForward& shape, Model& model) {
  build_grouped_mixture(config, layer, "Dots1", shape, model);
}

void build_dots1(const ConfigReader& config, Model& model) {
  const bool bias = config.flag("attention_bias");
  build_gated_decoder(config,
                      {.name = "Dots1",
                       .qkv_bias = bias,
                       .out_bias = bias,
                       .query_key_norms = QueryKeyNorms::each_head,
                       .feed_forward = build_feed_forward,
                       .why_no_decoder = "mixture of experts, norms of query and key"},
                      model);
  finish_grouped_mixtures(model);
}

void complete_dots1(ConfigFields& fields, TransformersVersion) {
  fill_key_value_heads(fields);
  fields.integer("first_k_dense_replace", 0, 1 << 20);
  const bool slides = !fields.is_null("sliding_window");
  const std::int64_t first = slides ? fields.integer("max_window_layers") : 0;
  fill_layer_types(fields, [&](std::int64_t layer) { return slides && layer >= first; });
}

/// Source: transformers 5.24, configuration_dots1.py, class Dots1Config.
constexpr std::string_view default_config = R"({
  "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": null, "eos_token_id": null,
  "first_k_dense_replace": 0, "hidden_act": "silu", "hidden_size": 4608, "initializer_range": 0.02,
  "intermediate_size": 10944, "layer_types": null, "max_position_embeddings": 2048, "max_window_layers": 62,
  "model_type": "dots1", "moe_intermediate_size": 1408, "n_group": 1, "n_routed_experts": null,
  "n_shared_experts": null, "norm_topk_prob": false, "num_attention_heads": 32, "num_experts_per_tok": null,
  "num_hidden_layers": 62, "num_key_value_heads": 32, "output_router_logits": false, "pad_token_id": null,
  "rms_norm_eps": 1e-06, "rope_parameters": null, "routed_scaling_factor": 1.0, "sliding_window": 4096,
  "tie_word_embeddings": false, "topk_group": 1, "use_cache": true, "vocab_size": 152064})";

}  // namespace

ModelFamily dots1_family() {
  return {.model_type = "dots1",
          .default_class = "Dots1ForCausalLM",
          .classes = {"Dots1ForCausalLM", "Dots1Model"},
          .generating_classes = {"Dots1ForCausalLM"},
          .default_config = default_config,
          .config_aliases = {{"num_local_experts", "n_routed_experts"}},
          .rope = RopeKeys{},
          .complete = complete_dots1,
          .build = build_dots1};
}

}  // namespace shardscope
