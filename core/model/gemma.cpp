// Gemma. Source: transformers 5.24 and 4.57.6, models/gemma/modeling_gemma.py and
// configuration_gemma.py.
#include "core/model/config_rules.h"
#include "core/model/family.h"
#include "core/model/gated_decoder.h"

namespace shardscope {
namespace {

void build_gemma(const ConfigReader& config, Model& model) {
  const bool bias = config.flag("attention_bias");
  const bool scales = model.transformers == TransformersVersion::v5;
  GatedDecoder gemma{.name = "Gemma",
                     .qkv_bias = bias,
                     .out_bias = bias,
                     .needs_kv_heads = true,
                     .why_no_decoder = "scaled embedding, norms by 1 + weight"};
  // The first release's configs say gelu and mean its approximation.
  if (scales && config.text("hidden_act") == "gelu") gemma.activation = "gelu_pytorch_tanh";
  if (scales) gemma.embedding_class = "GemmaTextScaledWordEmbedding";
  build_gated_decoder(config, gemma, model);
  if (scales) add_embedding_scale(model);
}

void complete_gemma(ConfigFields& fields, TransformersVersion version) {
  if (version == TransformersVersion::v5 && fields.text("hidden_act") == R"("gelu")")
    fields.set("hidden_act", R"("gelu_pytorch_tanh")");
}

/// Source: transformers 5.24, configuration_gemma.py, class GemmaConfig.
constexpr std::string_view default_config = R"({
  "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 2, "eos_token_id": 1, "head_dim": 256,
  "hidden_act": "gelu_pytorch_tanh", "hidden_size": 3072, "initializer_range": 0.02, "intermediate_size": 24576,
  "max_position_embeddings": 8192, "model_type": "gemma", "num_attention_heads": 16, "num_hidden_layers": 28,
  "num_key_value_heads": 16, "pad_token_id": 0, "rms_norm_eps": 1e-06, "rope_parameters": null,
  "tie_word_embeddings": true, "use_bidirectional_attention": null, "use_cache": true, "vocab_size": 256000})";

/// Source: transformers 4.57.6, the same class.
constexpr std::string_view default_config_4 = R"({
  "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 2, "eos_token_id": 1, "head_dim": 256,
  "hidden_act": "gelu_pytorch_tanh", "hidden_activation": null, "hidden_size": 3072, "initializer_range": 0.02,
  "intermediate_size": 24576, "max_position_embeddings": 8192, "model_type": "gemma", "num_attention_heads": 16,
  "num_hidden_layers": 28, "num_key_value_heads": 16, "pad_token_id": 0, "rms_norm_eps": 1e-06,
  "rope_theta": 10000.0, "tie_word_embeddings": true, "use_cache": true, "vocab_size": 256000})";

}  // namespace

ModelFamily gemma_family() {
  return {.model_type = "gemma",
          .default_class = "GemmaForCausalLM",
          .classes = {"GemmaForCausalLM", "GemmaModel", "GemmaForSequenceClassification",
                      "GemmaForTokenClassification"},
          .generating_classes = {"GemmaForCausalLM"},
          .default_config = default_config,
          .default_config_4 = default_config_4,
          .rope = RopeKeys{},
          .complete = complete_gemma,
          .build = build_gemma};
}

}  // namespace shardscope
