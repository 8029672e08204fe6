// SmolLM3. Source: transformers 5.24 and 4.57.6, models/smollm3/modeling_smollm3.py and
// configuration_smollm3.py.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/model/config_rules.h"
#include "core/model/family.h"
#include "core/model/gated_decoder.h"

namespace shardscope {
namespace {

constexpr std::int64_t most_layers = 4096, usual_interval = 4;

bool turns_in_all_layers(const ConfigReader& config) {
  const auto turned = config.find("no_rope_layers");
  if (!turned)
    return config.layers({"num_hidden_layers"}) <
           config.optional_size("no_rope_layer_interval").value_or(usual_interval);
  const auto layers = turned->elements();
  if (const std::int64_t expected = config.layers({"num_hidden_layers"});
      static_cast<std::int64_t>(layers.size()) < expected)
    throw turned->error(
        fmt::format("has {} entries, num_hidden_layers is {}", layers.size(), expected));
  return std::all_of(layers.begin(), layers.end(),
                     [](const JsonValue& layer) { return layer.integer() != 0; });
}

std::string why_sliding(const ConfigReader& config) {
  return config.flag("use_sliding_window") && config.find("sliding_window") ? "sliding window"
                                                                            : std::string();
}

void build_smollm3(const ConfigReader& config, Model& model) {
  const bool bias = config.flag("attention_bias");
  build_gated_decoder(
      config,
      {.name = "SmolLM3",
       .qkv_bias = bias,
       .out_bias = bias,
       .mlp_bias = config.flag("mlp_bias"),
       .question_prefix = "transformer",
       .why_no_decoder =
           turns_in_all_layers(config) ? why_sliding(config) : "layers without rotary embedding"},
      model);
}

/// no_rope_layers, in spite of its name, is 1 for a layer with rotary embedding.
void fill_no_rope_layers(ConfigFields& fields) {
  if (!fields.is_null("no_rope_layers")) return;
  const std::int64_t interval = fields.integer("no_rope_layer_interval", 1);
  nlohmann::json turned = nlohmann::json::array();
  const std::int64_t layers = fields.integer("num_hidden_layers", 0, most_layers);
  for (std::int64_t layer = 0; layer < layers; ++layer)
    turned.push_back((layer + 1) % interval != 0 ? 1 : 0);
  fields.set("no_rope_layers", turned.dump());
}

/// Where the window is used, layers without rotary embedding slide.
void fill_smollm3_layer_types(ConfigFields& fields) {
  const bool windowed = fields.is_true("use_sliding_window") && !fields.is_null("sliding_window");
  const nlohmann::json turned = nlohmann::json::parse(fields.text("no_rope_layers"));
  fill_layer_types(fields, [&](std::int64_t layer) {
    const auto at = static_cast<std::size_t>(layer);
    return windowed && at < turned.size() && turned[at] == 0;
  });
}

void complete_smollm3(ConfigFields& fields, TransformersVersion version) {
  fill_key_value_heads(fields);
  fill_no_rope_layers(fields);
  fill_smollm3_layer_types(fields);
  if (version == TransformersVersion::v4) copy_rope_type(fields);
}

/// Source: transformers 5.24, configuration_smollm3.py, class SmolLM3Config.
constexpr std::string_view default_config = R"({
  "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 128000, "eos_token_id": 128001,
  "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 11008,
  "layer_types": null, "max_position_embeddings": 32768, "mlp_bias": false, "model_type": "smollm3",
  "no_rope_layer_interval": 4, "no_rope_layers": null, "num_attention_heads": 16, "num_hidden_layers": 36,
  "num_key_value_heads": 4, "pad_token_id": 128004, "rms_norm_eps": 1e-06, "rope_parameters": null,
  "sliding_window": null, "tie_word_embeddings": true, "use_cache": true, "use_sliding_window": false,
  "vocab_size": 128256})";

/// Source: transformers 4.57.6, the same class.
constexpr std::string_view default_config_4 = R"({
  "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 128000, "eos_token_id": 128001,
  "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 11008,
  "layer_types": null, "max_position_embeddings": 32768, "mlp_bias": false, "model_type": "smollm3",
  "no_rope_layer_interval": 4, "no_rope_layers": null, "num_attention_heads": 16, "num_hidden_layers": 36,
  "num_key_value_heads": 4, "pad_token_id": 128004, "rms_norm_eps": 1e-06, "rope_scaling": null,
  "rope_theta": 2000000.0, "sliding_window": null, "tie_word_embeddings": true, "use_cache": true,
  "use_sliding_window": false, "vocab_size": 128256})";

}  // namespace

ModelFamily smollm3_family() {
  return {.model_type = "smollm3",
          .default_class = "SmolLM3ForCausalLM",
          .classes = {"SmolLM3ForCausalLM", "SmolLM3Model", "SmolLM3ForSequenceClassification",
                      "SmolLM3ForTokenClassification", "SmolLM3ForQuestionAnswering"},
          .generating_classes = {"SmolLM3ForCausalLM"},
          .default_config = default_config,
          .default_config_4 = default_config_4,
          .rope = RopeKeys{.default_theta = "2000000.0"},
          .complete = complete_smollm3,
          .build = build_smollm3};
}

}  // namespace shardscope
