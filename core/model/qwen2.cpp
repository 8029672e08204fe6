// Qwen2. Source: transformers 5.23 and 4.57.6, models/qwen2/modeling_qwen2.py and
// configuration_qwen2.py.
#include "core/model/config_rules.h"
#include "core/model/family.h"
#include "core/model/gated_decoder.h"

namespace shardscope {
namespace {

void build_qwen2(const ConfigReader& config, Model& model) {
  build_gated_decoder(config,
                      {.name = "Qwen2",
                       .qkv_bias = true,
                       .question_prefix = "transformer",
                       .why_no_decoder = why_windowed(config)},
                      model);
}

void complete_qwen2(ConfigFields& fields, TransformersVersion version) {
  fill_key_value_heads(fields);
  fill_window_layers(fields);
  if (version == TransformersVersion::v4) copy_rope_type(fields);
}

/// Source: transformers 5.23, configuration_qwen2.py, class Qwen2Config.
constexpr std::string_view default_config = R"({
  "attention_dropout": 0.0, "bos_token_id": null, "eos_token_id": null, "hidden_act": "silu", "hidden_size": 4096,
  "initializer_range": 0.02, "intermediate_size": 22016, "layer_types": null, "max_position_embeddings": 32768,
  "max_window_layers": 28, "model_type": "qwen2", "num_attention_heads": 32, "num_hidden_layers": 32,
  "num_key_value_heads": 32, "pad_token_id": null, "rms_norm_eps": 1e-06, "rope_parameters": null,
  "sliding_window": 4096, "tie_word_embeddings": false, "use_cache": true, "use_sliding_window": false,
  "vocab_size": 151936})";

/// Source: transformers 4.57.6, the same class.
constexpr std::string_view default_config_4 = R"({
  "attention_dropout": 0.0, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
  "intermediate_size": 22016, "layer_types": null, "max_position_embeddings": 32768, "max_window_layers": 28,
  "model_type": "qwen2", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32,
  "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 10000.0, "sliding_window": 4096,
  "tie_word_embeddings": false, "use_cache": true, "use_sliding_window": false, "vocab_size": 151936})";

}  // namespace

ModelFamily qwen2_family() {
  return {.model_type = "qwen2",
          .default_class = "Qwen2ForCausalLM",
          .classes = {"Qwen2ForCausalLM", "Qwen2Model", "Qwen2ForSequenceClassification",
                      "Qwen2ForTokenClassification", "Qwen2ForQuestionAnswering"},
          .generating_classes = {"Qwen2ForCausalLM"},
          .default_config = default_config,
          .default_config_4 = default_config_4,
          .rope = RopeKeys{},
          .complete = complete_qwen2,
          .build = build_qwen2};
}

}  // namespace shardscope
