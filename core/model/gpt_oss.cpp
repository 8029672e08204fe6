// gpt-oss. Source: transformers 5.24 and 4.57.6, models/gpt_oss/modeling_gpt_oss.py and
// configuration_gpt_oss.py.
#include <string>

#include "core/model/config_rules.h"
#include "core/model/family.h"
#include "core/model/gated_decoder.h"
#include "core/model/modules.h"
#include "core/model/packed_experts.h"

namespace shardscope {
namespace {

constexpr RopeKeys rope_keys{.default_theta = "150000.0"};

/// A router with a bias, and experts whose weights lie as [E, in, out] with biases of their own.
void build_experts(const ConfigReader& config, const std::string& layer, const FeedForward& shape,
                   Model& model) {
  const std::int64_t experts = read_local_experts(config);
  const Initialization drawn{.standard_deviation = shape.standard_deviation};
  const Initialization zeros{.kind = Initialization::Kind::zeros};
  const std::string mlp = layer + ".mlp";
  add_module(model, mlp, "GptOssMLP");
  add_router(model, mlp + ".router", {"GptOssTopKRouter", experts}, shape);
  add_parameter(model, mlp + ".router.bias", {experts}, drawn);
  const std::string stack = mlp + ".experts";
  add_module(model, stack, "GptOssExperts");
  add_parameter(model, stack + ".gate_up_proj", {experts, shape.width, 2 * shape.inner}, drawn);
  add_parameter(model, stack + ".gate_up_proj_bias", {experts, 2 * shape.inner}, zeros);
  add_parameter(model, stack + ".down_proj", {experts, shape.inner, shape.width}, drawn);
  add_parameter(model, stack + ".down_proj_bias", {experts, shape.width}, zeros);
}

void build_gpt_oss(const ConfigReader& config, Model& model) {
  const bool bias = model.transformers == TransformersVersion::v4 || config.flag("attention_bias");
  build_gated_decoder(config,
                      {.name = "GptOss",
                       .rope = rope_keys,
                       .qkv_bias = bias,
                       .out_bias = bias,
                       .attention_sinks = true,
                       .feed_forward = build_experts,
                       .why_no_decoder = "mixture of experts, attention with sinks"},
                      model);
}

void complete_gpt_oss(ConfigFields& fields, TransformersVersion version) {
  fill_key_value_heads(fields);
  fill_head_dim(fields);
  fill_alternating_layers(fields);
  if (version == TransformersVersion::v4) copy_rope_type(fields);
}

/// Source: transformers 5.24, configuration_gpt_oss.py, class GptOssConfig.
constexpr std::string_view default_config = R"({
  "attention_bias": true, "attention_dropout": 0.0, "bos_token_id": null, "eos_token_id": null, "head_dim": 64,
  "hidden_act": "silu", "hidden_size": 2880, "initializer_range": 0.02, "intermediate_size": 2880,
  "layer_types": null, "max_position_embeddings": 131072, "model_type": "gpt_oss", "num_attention_heads": 64,
  "num_experts_per_tok": 4, "num_hidden_layers": 36, "num_key_value_heads": 8, "num_local_experts": 128,
  "output_router_logits": false, "pad_token_id": null, "rms_norm_eps": 1e-05, "rope_parameters": {
  "beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0, "original_max_position_embeddings": 4096,
  "rope_type": "yarn", "truncate": false}, "router_aux_loss_coef": 0.001, "sliding_window": 128,
  "swiglu_alpha": 1.702, "swiglu_limit": 7.0, "tie_word_embeddings": false, "use_cache": true,
  "vocab_size": 201088})";

/// Source: transformers 4.57.6, the same class.
constexpr std::string_view default_config_4 = R"({
  "attention_dropout": 0.0, "head_dim": 64, "hidden_act": "silu", "hidden_size": 2880, "initializer_range": 0.02,
  "intermediate_size": 2880, "layer_types": null, "max_position_embeddings": 131072, "model_type": "gpt_oss",
  "num_attention_heads": 64, "num_experts_per_tok": 4, "num_hidden_layers": 36, "num_key_value_heads": 8,
  "num_local_experts": 128, "output_router_logits": false, "rms_norm_eps": 1e-05, "rope_scaling": {
  "beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0, "original_max_position_embeddings": 4096,
  "rope_type": "yarn", "truncate": false}, "rope_theta": 150000.0, "router_aux_loss_coef": 0.9,
  "sliding_window": 128, "tie_word_embeddings": false, "use_cache": true, "vocab_size": 201088})";

}  // namespace

ModelFamily gpt_oss_family() {
  return {.model_type = "gpt_oss",
          .default_class = "GptOssForCausalLM",
          .classes = {"GptOssForCausalLM", "GptOssModel", "GptOssForSequenceClassification",
                      "GptOssForTokenClassification"},
          .generating_classes = {"GptOssForCausalLM"},
          .default_config = default_config,
          .default_config_4 = default_config_4,
          .config_aliases = {{"num_experts", "num_local_experts"}},
          .aliases_from_5 = true,
          .has_sdpa = false,
          .has_sdpa_4 = false,
          .rope = rope_keys,
          .complete = complete_gpt_oss,
          .build = build_gpt_oss};
}

}  // namespace shardscope
