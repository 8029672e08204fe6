// OLMoE. Source: transformers 5.24, models/olmoe/modeling_olmoe.py and configuration_olmoe.py;
// conversion_mapping.py for the names in files.
#include <string>

#include "core/model/config_rules.h"
#include "core/model/family.h"
#include "core/model/gated_decoder.h"
#include "core/model/modules.h"
#include "core/model/packed_experts.h"

namespace shardscope {
namespace {

void build_experts(const ConfigReader& config, const std::string& layer, const FeedForward& shape,
                   Model& model) {
  const std::int64_t experts = config.layers({"num_local_experts", "num_experts"});
  check_experts(config, "num_experts", experts);
  const std::string mlp = layer + ".mlp";
  add_module(model, mlp, "OlmoeSparseMoeBlock");
  add_router(model, mlp + ".gate", {"OlmoeTopKRouter", experts}, shape);
  add_packed_experts(model, mlp + ".experts", {"OlmoeExperts", experts}, shape);
}

void build_olmoe(const ConfigReader& config, Model& model) {
  const bool bias = config.flag("attention_bias");
  build_gated_decoder(config,
                      {.name = "Olmoe",
                       .qkv_bias = bias,
                       .out_bias = bias,
                       .query_key_norms = QueryKeyNorms::whole,
                       .feed_forward = build_experts,
                       .why_no_decoder = "mixture of experts, norms of query and key"},
                      model);
  store_experts_apart(model, {.parts = {"gate_proj", "up_proj", "down_proj"}});
}

void complete_olmoe(ConfigFields& fields, TransformersVersion) { fill_key_value_heads(fields); }

/// Source: transformers 5.24, configuration_olmoe.py, class OlmoeConfig.
constexpr std::string_view default_config = R"({
  "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": null, "clip_qkv": null, "eos_token_id": 50279,
  "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 2048,
  "max_position_embeddings": 4096, "model_type": "olmoe", "norm_topk_prob": false, "num_attention_heads": 16,
  "num_experts": 64, "num_experts_per_tok": 8, "num_hidden_layers": 16, "num_key_value_heads": null,
  "output_router_logits": false, "pad_token_id": 1, "rms_norm_eps": 1e-05, "rope_parameters": null,
  "router_aux_loss_coef": 0.01, "tie_word_embeddings": false, "use_cache": true, "vocab_size": 50304})";

}  // namespace

ModelFamily olmoe_family() {
  return {.model_type = "olmoe",
          .default_class = "OlmoeForCausalLM",
          .classes = {"OlmoeForCausalLM", "OlmoeModel"},
          .generating_classes = {"OlmoeForCausalLM"},
          .default_config = default_config,
          .config_aliases = {{"num_local_experts", "num_experts"}},
          .rope = RopeKeys{},
          .complete = complete_olmoe,
          .build = build_olmoe};
}

}  // namespace shardscope
