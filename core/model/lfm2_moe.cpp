// LFM2's mixtures of experts. Source: transformers 5.24, models/lfm2_moe/modeling_lfm2_moe.py and
// configuration_lfm2_moe.py.
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>

#include "core/model/family.h"
#include "core/model/modules.h"
#include "core/model/packed_experts.h"
#include "core/model/short_convolution.h"

namespace shardscope {
namespace {

/// Before release 5 had the family, transformers' main branch had it (0c9a72e4 of October 2025):
/// each expert is a module of its own, and the router a linear layer.
bool has_expert_modules(const Model& model) {
  return model.transformers == TransformersVersion::v4;
}

void add_expert_modules(Model& model, const std::string& name, std::int64_t experts,
                        const FeedForward& expert) {
  add_linear(model, name + ".gate", {.in = expert.width, .out = experts, .bias = false},
             expert.standard_deviation);
  add_module(model, name + ".experts", "Lfm2MoeExpertList");
  for (std::int64_t i = 0; i < experts; ++i)
    add_numbered_feed_forward(model, fmt::format("{}.experts.{}", name, i), "Lfm2MoeMLP", expert);
}

void build_feed_forward(const ConfigReader& config, const std::string& layer,
                        const FeedForward& shape, Model& model) {
  const std::string name = layer + ".feed_forward";
  if (shape.layer < config.integer("num_dense_layers"))
    return add_numbered_feed_forward(model, name, "Lfm2MoeMLP", shape);
  const std::int64_t experts = config.layers({"num_experts"});
  check_experts(config, "num_experts", experts);
  FeedForward expert = shape;
  expert.inner = config.size({"moe_intermediate_size"});
  expert.activation.clear();
  add_module(model, name, "Lfm2MoeSparseMoeBlock");
  if (config.flag("use_expert_bias"))
    model.buffers.push_back(
        {.name = name + ".expert_bias", .shape = {experts}, .dtype = Dtype::float32});
  if (has_expert_modules(model)) return add_expert_modules(model, name, experts, expert);
  add_packed_experts(model, name + ".experts", {"Lfm2MoeExperts", experts}, expert);
  add_router(model, name + ".gate", {"Lfm2MoeTopKRouter", experts}, expert);
}

void build_lfm2_moe(const ConfigReader& config, Model& model) {
  if (!config.find("layer_types"))
    throw config.error("layer_types", "layer_types is missing",
                       "give conv or full_attention for each layer");
  GatedDecoder lfm2 = short_convolution_decoder("Lfm2Moe");
  lfm2.rotary_name = "pos_emb";
  lfm2.tied_key = "tie_embedding";
  lfm2.feed_forward = build_feed_forward;
  build_gated_decoder(config, lfm2, model);
}

void construct_lfm2_moe(ConfigFields& fields, const Model&) {
  if (!fields.has("tie_embedding")) return;
  fields.set("tie_word_embeddings", fields.text("tie_embedding"));
  fields.erase("tie_embedding");
}

/// Source: transformers 5.24, configuration_lfm2_moe.py, class Lfm2MoeConfig.
constexpr std::string_view default_config = R"({
  "bos_token_id": 1, "conv_L_cache": 3, "conv_bias": false, "eos_token_id": 2, "hidden_size": 2048,
  "initializer_range": 0.02, "intermediate_size": 7168, "layer_types": null, "max_position_embeddings": 128000,
  "model_type": "lfm2_moe", "moe_intermediate_size": 1792, "norm_eps": 1e-05, "norm_topk_prob": true,
  "num_attention_heads": 32, "num_dense_layers": 2, "num_experts": 32, "num_experts_per_tok": 4,
  "num_hidden_layers": 32, "num_key_value_heads": 8, "output_router_logits": false, "pad_token_id": 0,
  "rope_parameters": null, "routed_scaling_factor": 1.0, "tie_word_embeddings": true,
  "use_cache": true, "use_expert_bias": true, "vocab_size": 65536})";

/// The same where rotary embeddings stand as release 4 has them.
constexpr std::string_view default_config_4 = R"({
  "bos_token_id": 1, "conv_L_cache": 3, "conv_bias": false, "eos_token_id": 2, "hidden_size": 2048,
  "initializer_range": 0.02, "intermediate_size": 7168, "layer_types": null, "max_position_embeddings": 128000,
  "model_type": "lfm2_moe", "moe_intermediate_size": 1792, "norm_eps": 1e-05, "norm_topk_prob": true,
  "num_attention_heads": 32, "num_dense_layers": 2, "num_experts": 32, "num_experts_per_tok": 4,
  "num_hidden_layers": 32, "num_key_value_heads": 8, "output_router_logits": false, "pad_token_id": 0,
  "rope_scaling": null, "rope_theta": 1000000.0, "routed_scaling_factor": 1.0, "tie_word_embeddings": true,
  "use_cache": true, "use_expert_bias": true, "vocab_size": 65536})";

}  // namespace

ModelFamily lfm2_moe_family() {
  return {.model_type = "lfm2_moe",
          .default_class = "Lfm2MoeForCausalLM",
          .classes = {"Lfm2MoeForCausalLM", "Lfm2MoeModel"},
          .generating_classes = {"Lfm2MoeForCausalLM"},
          .default_config = default_config,
          .default_config_4 = default_config_4,
          .rope = RopeKeys{.default_theta = "1000000.0"},
          .construct = construct_lfm2_moe,
          .build = build_lfm2_moe};
}

}  // namespace shardscope
