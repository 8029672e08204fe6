// BLOOM. Source: transformers 5.23 and 4.57.6, models/bloom/modeling_bloom.py and
// configuration_bloom.py.
#include <fmt/format.h>

#include <algorithm>

#include "core/model/family.h"
#include "core/model/modules.h"

namespace shardscope {
namespace {

struct BloomConfig {
  std::int64_t vocabulary, width, layers;
  double epsilon, deviation;
  bool tied;
};

BloomConfig read_config(const ConfigReader& config) {
  BloomConfig c{};
  c.vocabulary = config.size({"vocab_size"});
  c.width = config.size({config.find("n_embed") ? "n_embed" : "hidden_size"});
  c.layers = config.layers({"n_layer", "num_hidden_layers"});
  const std::int64_t heads = config.size({"n_head", "num_attention_heads"});
  c.epsilon = config.positive("layer_norm_epsilon");
  c.deviation = config.probability("initializer_range");
  c.tied = config.flag("tie_word_embeddings");
  if (c.width % heads != 0)
    throw config.error("hidden_size", fmt::format("hidden_size {} is not a multiple of n_head {}",
                                                  c.width, heads));
  return c;
}

class BloomBuilder {
 public:
  BloomBuilder(const BloomConfig& config, Model& model) : c_(config), model_(model) {}

  void build_base(const std::string& prefix) {
    if (!prefix.empty()) add_module(model_, prefix, "BloomModel");
    word_embedding_ = joined(prefix, "word_embeddings");
    add_embedding(model_, word_embedding_, {c_.vocabulary, c_.width}, c_.deviation);
    norm(joined(prefix, "word_embeddings_layernorm"));
    const std::string blocks = joined(prefix, "h");
    add_module(model_, blocks, "ModuleList");
    for (std::int64_t layer = 0; layer < c_.layers; ++layer)
      build_block(fmt::format("{}.{}", blocks, layer));
    norm(joined(prefix, "ln_f"));
  }

  void build_language_head() {
    if (!c_.tied) return linear("lm_head", c_.width, c_.vocabulary, false);
    add_module(model_, "lm_head", "Linear");
    add_tied(model_, "lm_head.weight", word_embedding_ + ".weight");
  }

  void build_head(const std::string& name, std::int64_t labels, bool bias) {
    linear(name, c_.width, labels, bias);
  }

 private:
  void norm(const std::string& name) {
    add_norm(model_, name, {.width = c_.width, .epsilon = c_.epsilon});
  }

  void linear(const std::string& name, std::int64_t in, std::int64_t out, bool bias = true) {
    add_linear(model_, name, {.in = in, .out = out, .bias = bias}, c_.deviation);
  }

  void build_block(const std::string& name) {
    add_module(model_, name, "BloomBlock");
    norm(name + ".input_layernorm");
    const std::string attention = name + ".self_attention";
    add_module(model_, attention, "BloomAttention");
    linear(attention + ".query_key_value", c_.width, 3 * c_.width);
    linear(attention + ".dense", c_.width, c_.width);
    add_module(model_, attention + ".attention_dropout", "Dropout");
    norm(name + ".post_attention_layernorm");
    const std::string mlp = name + ".mlp";
    add_module(model_, mlp, "BloomMLP");
    linear(mlp + ".dense_h_to_4h", c_.width, 4 * c_.width);
    add_module(model_, mlp + ".gelu_impl", "BloomGelu");
    linear(mlp + ".dense_4h_to_h", 4 * c_.width, c_.width);
  }

  const BloomConfig& c_;
  Model& model_;
  std::string word_embedding_;
};

void build_bloom(const ConfigReader& config, Model& model) {
  const BloomConfig bloom = read_config(config);
  model.base_model_prefix = "transformer";
  model.no_split_classes = model.no_split_classes_of_class = {"BloomBlock"};
  model.dropout =
      std::max(config.probability("hidden_dropout"), config.probability("attention_dropout"));
  model.why_no_decoder = "model_type bloom: alibi positions, a norm after the embedding";
  add_module(model, "", model.class_name);
  BloomBuilder builder(bloom, model);
  builder.build_base(model.class_name == "BloomModel" ? "" : "transformer");
  if (model.class_name == "BloomForCausalLM") builder.build_language_head();
  if (model.class_name == "BloomForSequenceClassification")
    builder.build_head("score", config.labels(), false);
  if (model.class_name == "BloomForQuestionAnswering") builder.build_head("qa_outputs", 2, true);
  if (model.class_name == "BloomForTokenClassification") {
    add_module(model, "dropout", "Dropout");
    builder.build_head("classifier", config.labels(), true);
  }
}

/// An old name of hidden_size, which wins.
void complete_bloom(ConfigFields& fields, TransformersVersion) {
  if (!fields.is_null("n_embed")) fields.set("hidden_size", fields.text("n_embed"));
  fields.erase("n_embed");
}

/// Source: transformers 5.23, configuration_bloom.py, class BloomConfig.
constexpr std::string_view default_config = R"({
  "apply_residual_connection_post_layernorm": false, "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2,
  "hidden_dropout": 0.0, "hidden_size": 64, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05,
  "model_type": "bloom", "n_embed": null, "n_head": 8, "n_layer": 2, "pad_token_id": null, "pretraining_tp": 1, "slow_but_exact": false,
  "tie_word_embeddings": true, "use_cache": true, "vocab_size": 250880})";

/// Source: transformers 4.57.6, the same class.
constexpr std::string_view default_config_4 = R"({
  "apply_residual_connection_post_layernorm": false, "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2,
  "hidden_dropout": 0.0, "hidden_size": 64, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05,
  "model_type": "bloom", "n_embed": null, "n_head": 8, "n_layer": 2, "pretraining_tp": 1, "slow_but_exact": false, "use_cache": true,
  "vocab_size": 250880})";

}  // namespace

ModelFamily bloom_family() {
  return {.model_type = "bloom",
          .default_class = "BloomForCausalLM",
          .classes = {"BloomForCausalLM", "BloomModel", "BloomForSequenceClassification",
                      "BloomForTokenClassification", "BloomForQuestionAnswering"},
          .generating_classes = {"BloomForCausalLM"},
          .default_config = default_config,
          .default_config_4 = default_config_4,
          .config_aliases = {{"num_hidden_layers", "n_layer"}, {"num_attention_heads", "n_head"}},
          .has_sdpa = false,
          .has_sdpa_4 = false,
          .complete = complete_bloom,
          .build = build_bloom};
}

}  // namespace shardscope
