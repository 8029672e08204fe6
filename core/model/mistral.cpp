// Mistral. Source: transformers 5.23 and 4.57.6, models/mistral/modeling_mistral.py and
// configuration_mistral.py.
#include <fmt/format.h>

#include "core/model/config_rules.h"
#include "core/model/family.h"
#include "core/model/gated_decoder.h"

namespace shardscope {
namespace {

void build_mistral(const ConfigReader& config, Model& model) {
  const bool older = model.transformers == TransformersVersion::v4;
  GatedDecoder mistral{.name = "Mistral",
                       .rope = {.null_head_dim = older},
                       .question_prefix = "model",
                       .needs_kv_heads = !older};
  if (const auto window = config.find("sliding_window"))
    mistral.why_no_decoder = fmt::format("sliding window, {} tokens", window->dump());
  build_gated_decoder(config, mistral, model);
}

void complete_mistral(ConfigFields& fields, TransformersVersion version) {
  if (version == TransformersVersion::v5) fill_head_dim(fields);
  fill_key_value_heads(fields);
}

/// Source: transformers 5.23, configuration_mistral.py, class MistralConfig.
constexpr std::string_view default_config = R"({
  "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2, "head_dim": null, "hidden_act": "silu",
  "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336, "max_position_embeddings": 131072,
  "model_type": "mistral", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
  "pad_token_id": null, "rms_norm_eps": 1e-06, "rope_parameters": null, "sliding_window": 4096,
  "tie_word_embeddings": false, "use_cache": true, "vocab_size": 32000})";

/// Source: transformers 4.57.6, the same class.
constexpr std::string_view default_config_4 = R"({
  "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2, "head_dim": null, "hidden_act": "silu",
  "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336, "max_position_embeddings": 131072,
  "model_type": "mistral", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
  "pad_token_id": null, "rms_norm_eps": 1e-06, "rope_theta": 10000.0, "sliding_window": 4096,
  "tie_word_embeddings": false, "use_cache": true, "vocab_size": 32000})";

}  // namespace

ModelFamily mistral_family() {
  return {.model_type = "mistral",
          .default_class = "MistralForCausalLM",
          .classes = {"MistralForCausalLM", "MistralModel", "MistralForSequenceClassification",
                      "MistralForTokenClassification", "MistralForQuestionAnswering"},
          .generating_classes = {"MistralForCausalLM"},
          .default_config = default_config,
          .default_config_4 = default_config_4,
          .rope = RopeKeys{},
          .complete = complete_mistral,
          .build = build_mistral};
}

}  // namespace shardscope
