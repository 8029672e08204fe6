// MiniMax-M2. Source: transformers 5.24, models/minimax_m2/modeling_minimax_m2.py and
// configuration_minimax_m2.py; conversion_mapping.py for the names in files.
#include <fmt/format.h>

#include <string>

#include "core/model/config_rules.h"
#include "core/model/family.h"
#include "core/model/gated_decoder.h"
#include "core/model/modules.h"
#include "core/model/packed_experts.h"

namespace shardscope {
namespace {

/// The class turns only that part of a head.
constexpr RopeKeys rope_keys{.default_theta = "5000000.0", .default_is_partial = true};

void build_feed_forward(const ConfigReader& config, const std::string& layer,
                        const FeedForward& shape, Model& model) {
  const std::int64_t experts = read_local_experts(config);
  const std::string mlp = layer + ".mlp";
  add_module(model, mlp, "MiniMaxM2SparseMoeBlock");
  add_router(model, mlp + ".gate", {"MiniMaxM2TopKRouter", experts}, shape);
  add_packed_experts(model, mlp + ".experts", {"MiniMaxM2Experts", experts}, shape);
  model.buffers.push_back({.name = mlp + ".e_score_correction_bias",
                           .shape = {experts},
                           .dtype = model.dtype,
                           .persistent = true});
}

void build_minimax_m2(const ConfigReader& config, Model& model) {
  // Released models have rotary_dim. Source: convert_rope_params_to_dict.
  RopeKeys rope = rope_keys;
  std::string partial;
  if (const auto turned = config.find("rotary_dim")) {
    const std::int64_t size = config.size({"head_dim"});
    partial = fmt::format(
        "{}", static_cast<double>(turned->integer(1, size)) / static_cast<double>(size));
    rope.default_partial = partial;
  }
  build_gated_decoder(config,
                      {.name = "MiniMaxM2",
                       .rope = rope,
                       .query_key_norms = QueryKeyNorms::whole,
                       .feed_forward = build_feed_forward,
                       .why_no_decoder = "mixture of experts, norms of query and key"},
                      model);
  store_experts_apart(model, {.parts = {"w1", "w3", "w2"}, .block = ".block_sparse_moe."});
}

/// Source: transformers 5.24, configuration_minimax_m2.py, class MiniMaxM2Config.
constexpr std::string_view default_config = R"({
  "attention_dropout": 0.0, "bos_token_id": 200034, "eos_token_id": 200020, "head_dim": 128,
  "hidden_act": "silu", "hidden_size": 3072, "initializer_range": 0.02, "intermediate_size": 1536,
  "max_position_embeddings": 196608, "model_type": "minimax_m2", "num_attention_heads": 48,
  "num_experts_per_tok": 8, "num_hidden_layers": 62, "num_key_value_heads": 8, "num_local_experts": 256,
  "output_router_logits": false, "pad_token_id": null, "rms_norm_eps": 1e-06, "rope_parameters": null,
  "router_aux_loss_coef": 0.001, "router_jitter_noise": 0.0, "tie_word_embeddings": false,
  "use_cache": true, "vocab_size": 200064})";

}  // namespace

ModelFamily minimax_m2_family() {
  return {.model_type = "minimax_m2",
          .default_class = "MiniMaxM2ForCausalLM",
          .classes = {"MiniMaxM2ForCausalLM", "MiniMaxM2Model"},
          .generating_classes = {"MiniMaxM2ForCausalLM"},
          .default_config = default_config,
          .config_aliases = {{"num_experts", "num_local_experts"}},
          .rope = rope_keys,
          .build = build_minimax_m2};
}

}  // namespace shardscope
