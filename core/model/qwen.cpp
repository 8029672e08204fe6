// Qwen of 2023 (Qwen-1.8B to Qwen-72B), whose code comes with its weights. Source: modeling_qwen.py
// and configuration_qwen.py of Qwen/Qwen-7B on the Hub.
#include <fmt/format.h>

#include <algorithm>

#include "core/model/family.h"
#include "core/model/heads.h"
#include "core/model/modules.h"

namespace shardscope {
namespace {

struct QwenConfig {
  std::int64_t vocabulary, width, inner, layers, heads, head_size;
  double epsilon, deviation;
  bool bias, tied;
};

QwenConfig read_config(const ConfigReader& config) {
  QwenConfig c{};
  c.vocabulary = config.size({"vocab_size"});
  c.width = config.size({"hidden_size"});
  c.inner = config.size({"intermediate_size"}) / 2;  // w1 and w2 have half of it each
  c.layers = config.layers({"num_hidden_layers"});
  c.heads = config.size({"num_attention_heads"});
  c.head_size = config.size({"kv_channels"});
  c.epsilon = config.positive("layer_norm_epsilon");
  c.deviation = config.deviation("initializer_range");
  c.bias = !config.flag("no_bias");
  c.tied = config.flag("tie_word_embeddings");
  if (c.width % c.heads != 0)
    throw config.error("hidden_size",
                       fmt::format("hidden_size {} is not a multiple of num_attention_heads {}",
                                   c.width, c.heads));
  return c;
}

class QwenBuilder {
 public:
  QwenBuilder(const QwenConfig& config, Model& model) : c_(config), model_(model) {}

  /// The token embedding.
  ParameterId build_base(const std::string& prefix) {
    const auto at = [&](std::string_view name) { return joined(prefix, name); };
    if (!prefix.empty()) add_module(model_, prefix, "QWenModel");
    const ParameterId embedding =
        add_embedding(model_, at("wte"), {c_.vocabulary, c_.width}, c_.deviation);
    add_module(model_, at("drop"), "Dropout");
    add_module(model_, at("rotary_emb"), "RotaryEmbedding");
    buffer(at("rotary_emb.inv_freq"), {c_.head_size / 2});
    add_module(model_, at("h"), "ModuleList");
    for (std::int64_t layer = 0; layer < c_.layers; ++layer)
      build_block(at(fmt::format("h.{}", layer)));
    norm(at("ln_f"));
    return embedding;
  }

 private:
  void norm(const std::string& name) {
    add_norm(model_, name,
             {.kind = NormKind::rms_norm,
              .class_name = "RMSNorm",
              .width = c_.width,
              .epsilon = c_.epsilon});
  }

  void linear(const std::string& name, std::int64_t in, std::int64_t out, bool bias) {
    add_linear(model_, name, {.in = in, .out = out, .bias = bias}, c_.deviation);
  }

  /// QWenLMHeadModel casts the whole model (bf16, fp16), buffers included.
  void buffer(const std::string& name, Shape shape) {
    model_.buffers.push_back(
        {.name = name, .shape = std::move(shape), .dtype = model_.dtype, .persistent = false});
  }

  void build_block(const std::string& name) {
    constexpr std::int64_t scaled_positions = 32767;  // logn_tensor: range(1, 32768)
    const std::int64_t projected = c_.heads * c_.head_size;
    add_module(model_, name, "QWenBlock");
    norm(name + ".ln_1");
    add_module(model_, name + ".attn", "QWenAttention");
    buffer(name + ".attn.masked_bias", {});
    buffer(name + ".attn.logn_tensor", {1, scaled_positions, 1, 1});
    linear(name + ".attn.c_attn", c_.width, 3 * projected, true);
    linear(name + ".attn.c_proj", c_.width, projected, c_.bias);
    add_module(model_, name + ".attn.core_attention_flash", "FlashSelfAttention");
    add_module(model_, name + ".attn.attn_dropout", "Dropout");
    norm(name + ".ln_2");
    add_module(model_, name + ".mlp", "QWenMLP");
    linear(name + ".mlp.w1", c_.width, c_.inner, c_.bias);
    linear(name + ".mlp.w2", c_.width, c_.inner, c_.bias);
    linear(name + ".mlp.c_proj", c_.inner, c_.width, c_.bias);
  }

  const QwenConfig& c_;
  Model& model_;
};

void build_qwen(const ConfigReader& config, Model& model) {
  const QwenConfig c = read_config(config);
  model.base_model_prefix = "transformer";
  model.no_split_classes = model.no_split_classes_of_class = {"QWenBlock"};
  model.dropout =
      std::max(config.probability("attn_dropout_prob"), config.probability("emb_dropout_prob"));
  model.why_no_decoder = "its own code, which comes with the weights";
  add_module(model, "", model.class_name);
  const bool base = model.class_name == "QWenModel";
  const ParameterId embedding =
      QwenBuilder(c, model).build_base(base ? "" : model.base_model_prefix);
  if (base) return;
  add_language_head(
      model, {.embedding = embedding, .tied = c.tied, .width = c.width, .vocabulary = c.vocabulary},
      c.deviation);
}

/// Source: configuration_qwen.py, class QWenConfig.
constexpr std::string_view default_config = R"({
  "attn_dropout_prob": 0.0, "bf16": false, "emb_dropout_prob": 0.0, "fp16": false, "fp32": false, "hidden_size": 4096,
  "initializer_range": 0.02, "intermediate_size": 22016, "kv_channels": 128, "layer_norm_epsilon": 1e-06,
  "max_position_embeddings": 8192, "model_type": "qwen", "no_bias": true, "num_attention_heads": 32,
  "num_hidden_layers": 32, "rotary_emb_base": 10000, "rotary_pct": 1.0, "scale_attn_weights": true,
  "softmax_in_fp32": false, "tie_word_embeddings": false, "use_cache": true, "use_cache_kernel": false,
  "use_cache_quantization": false, "use_dynamic_ntk": true, "use_flash_attn": "auto", "use_logn_attn": true,
  "vocab_size": 151936})";

}  // namespace

ModelFamily qwen_family() {
  return {.model_type = "qwen",
          .default_class = "QWenLMHeadModel",
          .classes = {"QWenLMHeadModel", "QWenModel"},
          .generating_classes = {"QWenLMHeadModel"},
          .default_config = default_config,
          .default_config_4 = default_config,
          .build = build_qwen};
}

}  // namespace shardscope
