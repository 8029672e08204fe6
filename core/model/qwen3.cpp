// Qwen3. Source: transformers 5.23 and 4.57.6, models/qwen3/modeling_qwen3.py and
// configuration_qwen3.py.
#include "core/model/config_rules.h"
#include "core/model/family.h"
#include "core/model/gated_decoder.h"

namespace shardscope {
namespace {

void build_qwen3(const ConfigReader& config, Model& model) {
  const bool bias = config.flag("attention_bias");
  build_gated_decoder(config,
                      {.name = "Qwen3",
                       .qkv_bias = bias,
                       .out_bias = bias,
                       .query_key_norms = QueryKeyNorms::each_head,
                       .question_prefix = "transformer",
                       .why_no_decoder = "norms of query and key"},
                      model);
}

void complete_qwen3(ConfigFields& fields, TransformersVersion version) {
  fill_key_value_heads(fields);
  fill_window_layers(fields);
  if (version == TransformersVersion::v4) copy_rope_type(fields);
}

/// Source: transformers 5.23, configuration_qwen3.py, class Qwen3Config.
constexpr std::string_view default_config = R"({
  "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": null, "eos_token_id": null, "head_dim": 128,
  "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 22016,
  "layer_types": null, "max_position_embeddings": 32768, "max_window_layers": 28, "model_type": "qwen3",
  "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32, "pad_token_id": null,
  "rms_norm_eps": 1e-06, "rope_parameters": null, "sliding_window": 4096, "tie_word_embeddings": false,
  "use_cache": true, "use_sliding_window": false, "vocab_size": 151936})";

/// Source: transformers 4.57.6, the same class.
constexpr std::string_view default_config_4 = R"({
  "attention_bias": false, "attention_dropout": 0.0, "head_dim": 128, "hidden_act": "silu", "hidden_size": 4096,
  "initializer_range": 0.02, "intermediate_size": 22016, "layer_types": null, "max_position_embeddings": 32768,
  "max_window_layers": 28, "model_type": "qwen3", "num_attention_heads": 32, "num_hidden_layers": 32,
  "num_key_value_heads": 32, "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 10000.0,
  "sliding_window": 4096, "tie_word_embeddings": false, "use_cache": true, "use_sliding_window": false,
  "vocab_size": 151936})";

}  // namespace

ModelFamily qwen3_family() {
  return {.model_type = "qwen3",
          .default_class = "Qwen3ForCausalLM",
          .classes = {"Qwen3ForCausalLM", "Qwen3Model", "Qwen3ForSequenceClassification",
                      "Qwen3ForTokenClassification", "Qwen3ForQuestionAnswering"},
          .generating_classes = {"Qwen3ForCausalLM"},
          .default_config = default_config,
          .default_config_4 = default_config_4,
          .rope = RopeKeys{},
          .complete = complete_qwen3,
          .build = build_qwen3};
}

}  // namespace shardscope
