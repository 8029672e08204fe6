// OPT. Source: transformers 5.23 and 4.57.6, models/opt/modeling_opt.py and configuration_opt.py.
#include <fmt/format.h>

#include <algorithm>

#include "core/model/activations.h"
#include "core/model/family.h"
#include "core/model/modules.h"

namespace shardscope {
namespace {

/// OPTLearnedPositionalEmbedding has two rows more than there are positions.
constexpr std::int64_t position_offset = 2;

struct OptConfig {
  std::int64_t vocabulary, positions, width, embedding_width, layers, inner;
  std::string activation;
  double deviation;
  bool bias, affine, final_norm, tied;

  bool projected() const { return embedding_width != width; }
};

OptConfig read_config(const ConfigReader& config) {
  OptConfig c{};
  c.vocabulary = config.size({"vocab_size"});
  c.positions = config.size({"max_position_embeddings"});
  c.width = config.size({"hidden_size"});
  c.embedding_width = config.optional_size("word_embed_proj_dim").value_or(c.width);
  c.layers = config.layers({"num_hidden_layers"});
  c.inner = config.size({"ffn_dim"});
  c.activation = read_activation(config, "activation_function");
  c.deviation = config.probability("init_std");
  c.bias = config.flag("enable_bias");
  c.affine = config.flag("layer_norm_elementwise_affine");
  c.final_norm = config.flag("do_layer_norm_before") && !config.flag("_remove_final_layer_norm");
  c.tied = config.flag("tie_word_embeddings");
  const std::int64_t heads = config.size({"num_attention_heads"});
  if (c.width % heads != 0)
    throw config.error(
        "hidden_size",
        fmt::format("hidden_size {} is not a multiple of num_attention_heads {}", c.width, heads));
  if (!c.affine && config.version() == TransformersVersion::v4)
    throw config.error("layer_norm_elementwise_affine",
                       "transformers 4.57.6 cannot initialize OPT with "
                       "layer_norm_elementwise_affine false",
                       "use transformers 5");
  return c;
}

class OptBuilder {
 public:
  OptBuilder(const OptConfig& config, Model& model) : c_(config), model_(model) {}

  void build_base(const std::string& prefix) {
    if (!prefix.empty()) add_module(model_, prefix, "OPTModel");
    const std::string decoder = joined(prefix, "decoder");
    add_module(model_, decoder, "OPTDecoder");
    word_embedding_ = decoder + ".embed_tokens";
    add_embedding(model_, word_embedding_, {c_.vocabulary, c_.embedding_width}, c_.deviation);
    const std::string positions = decoder + ".embed_positions";
    add_module(model_, positions, "OPTLearnedPositionalEmbedding");
    add_parameter(model_, positions + ".weight", {c_.positions + position_offset, c_.width},
                  {.kind = Initialization::Kind::normal, .standard_deviation = c_.deviation});
    if (c_.projected()) {
      linear(decoder + ".project_out", c_.width, c_.embedding_width, false);
      linear(decoder + ".project_in", c_.embedding_width, c_.width, false);
    }
    if (c_.final_norm) norm(decoder + ".final_layer_norm");
    add_module(model_, decoder + ".layers", "ModuleList");
    for (std::int64_t layer = 0; layer < c_.layers; ++layer)
      build_layer(fmt::format("{}.layers.{}", decoder, layer));
  }

  void build_language_head() {
    if (!c_.tied) return build_head("lm_head", c_.vocabulary, false);
    add_module(model_, "lm_head", "Linear");
    add_tied(model_, "lm_head.weight", word_embedding_ + ".weight");
  }

  void build_head(const std::string& name, std::int64_t out, bool bias) {
    linear(name, c_.embedding_width, out, bias);
  }

 private:
  void norm(const std::string& name) {
    if (c_.affine)
      add_norm(model_, name, {.width = c_.width});
    else
      add_module(model_, name, "LayerNorm");
  }

  void linear(const std::string& name, std::int64_t in, std::int64_t out, bool bias) {
    add_linear(model_, name, {.in = in, .out = out, .bias = bias}, c_.deviation);
  }

  void build_layer(const std::string& name) {
    add_module(model_, name, "OPTDecoderLayer");
    const std::string attention = name + ".self_attn";
    add_module(model_, attention, "OPTAttention");
    for (const char* projection : {"k_proj", "v_proj", "q_proj", "out_proj"})
      linear(joined(attention, projection), c_.width, c_.width, c_.bias);
    add_module(model_, name + ".activation_fn", activation_class(c_.activation));
    norm(name + ".self_attn_layer_norm");
    linear(name + ".fc1", c_.width, c_.inner, c_.bias);
    linear(name + ".fc2", c_.inner, c_.width, c_.bias);
    norm(name + ".final_layer_norm");
  }

  const OptConfig& c_;
  Model& model_;
  std::string word_embedding_;
};

void build_opt(const ConfigReader& config, Model& model) {
  const OptConfig opt = read_config(config);
  model.base_model_prefix = "model";
  model.no_split_classes = model.no_split_classes_of_class = {"OPTDecoderLayer"};
  model.positions = opt.positions;
  model.dropout = std::max({config.probability("dropout"), config.probability("attention_dropout"),
                            config.probability("layerdrop")});
  model.why_no_decoder = "model_type opt: activation_function " + opt.activation +
                         ", positions counted from 2, projected embeddings";
  add_module(model, "", model.class_name);
  OptBuilder builder(opt, model);
  builder.build_base(model.class_name == "OPTModel" ? "" : "model");
  if (model.class_name == "OPTForCausalLM") builder.build_language_head();
  if (model.class_name == "OPTForSequenceClassification")
    builder.build_head("score", config.labels(), false);
  if (model.class_name == "OPTForQuestionAnswering") builder.build_head("qa_outputs", 2, true);
}

void complete_opt(ConfigFields& fields, TransformersVersion) {
  fields.set_where_null("word_embed_proj_dim", fields.text("hidden_size"));
}

/// Source: transformers 5.23, configuration_opt.py, class OPTConfig.
constexpr std::string_view default_config = R"({
  "_remove_final_layer_norm": false, "activation_function": "relu", "attention_dropout": 0.0, "bos_token_id": 2,
  "do_layer_norm_before": true, "dropout": 0.1, "enable_bias": true, "eos_token_id": 2, "ffn_dim": 3072,
  "hidden_size": 768, "init_std": 0.02, "layer_norm_elementwise_affine": true, "layerdrop": 0.0,
  "max_position_embeddings": 2048, "model_type": "opt", "num_attention_heads": 12, "num_hidden_layers": 12,
  "pad_token_id": 1, "tie_word_embeddings": true, "use_cache": true, "vocab_size": 50272,
  "word_embed_proj_dim": null})";

/// Source: transformers 4.57.6, the same class.
constexpr std::string_view default_config_4 = R"({
  "_remove_final_layer_norm": false, "activation_function": "relu", "attention_dropout": 0.0, "bos_token_id": 2,
  "do_layer_norm_before": true, "dropout": 0.1, "enable_bias": true, "eos_token_id": 2, "ffn_dim": 3072,
  "hidden_size": 768, "init_std": 0.02, "layer_norm_elementwise_affine": true, "layerdrop": 0.0,
  "max_position_embeddings": 2048, "model_type": "opt", "num_attention_heads": 12, "num_hidden_layers": 12,
  "pad_token_id": 1, "use_cache": true, "vocab_size": 50272, "word_embed_proj_dim": null})";

}  // namespace

ModelFamily opt_family() {
  return {.model_type = "opt",
          .default_class = "OPTForCausalLM",
          .classes = {"OPTForCausalLM", "OPTModel", "OPTForSequenceClassification",
                      "OPTForQuestionAnswering"},
          .generating_classes = {"OPTForCausalLM"},
          .default_config = default_config,
          .default_config_4 = default_config_4,
          .config_aliases = {},
          .complete = complete_opt,
          .build = build_opt};
}

}  // namespace shardscope
