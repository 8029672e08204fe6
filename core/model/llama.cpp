// Llama. Source: transformers 5.23, models/llama/modeling_llama.py, configuration_llama.py and
// modeling_layers.py.
#include <fmt/format.h>

#include <cmath>

#include "core/model/family.h"
#include "core/model/modules.h"
#include "core/model/rope_parameters.h"

namespace shardscope {
namespace {

struct LlamaConfig {
  std::int64_t vocabulary, positions, width, inner, layers, heads, kv_heads, head_dim;
  std::string activation;
  double epsilon, deviation;
  bool attention_bias, mlp_bias, tied;
  RopeParameters rope;
};

LlamaConfig read_config(const ConfigReader& config) {
  LlamaConfig c{};
  c.vocabulary = config.size({"vocab_size"});
  c.positions = config.size({"max_position_embeddings"});
  c.width = config.size({"hidden_size"});
  c.inner = config.size({"intermediate_size"});
  c.layers = config.layers({"num_hidden_layers"});
  c.heads = config.size({"num_attention_heads"});
  c.kv_heads = config.optional_size("num_key_value_heads").value_or(c.heads);
  if (c.width % c.heads != 0)
    throw config.error("hidden_size",
                       fmt::format("hidden_size {} is not a multiple of num_attention_heads {}",
                                   c.width, c.heads));
  if (c.heads % c.kv_heads != 0)
    throw config.error(
        "num_key_value_heads",
        fmt::format("num_attention_heads {} is not a multiple of num_key_value_heads {}", c.heads,
                    c.kv_heads));
  c.head_dim = config.optional_size("head_dim").value_or(c.width / c.heads);
  c.activation = config.text("hidden_act");
  if (activation_class(c.activation).empty())
    throw config.error("hidden_act", fmt::format("unknown activation \"{}\"", c.activation),
                       "for example \"silu\"");
  c.epsilon = config.positive("rms_norm_eps");
  const double range = config.probability("initializer_range");
  c.deviation = range == 0 ? 0.02 : range;  // PreTrainedModel._init_weights: "range or 0.02"
  c.attention_bias = config.flag("attention_bias");
  c.mlp_bias = config.flag("mlp_bias");
  c.tied = config.flag("tie_word_embeddings");
  c.rope = read_rope_parameters(config, c.head_dim, c.positions);
  return c;
}

class LlamaBuilder {
 public:
  LlamaBuilder(const LlamaConfig& config, Model& model) : c_(config), model_(model) {}

  void build_base(const std::string& prefix) {
    prefix_ = prefix;
    if (!prefix.empty()) add_module(model_, prefix, "LlamaModel");
    decoder_.token_embedding =
        add_embedding(model_, at("embed_tokens"), {c_.vocabulary, c_.width}, c_.deviation);
    add_module(model_, at("layers"), "ModuleList");
    for (std::int64_t layer = 0; layer < c_.layers; ++layer)
      decoder_.blocks.push_back(build_layer(at(fmt::format("layers.{}", layer))));
    decoder_.final_norm = norm(at("norm"));
    const std::string rotary = at("rotary_emb");
    add_module(model_, rotary, "LlamaRotaryEmbedding");
    add_rotary_buffers(model_, rotary, c_.rope.frequencies);
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
      decoder_.head = linear(name, c_.width, c_.vocabulary, false);
    }
    finish_decoder();
  }

  void build_head(const std::string& name, std::int64_t labels, bool bias) {
    linear(name, c_.width, labels, bias);
  }

 private:
  std::string at(std::string_view name) const { return joined(prefix_, name); }

  Norm norm(const std::string& name) {
    return add_norm(model_, name,
                    {.kind = NormKind::rms_norm,
                     .class_name = "LlamaRMSNorm",
                     .width = c_.width,
                     .epsilon = c_.epsilon});
  }

  Linear linear(const std::string& name, std::int64_t in, std::int64_t out, bool bias) {
    return add_linear(model_, name, {.in = in, .out = out, .bias = bias}, c_.deviation);
  }

  DecoderBlock build_layer(const std::string& name) {
    DecoderBlock block{.module = name};
    add_module(model_, name, "LlamaDecoderLayer");
    build_attention(name + ".self_attn", block);
    build_mlp(name + ".mlp", block);
    block.attention_norm = norm(name + ".input_layernorm");
    block.mlp_norm = norm(name + ".post_attention_layernorm");
    return block;
  }

  void build_attention(const std::string& attention, DecoderBlock& block) {
    const std::int64_t query = c_.heads * c_.head_dim;
    const std::int64_t key = c_.kv_heads * c_.head_dim;
    add_module(model_, attention, "LlamaAttention");
    block.qkv.push_back(linear(attention + ".q_proj", c_.width, query, c_.attention_bias));
    block.qkv.push_back(linear(attention + ".k_proj", c_.width, key, c_.attention_bias));
    block.qkv.push_back(linear(attention + ".v_proj", c_.width, key, c_.attention_bias));
    block.attention_out = linear(attention + ".o_proj", query, c_.width, c_.attention_bias);
  }

  void build_mlp(const std::string& mlp, DecoderBlock& block) {
    add_module(model_, mlp, "LlamaMLP");
    block.mlp = MlpKind::swiglu;
    block.mlp_in.push_back(linear(mlp + ".gate_proj", c_.width, c_.inner, c_.mlp_bias));
    block.mlp_in.push_back(linear(mlp + ".up_proj", c_.width, c_.inner, c_.mlp_bias));
    block.mlp_out = linear(mlp + ".down_proj", c_.inner, c_.width, c_.mlp_bias);
    add_module(model_, mlp + ".act_fn", activation_class(c_.activation));
  }

  void finish_decoder() {
    model_.why_no_decoder = c_.rope.why_not;
    if (c_.activation != "silu" && c_.activation != "swish")
      model_.why_no_decoder = fmt::format("hidden_act {} (known is silu)", c_.activation);
    if (!model_.why_no_decoder.empty()) return;
    decoder_.vocabulary = c_.vocabulary;
    decoder_.width = c_.width;
    decoder_.heads = c_.heads;
    decoder_.kv_heads = c_.kv_heads;
    decoder_.head_dim = c_.head_dim;
    decoder_.max_positions = c_.positions;
    decoder_.attention_scale = 1 / std::sqrt(static_cast<double>(c_.head_dim));
    decoder_.rope = c_.rope.rope;
    model_.decoder = std::move(decoder_);
  }

  const LlamaConfig& c_;
  Model& model_;
  std::string prefix_;
  Decoder decoder_;
};

void build_llama(const ConfigReader& config, Model& model) {
  const LlamaConfig llama = read_config(config);
  const bool questions = model.class_name == "LlamaForQuestionAnswering";
  model.base_model_prefix = questions ? "transformer" : "model";
  model.no_split_classes = model.no_split_classes_of_class = {"LlamaDecoderLayer"};
  model.dropout = config.probability("attention_dropout");
  add_module(model, "", model.class_name);
  LlamaBuilder builder(llama, model);
  builder.build_base(model.class_name == "LlamaModel" ? "" : model.base_model_prefix);
  if (model.class_name == "LlamaForCausalLM") return builder.build_language_head();
  model.why_no_decoder = "class " + model.class_name + " has no head for the next token";
  if (model.class_name == "LlamaForSequenceClassification")
    builder.build_head("score", config.labels(), false);
  if (questions) builder.build_head("qa_outputs", 2, true);
  if (model.class_name == "LlamaForTokenClassification") {
    const auto bias = config.find("token_classification_bias");
    add_module(model, "dropout", "Dropout");
    builder.build_head("score", config.labels(), !bias || bias->boolean());
  }
}

void complete_llama(ConfigFields& fields, TransformersVersion) {
  fields.set_where_null("head_dim", fmt::format("{}", fields.integer("hidden_size") /
                                                          fields.integer("num_attention_heads")));
  fields.set_where_null("num_key_value_heads", fields.text("num_attention_heads"));
}

/// Source: transformers 5.23, configuration_llama.py, class LlamaConfig.
constexpr std::string_view default_config = R"({
  "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2, "head_dim": null,
  "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 11008,
  "max_position_embeddings": 2048, "mlp_bias": false, "model_type": "llama", "num_attention_heads": 32,
  "num_hidden_layers": 32, "num_key_value_heads": null, "pad_token_id": null, "pretraining_tp": 1,
  "rms_norm_eps": 1e-06, "rope_parameters": null,
  "tie_word_embeddings": false, "use_cache": true, "vocab_size": 32000})";

/// Source: transformers 4.57.6, the same class.
constexpr std::string_view default_config_4 = R"({
  "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2, "head_dim": null,
  "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 11008,
  "max_position_embeddings": 2048, "mlp_bias": false, "model_type": "llama", "num_attention_heads": 32,
  "num_hidden_layers": 32, "num_key_value_heads": null, "pad_token_id": null, "pretraining_tp": 1,
  "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 10000.0, "tie_word_embeddings": false,
  "use_cache": true, "vocab_size": 32000})";

}  // namespace

ModelFamily llama_family() {
  return {.model_type = "llama",
          .default_class = "LlamaForCausalLM",
          .classes = {"LlamaForCausalLM", "LlamaModel", "LlamaForSequenceClassification",
                      "LlamaForTokenClassification", "LlamaForQuestionAnswering"},
          .generating_classes = {"LlamaForCausalLM"},
          .default_config = default_config,
          .default_config_4 = default_config_4,
          .rope = RopeKeys{},
          .complete = complete_llama,
          .build = build_llama};
}

}  // namespace shardscope
