// Ministral 3. Source: transformers 5.24, models/ministral3/modeling_ministral3.py and
// configuration_ministral3.py.
#include <nlohmann/json.hpp>

#include "core/model/config_rules.h"
#include "core/model/family.h"
#include "core/model/gated_decoder.h"

namespace shardscope {
namespace {

void build_ministral3(const ConfigReader& config, Model& model) {
  build_gated_decoder(config,
                      {.name = "Ministral3",
                       .needs_kv_heads = true,
                       .why_no_decoder = "queries that are multiplied by their positions"},
                      model);
}

void complete_ministral3(ConfigFields& fields, TransformersVersion) {
  fill_head_dim(fields);
  fill_key_value_heads(fields);
}

/// What the class fills in where no rotary parameters are given has the model's length in it.
void construct_ministral3(ConfigFields& fields, const Model&) {
  nlohmann::json rope = nlohmann::json::parse(fields.text("rope_parameters"));
  if (!rope.contains("llama_4_scaling_beta")) return;
  const auto length = nlohmann::json::parse(fields.text("max_position_embeddings"));
  if (!rope.contains("max_position_embeddings")) rope["max_position_embeddings"] = length;
  fields.set("rope_parameters", rope.dump());
}

/// Source: transformers 5.24, configuration_ministral3.py, class Ministral3Config.
constexpr std::string_view default_config = R"({
  "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2, "head_dim": 128, "hidden_act": "silu",
  "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336, "max_position_embeddings": 262144,
  "model_type": "ministral3", "num_attention_heads": 32, "num_hidden_layers": 34, "num_key_value_heads": 8,
  "pad_token_id": 11, "rms_norm_eps": 1e-05, "rope_parameters": {"beta_fast": 32.0, "beta_slow": 1.0,
  "factor": 16.0, "llama_4_scaling_beta": 0.1, "mscale": 1.0, "mscale_all_dim": 1.0,
  "original_max_position_embeddings": 16384, "rope_theta": 1000000.0, "rope_type": "yarn", "type": "yarn"}, "sliding_window": null,
  "tie_word_embeddings": false, "use_cache": true, "vocab_size": 131072})";

}  // namespace

ModelFamily ministral3_family() {
  return {.model_type = "ministral3",
          .default_class = "Ministral3ForCausalLM",
          .classes = {"Ministral3ForCausalLM", "Ministral3Model",
                      "Ministral3ForSequenceClassification", "Ministral3ForTokenClassification"},
          .generating_classes = {"Ministral3ForCausalLM"},
          .default_config = default_config,
          .rope = RopeKeys{},
          .complete = complete_ministral3,
          .construct = construct_ministral3,
          .build = build_ministral3};
}

}  // namespace shardscope
