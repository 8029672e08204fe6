// Mixtral. Source: transformers 5.23 and 4.57.6, models/mixtral/modeling_mixtral.py and
// configuration_mixtral.py; conversion_mapping.py for the names in files.
#include <fmt/format.h>

#include <string>

#include "core/model/config_rules.h"
#include "core/model/family.h"
#include "core/model/gated_decoder.h"
#include "core/model/modules.h"
#include "core/model/packed_experts.h"

namespace shardscope {
namespace {

constexpr RopeKeys rope_keys{.default_theta = "1000000.0", .null_head_dim = true};

/// transformers 4: three Linears for each expert.
void build_single_experts(const std::string& mlp, std::int64_t experts, const FeedForward& shape,
                          Model& model) {
  const auto linear = [&](const std::string& name, std::int64_t in, std::int64_t out) {
    add_linear(model, name, {.in = in, .out = out, .bias = false}, shape.standard_deviation);
  };
  add_module(model, mlp, "MixtralSparseMoeBlock");
  linear(mlp + ".gate", shape.width, experts);
  add_module(model, mlp + ".experts", "ModuleList");
  for (std::int64_t i = 0; i < experts; ++i) {
    const std::string expert = fmt::format("{}.experts.{}", mlp, i);
    add_module(model, expert, "MixtralBlockSparseTop2MLP");
    linear(expert + ".w1", shape.width, shape.inner);
    linear(expert + ".w2", shape.inner, shape.width);
    linear(expert + ".w3", shape.width, shape.inner);
    add_module(model, expert + ".act_fn", activation_class(shape.activation));
  }
}

void build_experts(const ConfigReader& config, const std::string& layer, const FeedForward& shape,
                   Model& model) {
  const std::int64_t experts = read_local_experts(config);
  if (model.transformers == TransformersVersion::v4)
    return build_single_experts(layer + ".block_sparse_moe", experts, shape, model);
  const std::string mlp = layer + ".mlp";
  add_module(model, mlp, "MixtralSparseMoeBlock");
  add_router(model, mlp + ".gate", {"MixtralTopKRouter", experts}, shape);
  add_packed_experts(model, mlp + ".experts", {"MixtralExperts", experts}, shape);
}

void build_mixtral(const ConfigReader& config, Model& model) {
  build_gated_decoder(config,
                      {.name = "Mixtral",
                       .rope = rope_keys,
                       .question_prefix = "model",
                       .needs_kv_heads = model.transformers == TransformersVersion::v5,
                       .feed_forward = build_experts,
                       .why_no_decoder = "mixture of experts"},
                      model);
  if (model.transformers == TransformersVersion::v5)
    store_experts_apart(model, {.parts = {"w1", "w3", "w2"}, .block = ".block_sparse_moe."});
}

void complete_mixtral(ConfigFields& fields, TransformersVersion) { fill_key_value_heads(fields); }

/// Source: transformers 5.23, configuration_mixtral.py, class MixtralConfig.
constexpr std::string_view default_config = R"({
  "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2, "head_dim": null, "hidden_act": "silu",
  "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336, "max_position_embeddings": 131072,
  "model_type": "mixtral", "num_attention_heads": 32, "num_experts_per_tok": 2, "num_hidden_layers": 32,
  "num_key_value_heads": 8, "num_local_experts": 8, "output_router_logits": false, "pad_token_id": null,
  "rms_norm_eps": 1e-05, "rope_parameters": null, "router_aux_loss_coef": 0.001, "router_jitter_noise": 0.0,
  "sliding_window": null, "tie_word_embeddings": false, "use_cache": true, "vocab_size": 32000})";

/// Source: transformers 4.57.6, the same class.
constexpr std::string_view default_config_4 = R"({
  "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2, "head_dim": null, "hidden_act": "silu",
  "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336, "max_position_embeddings": 131072,
  "model_type": "mixtral", "num_attention_heads": 32, "num_experts_per_tok": 2, "num_hidden_layers": 32,
  "num_key_value_heads": 8, "num_local_experts": 8, "output_router_logits": false, "pad_token_id": null,
  "rms_norm_eps": 1e-05, "rope_theta": 1000000.0, "router_aux_loss_coef": 0.001, "router_jitter_noise": 0.0,
  "sliding_window": null, "tie_word_embeddings": false, "use_cache": true, "vocab_size": 32000})";

}  // namespace

ModelFamily mixtral_family() {
  return {.model_type = "mixtral",
          .default_class = "MixtralForCausalLM",
          .classes = {"MixtralForCausalLM", "MixtralModel", "MixtralForSequenceClassification",
                      "MixtralForTokenClassification", "MixtralForQuestionAnswering"},
          .generating_classes = {"MixtralForCausalLM"},
          .default_config = default_config,
          .default_config_4 = default_config_4,
          .config_aliases = {{"num_experts", "num_local_experts"}},
          .aliases_from_5 = true,
          .rope = rope_keys,
          .complete = complete_mixtral,
          .build = build_mixtral};
}

}  // namespace shardscope
