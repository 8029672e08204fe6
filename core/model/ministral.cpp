// Ministral. Source: transformers 5.24, models/ministral/modeling_ministral.py and
// configuration_ministral.py.
#include <fmt/format.h>

#include "core/model/config_rules.h"
#include "core/model/family.h"
#include "core/model/gated_decoder.h"

namespace shardscope {
namespace {

void build_ministral(const ConfigReader& config, Model& model) {
  const auto window = config.find("sliding_window");
  build_gated_decoder(
      config,
      {.name = "Ministral",
       .why_no_decoder =
           window ? fmt::format("sliding window, {} tokens", window->dump()) : std::string()},
      model);
}

void complete_ministral(ConfigFields& fields, TransformersVersion) {
  fill_key_value_heads(fields);
  const bool slides = !fields.is_null("sliding_window");
  fill_layer_types(fields, [&](std::int64_t) { return slides; });
}

/// Source: transformers 5.24, configuration_ministral.py, class MinistralConfig.
constexpr std::string_view default_config = R"({
  "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2, "head_dim": null, "hidden_act": "silu",
  "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336, "layer_types": null,
  "max_position_embeddings": 131072, "model_type": "ministral", "num_attention_heads": 32,
  "num_hidden_layers": 32, "num_key_value_heads": 8, "pad_token_id": null, "rms_norm_eps": 1e-06,
  "rope_parameters": null, "sliding_window": 4096, "tie_word_embeddings": false, "use_cache": true,
  "vocab_size": 32000})";

}  // namespace

ModelFamily ministral_family() {
  return {.model_type = "ministral",
          .default_class = "MinistralForCausalLM",
          .classes = {"MinistralForCausalLM", "MinistralModel",
                      "MinistralForSequenceClassification", "MinistralForTokenClassification"},
          .generating_classes = {"MinistralForCausalLM"},
          .default_config = default_config,
          .rope = RopeKeys{},
          .complete = complete_ministral,
          .build = build_ministral};
}

}  // namespace shardscope
