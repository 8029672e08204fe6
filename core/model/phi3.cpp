// Phi-3. Source: transformers 5.23 and 4.57.6, models/phi3/modeling_phi3.py and
// configuration_phi3.py.
#include "core/model/config_rules.h"
#include "core/model/family.h"
#include "core/model/gated_decoder.h"

namespace shardscope {
namespace {

constexpr RopeKeys rope_keys{.default_partial = "1.0",
                             .keeps_partial = true,
                             .default_is_partial = true,
                             .only_longrope = true};

void build_phi3(const ConfigReader& config, Model& model) {
  build_gated_decoder(config,
                      {.name = "Phi3",
                       .rope = rope_keys,
                       .packed_attention = true,
                       .packed_feed_forward = true,
                       .dropouts = {"resid_attn_dropout", "resid_mlp_dropout"},
                       .why_no_decoder = "packed projections (qkv_proj, gate_up_proj)"},
                      model);
}

void complete_phi3(ConfigFields& fields, TransformersVersion version) {
  fill_key_value_heads(fields);
  if (version == TransformersVersion::v4) rename_to_longrope(fields);
}

/// Source: transformers 5.23, configuration_phi3.py, class Phi3Config.
constexpr std::string_view default_config = R"({
  "attention_dropout": 0.0, "bos_token_id": 1, "embd_pdrop": 0.0, "eos_token_id": 32000, "hidden_act": "silu",
  "hidden_size": 3072, "initializer_range": 0.02, "intermediate_size": 8192, "max_position_embeddings": 4096,
  "model_type": "phi3", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": null,
  "original_max_position_embeddings": 4096, "pad_token_id": 32000, "resid_pdrop": 0.0, "rms_norm_eps": 1e-05,
  "rope_parameters": null, "sliding_window": null, "tie_word_embeddings": false, "use_cache": true,
  "vocab_size": 32064})";

/// Source: transformers 4.57.6, the same class.
constexpr std::string_view default_config_4 = R"({
  "attention_dropout": 0.0, "bos_token_id": 1, "embd_pdrop": 0.0, "eos_token_id": 32000, "hidden_act": "silu",
  "hidden_size": 3072, "initializer_range": 0.02, "intermediate_size": 8192, "max_position_embeddings": 4096,
  "model_type": "phi3", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": null,
  "original_max_position_embeddings": 4096, "pad_token_id": 32000, "partial_rotary_factor": 1.0, "resid_pdrop": 0.0,
  "rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 10000.0, "sliding_window": null,
  "tie_word_embeddings": false, "use_cache": true, "vocab_size": 32064})";

}  // namespace

ModelFamily phi3_family() {
  return {.model_type = "phi3",
          .default_class = "Phi3ForCausalLM",
          .classes = {"Phi3ForCausalLM", "Phi3Model", "Phi3ForSequenceClassification",
                      "Phi3ForTokenClassification"},
          .generating_classes = {"Phi3ForCausalLM"},
          .default_config = default_config,
          .default_config_4 = default_config_4,
          .rope = rope_keys,
          .complete = complete_phi3,
          .build = build_phi3};
}

}  // namespace shardscope
