// Command R. Source: transformers 5.24, models/cohere/modeling_cohere.py and
// configuration_cohere.py.
#include "core/model/config_rules.h"
#include "core/model/family.h"
#include "core/model/gated_decoder.h"
#include "core/model/modules.h"

namespace shardscope {
namespace {

constexpr RopeKeys rope_keys{.default_theta = "500000.0"};

/// Norms of query and key, where there are any, have a weight for each head of its own.
void build_attention(const ConfigReader& config, const std::string& name,
                     const AttentionParts& shape, Model& model) {
  const bool bias = config.flag("attention_bias");
  const std::int64_t head = config.optional_size("head_dim").value_or(shape.width / shape.heads);
  const std::int64_t pairs = config.optional_size("num_key_value_heads").value_or(shape.heads);
  const auto linear = [&](const char* part, std::int64_t in, std::int64_t out) {
    add_linear(model, name + part, {.in = in, .out = out, .bias = bias}, shape.standard_deviation);
  };
  linear(".q_proj", shape.width, shape.heads * head);
  linear(".k_proj", shape.width, pairs * head);
  linear(".v_proj", shape.width, pairs * head);
  linear(".o_proj", shape.heads * head, shape.width);
  if (!config.flag("use_qk_norm")) return;
  const auto norm = [&](const char* part, std::int64_t heads) {
    add_module(model, name + part, "CohereLayerNorm");
    add_parameter(model, name + part + ".weight", {heads, head},
                  {.kind = Initialization::Kind::ones});
  };
  norm(".q_norm", shape.heads);
  norm(".k_norm", pairs);
}

void build_cohere(const ConfigReader& config, Model& model) {
  build_gated_decoder(config,
                      {.name = "Cohere",
                       .rope = rope_keys,
                       .norm_class = "LayerNorm",
                       .epsilon_key = "layer_norm_eps",
                       .norms = {"input_layernorm"},
                       .attention = build_attention,
                       .why_no_decoder = "attention beside the feed-forward part"},
                      model);
}

void complete_cohere(ConfigFields& fields, TransformersVersion) { fill_key_value_heads(fields); }

/// Source: transformers 5.24, configuration_cohere.py, class CohereConfig.
constexpr std::string_view default_config = R"({
  "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 5, "eos_token_id": 255001,
  "hidden_act": "silu", "hidden_size": 8192, "initializer_range": 0.02, "intermediate_size": 22528,
  "layer_norm_eps": 1e-05, "logit_scale": 0.0625, "max_position_embeddings": 8192, "model_type": "cohere",
  "num_attention_heads": 64, "num_hidden_layers": 40, "num_key_value_heads": null, "pad_token_id": 0,
  "rope_parameters": null, "tie_word_embeddings": true, "use_cache": true, "use_qk_norm": false,
  "vocab_size": 256000})";

}  // namespace

ModelFamily cohere_family() {
  return {.model_type = "cohere",
          .default_class = "CohereForCausalLM",
          .classes = {"CohereForCausalLM", "CohereModel"},
          .generating_classes = {"CohereForCausalLM"},
          .default_config = default_config,
          .rope = rope_keys,
          .complete = complete_cohere,
          .build = build_cohere};
}

}  // namespace shardscope
