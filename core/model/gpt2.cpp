// GPT-2. Source: transformers 5.23, models/gpt2/modeling_gpt2.py and configuration_gpt2.py.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/model/family.h"
#include "core/model/modules.h"

namespace shardscope {
namespace {

struct Gpt2Config {
  std::int64_t vocabulary, positions, width, layers, heads, inner;
  std::string activation;
  double epsilon;
  double deviation;           // of embeddings and heads
  double conv_deviation;      // of the Conv1D
  double residual_deviation;  // of the projections that write to the residual stream
  bool scale_attention, scale_by_layer, cross_attention, tied;
};

Gpt2Config read_config(const ConfigReader& config) {
  Gpt2Config c{};
  c.vocabulary = config.size({"vocab_size"});
  c.positions = config.size({"n_positions", "max_position_embeddings"});
  c.width = config.size({"n_embd", "hidden_size"});
  c.layers = config.layers({"n_layer", "num_hidden_layers"});
  c.heads = config.size({"n_head", "num_attention_heads"});
  c.inner = config.optional_size("n_inner").value_or(4 * c.width);
  c.activation = config.text("activation_function");
  c.epsilon = config.positive("layer_norm_epsilon");
  c.conv_deviation = config.probability("initializer_range");
  c.deviation = c.conv_deviation == 0
                    ? 0.02
                    : c.conv_deviation;  // PreTrainedModel._init_weights: "range or 0.02"
  c.residual_deviation = c.conv_deviation / std::sqrt(2.0 * static_cast<double>(c.layers));
  c.scale_attention = config.flag("scale_attn_weights");
  c.scale_by_layer = config.flag("scale_attn_by_inverse_layer_idx");
  c.cross_attention = config.flag("add_cross_attention");
  c.tied = config.flag("tie_word_embeddings");
  if (c.width % c.heads != 0)
    throw config.error("n_embd",
                       fmt::format("n_embd {} is not a multiple of n_head {}", c.width, c.heads));
  if (activation_class(c.activation).empty())
    throw config.error("activation_function",
                       fmt::format("unknown activation \"{}\"", c.activation),
                       "for example \"gelu_new\"");
  return c;
}

class Gpt2Builder {
 public:
  Gpt2Builder(const Gpt2Config& config, Model& model) : c_(config), model_(model) {}

  void build_base(const std::string& prefix) {
    prefix_ = prefix;
    if (!prefix.empty()) add_module(model_, prefix, "GPT2Model");
    decoder_.token_embedding =
        add_embedding(model_, at("wte"), {c_.vocabulary, c_.width}, c_.deviation);
    decoder_.position_embedding =
        add_embedding(model_, at("wpe"), {c_.positions, c_.width}, c_.deviation);
    add_module(model_, at("drop"), "Dropout");
    add_module(model_, at("h"), "ModuleList");
    for (std::int64_t layer = 0; layer < c_.layers; ++layer)
      decoder_.blocks.push_back(build_block(at(fmt::format("h.{}", layer))));
    decoder_.final_norm = norm(at("ln_f"));
  }

  void build_language_head() {
    const std::string name = "lm_head";
    if (c_.tied) {
      const std::string& first = model_.parameters[decoder_.token_embedding.value].name;
      add_module(model_, name, "Linear");
      model_.tied.push_back({.later = name + ".weight", .first = first});
      decoder_.head = {
          .module = name, .weight = decoder_.token_embedding, .in = c_.width, .out = c_.vocabulary};
    } else {
      decoder_.head = add_linear(
          model_, name, {.in = c_.width, .out = c_.vocabulary, .bias = false}, c_.deviation);
    }
    finish_decoder();
  }

  void build_head(const std::string& name, std::int64_t labels, bool bias) {
    add_linear(model_, name, {.in = c_.width, .out = labels, .bias = bias}, c_.deviation);
  }

 private:
  std::string at(std::string_view name) const { return joined(prefix_, name); }

  Norm norm(const std::string& name) {
    return add_norm(model_, name, {.width = c_.width, .epsilon = c_.epsilon});
  }

  Linear conv(const std::string& name, std::int64_t in, std::int64_t out, double deviation) {
    return add_linear(model_, name,
                      {.in = in, .out = out, .bias = true, .layout = WeightLayout::in_out},
                      deviation);
  }

  DecoderBlock build_block(const std::string& name) {
    DecoderBlock block{.module = name};
    add_module(model_, name, "GPT2Block");
    block.attention_norm = norm(name + ".ln_1");
    const std::string attention = name + ".attn";
    add_attention(attention);
    block.qkv = {conv(attention + ".c_attn", c_.width, 3 * c_.width, c_.conv_deviation)};
    block.attention_out = build_attention_end(attention);
    block.mlp_norm = norm(name + ".ln_2");
    if (c_.cross_attention) build_cross_attention(name);
    build_mlp(name + ".mlp", block);
    return block;
  }

  void add_attention(const std::string& attention) {
    add_module(model_, attention, "GPT2Attention");
    if (model_.transformers == TransformersVersion::v5) return;
    model_.buffers.push_back({.name = attention + ".bias",
                              .shape = {1, 1, c_.positions, c_.positions},
                              .dtype = Dtype::boolean,
                              .persistent = false});
    model_.buffers.push_back({.name = attention + ".masked_bias",
                              .shape = {},
                              .dtype = model_.dtype,
                              .persistent = false});
  }

  Linear build_attention_end(const std::string& attention) {
    const Linear projection =
        conv(attention + ".c_proj", c_.width, c_.width, c_.residual_deviation);
    add_module(model_, attention + ".attn_dropout", "Dropout");
    add_module(model_, attention + ".resid_dropout", "Dropout");
    return projection;
  }

  void build_cross_attention(const std::string& block) {
    const std::string attention = block + ".crossattention";
    add_attention(attention);
    conv(attention + ".c_attn", c_.width, 2 * c_.width, c_.conv_deviation);
    conv(attention + ".q_attn", c_.width, c_.width, c_.conv_deviation);
    build_attention_end(attention);
    norm(block + ".ln_cross_attn");
  }

  void build_mlp(const std::string& mlp, DecoderBlock& block) {
    add_module(model_, mlp, "GPT2MLP");
    block.mlp = MlpKind::gelu_tanh;
    block.mlp_in = {conv(mlp + ".c_fc", c_.width, c_.inner, c_.conv_deviation)};
    block.mlp_out = conv(mlp + ".c_proj", c_.inner, c_.width, c_.residual_deviation);
    add_module(model_, mlp + ".act", activation_class(c_.activation));
    add_module(model_, mlp + ".dropout", "Dropout");
  }

  void finish_decoder() {
    if (c_.activation != "gelu_new" && c_.activation != "gelu_pytorch_tanh" &&
        c_.activation != "gelu_python_tanh")
      model_.why_no_decoder = fmt::format(
          "activation_function {} (known are gelu_new, gelu_pytorch_tanh)", c_.activation);
    if (c_.cross_attention) model_.why_no_decoder = "add_cross_attention true";
    if (!model_.why_no_decoder.empty()) return;
    decoder_.vocabulary = c_.vocabulary;
    decoder_.width = c_.width;
    decoder_.heads = decoder_.kv_heads = c_.heads;
    decoder_.head_dim = c_.width / c_.heads;
    decoder_.max_positions = c_.positions;
    decoder_.attention_scale =
        c_.scale_attention ? 1 / std::sqrt(static_cast<double>(decoder_.head_dim)) : 1;
    if (c_.scale_by_layer)
      for (std::int64_t layer = 0; layer < c_.layers; ++layer)
        decoder_.attention_scale_by_layer.push_back(decoder_.attention_scale /
                                                    static_cast<double>(layer + 1));
    model_.decoder = std::move(decoder_);
  }

  const Gpt2Config& c_;
  Model& model_;
  std::string prefix_;
  Decoder decoder_;
};

void build_gpt2(const ConfigReader& config, Model& model) {
  const Gpt2Config gpt2 = read_config(config);
  model.base_model_prefix = "transformer";
  model.no_split_classes = model.no_split_classes_of_class = {"GPT2Block"};
  model.dropout = std::max({config.probability("resid_pdrop"), config.probability("embd_pdrop"),
                            config.probability("attn_pdrop")});
  add_module(model, "", model.class_name);
  Gpt2Builder builder(gpt2, model);
  builder.build_base(model.class_name == "GPT2Model" ? "" : "transformer");
  if (model.class_name == "GPT2LMHeadModel") return builder.build_language_head();
  model.why_no_decoder = "class " + model.class_name + " has no head for the next token";
  if (model.class_name == "GPT2ForSequenceClassification")
    builder.build_head("score", config.labels(), false);
  if (model.class_name == "GPT2ForQuestionAnswering") builder.build_head("qa_outputs", 2, true);
  if (model.class_name == "GPT2ForTokenClassification") {
    add_module(model, "dropout", "Dropout");
    builder.build_head("classifier", config.labels(), true);
  }
}

/// Source: transformers 5.23, configuration_gpt2.py, class GPT2Config.
constexpr std::string_view default_config = R"({
  "activation_function": "gelu_new", "add_cross_attention": false, "attn_pdrop": 0.1, "bos_token_id": 50256,
  "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05,
  "model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_inner": null, "n_layer": 12, "n_positions": 1024,
  "pad_token_id": null, "reorder_and_upcast_attn": false, "resid_pdrop": 0.1,
  "scale_attn_by_inverse_layer_idx": false, "scale_attn_weights": true, "summary_activation": null,
  "summary_first_dropout": 0.1, "summary_proj_to_labels": true, "summary_type": "cls_index",
  "summary_use_proj": true, "tie_word_embeddings": true, "use_cache": true, "vocab_size": 50257})";

/// Source: transformers 4.57.6, the same class.
constexpr std::string_view default_config_4 = R"({
  "activation_function": "gelu_new", "attn_pdrop": 0.1, "bos_token_id": 50256, "embd_pdrop": 0.1,
  "eos_token_id": 50256, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "model_type": "gpt2",
  "n_embd": 768, "n_head": 12, "n_inner": null, "n_layer": 12, "n_positions": 1024,
  "reorder_and_upcast_attn": false, "resid_pdrop": 0.1, "scale_attn_by_inverse_layer_idx": false,
  "scale_attn_weights": true, "summary_activation": null, "summary_first_dropout": 0.1,
  "summary_proj_to_labels": true, "summary_type": "cls_index", "summary_use_proj": true, "use_cache": true,
  "vocab_size": 50257})";

}  // namespace

ModelFamily gpt2_family() {
  return {.model_type = "gpt2",
          .default_class = "GPT2LMHeadModel",
          .classes = {"GPT2LMHeadModel", "GPT2Model", "GPT2ForSequenceClassification",
                      "GPT2ForTokenClassification", "GPT2ForQuestionAnswering"},
          .generating_classes = {"GPT2LMHeadModel"},
          .default_config = default_config,
          .default_config_4 = default_config_4,
          .config_aliases = {{"hidden_size", "n_embd"},
                             {"max_position_embeddings", "n_positions"},
                             {"num_attention_heads", "n_head"},
                             {"num_hidden_layers", "n_layer"}},
          .build = build_gpt2};
}

}  // namespace shardscope
