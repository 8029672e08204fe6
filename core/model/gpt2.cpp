// GPT-2. Source: transformers 5.23 and 4.57.6, models/gpt2/modeling_gpt2.py and
// configuration_gpt2.py.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/model/activations.h"
#include "core/model/family.h"
#include "core/model/heads.h"
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
  c.positions = config.size({"max_position_embeddings", "n_positions"});
  c.width = config.size({"hidden_size", "n_embd"});
  c.layers = config.layers({"num_hidden_layers", "n_layer"});
  c.heads = config.size({"num_attention_heads", "n_head"});
  c.inner = config.optional_size("n_inner").value_or(4 * c.width);
  c.activation = read_activation(config, "activation_function");
  c.epsilon = config.positive("layer_norm_epsilon");
  c.conv_deviation = config.probability("initializer_range");
  c.deviation = config.deviation("initializer_range");
  c.residual_deviation = c.conv_deviation / std::sqrt(2.0 * static_cast<double>(c.layers));
  c.scale_attention = config.flag("scale_attn_weights");
  c.scale_by_layer = config.flag("scale_attn_by_inverse_layer_idx");
  c.cross_attention = config.flag("add_cross_attention");
  c.tied = config.flag("tie_word_embeddings");
  if (c.width % c.heads != 0)
    throw config.error("n_embd",
                       fmt::format("n_embd {} is not a multiple of n_head {}", c.width, c.heads));
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
    decoder_.head = add_language_head(model_,
                                      {.embedding = decoder_.token_embedding,
                                       .tied = c_.tied,
                                       .width = c_.width,
                                       .vocabulary = c_.vocabulary},
                                      c_.deviation);
    finish_decoder();
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

constexpr std::string_view double_heads = "GPT2DoubleHeadsModel";

/// Source: modeling_gpt2.py, class GPT2SequenceSummary; the model sets num_labels to 1.
void add_summary(const ConfigReader& config, const Gpt2Config& gpt2, Model& model) {
  const std::string name = "multiple_choice_head";
  const auto add_dropout = [&](const char* part, std::string_view key) {
    const auto share = config.find(key);
    add_module(model, name + part, share && share->number() > 0 ? "Dropout" : "Identity");
  };
  add_module(model, name, "GPT2SequenceSummary");
  if (config.flag("summary_use_proj"))
    add_linear(model, name + ".summary",
               {.in = gpt2.width, .out = config.flag("summary_proj_to_labels") ? 1 : gpt2.width},
               gpt2.deviation);
  else
    add_module(model, name + ".summary", "Identity");
  const auto activation = config.find("summary_activation");
  const bool named = activation && !activation->string().empty();
  add_module(model, name + ".activation",
             named ? activation_class(read_activation(config, "summary_activation")) : "Identity");
  add_dropout(".first_dropout", "summary_first_dropout");
  add_dropout(".last_dropout", "summary_last_dropout");
  model.decoder.reset();
  model.why_no_decoder = "class " + model.class_name + " has a second head";
}

void build_gpt2(const ConfigReader& config, Model& model) {
  const Gpt2Config gpt2 = read_config(config);
  model.base_model_prefix = "transformer";
  model.no_split_classes = model.no_split_classes_of_class = {"GPT2Block"};
  model.positions = gpt2.positions;
  model.dropout = std::max({config.probability("resid_pdrop"), config.probability("embd_pdrop"),
                            config.probability("attn_pdrop")});
  add_module(model, "", model.class_name);
  Gpt2Builder builder(gpt2, model);
  builder.build_base(model.class_name == "GPT2Model" ? "" : "transformer");
  const std::string_view task = task_of(model, "GPT2");
  if (task == "LMHeadModel" || task == "DoubleHeadsModel") builder.build_language_head();
  if (task == "DoubleHeadsModel") return add_summary(config, gpt2, model);
  if (task == "LMHeadModel") return;
  model.why_no_decoder = no_language_head(model);
  if (task == "ForTokenClassification")
    add_label_head(model,
                   {.name = "classifier",
                    .width = gpt2.width,
                    .labels = config.labels(),
                    .bias = true,
                    .dropout = true},
                   gpt2.deviation);
  add_common_head(config, task, gpt2.width, gpt2.deviation, model);
}

void construct_gpt2(ConfigFields& fields, const Model& model) {
  if (model.class_name != double_heads) return;
  fields.set("id2label", R"({"0":"LABEL_0"})");
  fields.set("label2id", R"({"LABEL_0":0})");
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
          .classes = {"GPT2LMHeadModel", "GPT2Model", double_heads, "GPT2ForSequenceClassification",
                      "GPT2ForTokenClassification", "GPT2ForQuestionAnswering"},
          .generating_classes = {"GPT2LMHeadModel", double_heads},
          .default_config = default_config,
          .default_config_4 = default_config_4,
          .config_aliases = {{"hidden_size", "n_embd"},
                             {"max_position_embeddings", "n_positions"},
                             {"num_attention_heads", "n_head"},
                             {"num_hidden_layers", "n_layer"}},
          .construct = construct_gpt2,
          .build = build_gpt2};
}

}  // namespace shardscope
