// GPT-NeoX (Pythia). Source: transformers 5.23 and 4.57.6, models/gpt_neox/modeling_gpt_neox.py and
// configuration_gpt_neox.py; conversion_mapping.py for the name of the head in files.
#include <fmt/format.h>

#include <string>

#include "core/model/activations.h"
#include "core/model/config_rules.h"
#include "core/model/family.h"
#include "core/model/heads.h"
#include "core/model/modules.h"
#include "core/model/natural_order.h"

namespace shardscope {
namespace {

constexpr RopeKeys rope_keys{.theta = "rotary_emb_base",
                             .partial = "rotary_pct",
                             .default_partial = "0.25",
                             .default_is_partial = true};

struct NeoxConfig {
  std::int64_t vocabulary, width, inner, layers;
  std::string activation;
  double epsilon, deviation;
  bool attention_bias, tied;
  RopeParameters rope;
};

NeoxConfig read_config(const ConfigReader& config) {
  NeoxConfig c{};
  c.vocabulary = config.size({"vocab_size"});
  c.width = config.size({"hidden_size"});
  c.inner = config.size({"intermediate_size"});
  c.layers = config.layers({"num_hidden_layers"});
  const std::int64_t heads = config.size({"num_attention_heads"});
  if (c.width % heads != 0)
    throw config.error(
        "hidden_size",
        fmt::format("hidden_size {} is not a multiple of num_attention_heads {}", c.width, heads));
  c.activation = read_activation(config, "hidden_act");
  c.epsilon = config.positive("layer_norm_eps");
  c.deviation = config.deviation("initializer_range");
  c.attention_bias = config.flag("attention_bias");
  c.tied = config.flag("tie_word_embeddings");
  c.rope = read_rope_parameters(config, rope_keys,
                                config.optional_size("head_dim").value_or(c.width / heads),
                                config.size({"max_position_embeddings"}));
  return c;
}

class NeoxBuilder {
 public:
  NeoxBuilder(const NeoxConfig& config, Model& model) : c_(config), model_(model) {}

  /// The token embedding.
  ParameterId build_base(const std::string& prefix) {
    const auto at = [&](std::string_view name) { return joined(prefix, name); };
    if (!prefix.empty()) add_module(model_, prefix, "GPTNeoXModel");
    const ParameterId embedding =
        add_embedding(model_, at("embed_in"), {c_.vocabulary, c_.width}, c_.deviation);
    add_module(model_, at("emb_dropout"), "Dropout");
    add_module(model_, at("layers"), "ModuleList");
    for (std::int64_t layer = 0; layer < c_.layers; ++layer)
      build_layer(at(fmt::format("layers.{}", layer)));
    norm(at("final_layer_norm"));
    add_module(model_, at("rotary_emb"), "GPTNeoXRotaryEmbedding");
    add_rotary_buffers(model_, at("rotary_emb"), c_.rope.frequencies);
    return embedding;
  }

 private:
  void norm(const std::string& name) {
    add_norm(model_, name, {.width = c_.width, .epsilon = c_.epsilon});
  }

  void linear(const std::string& name, std::int64_t in, std::int64_t out, bool bias) {
    add_linear(model_, name, {.in = in, .out = out, .bias = bias}, c_.deviation);
  }

  void build_layer(const std::string& name) {
    add_module(model_, name, "GPTNeoXLayer");
    norm(name + ".input_layernorm");
    norm(name + ".post_attention_layernorm");
    add_module(model_, name + ".post_attention_dropout", "Dropout");
    add_module(model_, name + ".post_mlp_dropout", "Dropout");
    add_module(model_, name + ".attention", "GPTNeoXAttention");
    linear(name + ".attention.query_key_value", c_.width, 3 * c_.width, c_.attention_bias);
    linear(name + ".attention.dense", c_.width, c_.width, c_.attention_bias);
    add_module(model_, name + ".mlp", "GPTNeoXMLP");
    linear(name + ".mlp.dense_h_to_4h", c_.width, c_.inner, true);
    linear(name + ".mlp.dense_4h_to_h", c_.inner, c_.width, true);
    add_module(model_, name + ".mlp.act", activation_class(c_.activation));
  }

  const NeoxConfig& c_;
  Model& model_;
};

constexpr std::string_view head_in_files = "embed_out";

void build_language_head(const NeoxConfig& c, ParameterId embedding, Model& model) {
  const bool older = model.transformers == TransformersVersion::v4;
  const std::string_view name = older ? head_in_files : "lm_head";
  add_language_head(model,
                    {.name = name,
                     .embedding = embedding,
                     .tied = c.tied,
                     .width = c.width,
                     .vocabulary = c.vocabulary},
                    c.deviation);
  if (older) return;
  const std::string head = std::string(name) + ".weight";
  for (const ParameterId id : in_natural_order(model)) {
    const Parameter& parameter = model.parameters[id.value];
    model.stored.push_back(
        {.key = parameter.name == head ? std::string(head_in_files) + ".weight" : parameter.name,
         .parameter = id,
         .shape = parameter.shape});
  }
}

void build_gpt_neox(const ConfigReader& config, Model& model) {
  const NeoxConfig c = read_config(config);
  const std::string_view task = task_of(model, "GPTNeoX");
  model.base_model_prefix = "gpt_neox";
  model.no_split_classes = model.no_split_classes_of_class = {"GPTNeoXLayer"};
  model.dropout =
      std::max(config.probability("attention_dropout"), config.probability("hidden_dropout"));
  model.why_no_decoder =
      "one Linear with query, key and value of each head in turn; partial rotary";
  add_module(model, "", model.class_name);
  const ParameterId embedding =
      NeoxBuilder(c, model).build_base(task == "Model" ? "" : model.base_model_prefix);
  if (task == "ForCausalLM") build_language_head(c, embedding, model);
  if (task == "ForTokenClassification")
    add_label_head(model,
                   {.name = "classifier",
                    .width = c.width,
                    .labels = config.labels(),
                    .bias = true,
                    .dropout = true},
                   c.deviation);
  add_common_head(config, task, c.width, c.deviation, model);
}

void construct_gpt_neox(ConfigFields& fields, const Model& model) {
  if (model.transformers == TransformersVersion::v5) return;
  fields.set("partial_rotary_factor", fields.text("rotary_pct"));
  fields.set("rope_theta", fields.text("rotary_emb_base"));
  copy_rope_type(fields);
}

/// Source: transformers 5.23, configuration_gpt_neox.py, class GPTNeoXConfig.
constexpr std::string_view default_config = R"({
  "attention_bias": true, "attention_dropout": 0.0, "bos_token_id": 0, "classifier_dropout": 0.1, "eos_token_id": 2,
  "hidden_act": "gelu", "hidden_dropout": 0.0, "hidden_size": 6144, "initializer_range": 0.02,
  "intermediate_size": 24576, "is_decoder": false, "layer_norm_eps": 1e-05, "max_position_embeddings": 2048,
  "model_type": "gpt_neox", "num_attention_heads": 64, "num_hidden_layers": 44, "pad_token_id": null,
  "rope_parameters": null, "tie_word_embeddings": false, "use_cache": true, "use_parallel_residual": true,
  "vocab_size": 50432})";

/// Source: transformers 4.57.6, the same class.
constexpr std::string_view default_config_4 = R"({
  "attention_bias": true, "attention_dropout": 0.0, "bos_token_id": 0, "classifier_dropout": 0.1, "eos_token_id": 2,
  "hidden_act": "gelu", "hidden_dropout": 0.0, "hidden_size": 6144, "initializer_range": 0.02,
  "intermediate_size": 24576, "layer_norm_eps": 1e-05, "max_position_embeddings": 2048, "model_type": "gpt_neox",
  "num_attention_heads": 64, "num_hidden_layers": 44, "rope_scaling": null, "rotary_emb_base": 10000,
  "rotary_pct": 0.25, "tie_word_embeddings": false, "use_cache": true, "use_parallel_residual": true,
  "vocab_size": 50432})";

}  // namespace

ModelFamily gpt_neox_family() {
  return {.model_type = "gpt_neox",
          .default_class = "GPTNeoXForCausalLM",
          .classes = {"GPTNeoXForCausalLM", "GPTNeoXModel", "GPTNeoXForSequenceClassification",
                      "GPTNeoXForTokenClassification", "GPTNeoXForQuestionAnswering"},
          .generating_classes = {"GPTNeoXForCausalLM"},
          .default_config = default_config,
          .default_config_4 = default_config_4,
          .rope = rope_keys,
          .construct = construct_gpt_neox,
          .build = build_gpt_neox};
}

}  // namespace shardscope
