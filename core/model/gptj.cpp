// GPT-J. Source: transformers 5.23 and 4.57.6, models/gptj/modeling_gptj.py and
// configuration_gptj.py.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "core/model/activations.h"
#include "core/model/family.h"
#include "core/model/heads.h"
#include "core/model/modules.h"

namespace shardscope {
namespace {

struct GptjConfig {
  std::int64_t vocabulary, positions, width, layers, inner, rotary;
  std::string activation;
  double epsilon, deviation;
  bool tied;
};

GptjConfig read_config(const ConfigReader& config) {
  GptjConfig c{};
  c.vocabulary = config.size({"vocab_size"});
  c.positions = config.size({"max_position_embeddings", "n_positions"});
  c.width = config.size({"hidden_size", "n_embd"});
  c.layers = config.layers({"num_hidden_layers", "n_layer"});
  c.inner = config.optional_size("n_inner").value_or(4 * c.width);
  c.rotary = config.version() == TransformersVersion::v5
                 ? config.size({"rotary_dim"})
                 : config.optional_size("rotary_dim").value_or(c.width);
  c.activation = read_activation(config, "activation_function");
  c.epsilon = config.positive("layer_norm_epsilon");
  c.deviation = config.deviation("initializer_range");
  c.tied = config.flag("tie_word_embeddings");
  const std::int64_t heads = config.size({"num_attention_heads", "n_head"});
  if (c.width % heads != 0)
    throw config.error("n_embd",
                       fmt::format("n_embd {} is not a multiple of n_head {}", c.width, heads));
  return c;
}

class GptjBuilder {
 public:
  GptjBuilder(const GptjConfig& config, Model& model) : c_(config), model_(model) {}

  /// The token embedding.
  ParameterId build_base(const std::string& prefix) {
    const auto at = [&](std::string_view name) { return joined(prefix, name); };
    if (!prefix.empty()) add_module(model_, prefix, "GPTJModel");
    const ParameterId embedding =
        add_embedding(model_, at("wte"), {c_.vocabulary, c_.width}, c_.deviation);
    add_module(model_, at("drop"), "Dropout");
    add_module(model_, at("h"), "ModuleList");
    for (std::int64_t layer = 0; layer < c_.layers; ++layer)
      build_block(at(fmt::format("h.{}", layer)));
    norm(at("ln_f"));
    return embedding;
  }

 private:
  void norm(const std::string& name) {
    add_norm(model_, name, {.width = c_.width, .epsilon = c_.epsilon});
  }

  void linear(const std::string& name, std::int64_t in, std::int64_t out, bool bias) {
    add_linear(model_, name, {.in = in, .out = out, .bias = bias}, c_.deviation);
  }

  void build_block(const std::string& name) {
    add_module(model_, name, "GPTJBlock");
    norm(name + ".ln_1");
    build_attention(name + ".attn");
    add_module(model_, name + ".mlp", "GPTJMLP");
    linear(name + ".mlp.fc_in", c_.width, c_.inner, true);
    linear(name + ".mlp.fc_out", c_.inner, c_.width, true);
    add_module(model_, name + ".mlp.act", activation_class(c_.activation));
    add_module(model_, name + ".mlp.dropout", "Dropout");
  }

  void build_attention(const std::string& name) {
    add_module(model_, name, "GPTJAttention");
    if (model_.transformers == TransformersVersion::v5)
      model_.buffers.push_back({.name = name + ".embed_positions",
                                .shape = {c_.positions, c_.rotary},
                                .dtype = Dtype::float32,
                                .persistent = false});
    add_module(model_, name + ".attn_dropout", "Dropout");
    add_module(model_, name + ".resid_dropout", "Dropout");
    for (const char* part : {".k_proj", ".v_proj", ".q_proj", ".out_proj"})
      linear(name + part, c_.width, c_.width, false);
  }

  const GptjConfig& c_;
  Model& model_;
};

void build_gptj(const ConfigReader& config, Model& model) {
  const GptjConfig c = read_config(config);
  const std::string_view task = task_of(model, "GPTJ");
  model.base_model_prefix = "transformer";
  model.no_split_classes = model.no_split_classes_of_class = {"GPTJBlock"};
  model.positions = c.positions;
  model.dropout = std::max({config.probability("resid_pdrop"), config.probability("embd_pdrop"),
                            config.probability("attn_pdrop")});
  model.why_no_decoder = "attention and feed-forward part side by side; partial rotary";
  add_module(model, "", model.class_name);
  const ParameterId embedding =
      GptjBuilder(c, model).build_base(task == "Model" ? "" : model.base_model_prefix);
  if (task == "ForCausalLM")
    add_language_head(model,
                      {.embedding = embedding,
                       .tied = c.tied,
                       .bias = true,
                       .width = c.width,
                       .vocabulary = c.vocabulary},
                      c.deviation);
  add_common_head(config, task, c.width, c.deviation, model);
}

/// Source: transformers 5.23, configuration_gptj.py, class GPTJConfig.
constexpr std::string_view default_config = R"({
  "activation_function": "gelu_new", "attn_pdrop": 0.0, "bos_token_id": 50256, "embd_pdrop": 0.0,
  "eos_token_id": 50256, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "model_type": "gptj",
  "n_embd": 4096, "n_head": 16, "n_inner": null, "n_layer": 28, "n_positions": 2048, "pad_token_id": null,
  "resid_pdrop": 0.0, "rotary_dim": 64, "tie_word_embeddings": false, "use_cache": true, "vocab_size": 50400})";

/// Source: transformers 4.57.6, the same class.
constexpr std::string_view default_config_4 = R"({
  "activation_function": "gelu_new", "attn_pdrop": 0.0, "bos_token_id": 50256, "embd_pdrop": 0.0,
  "eos_token_id": 50256, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "model_type": "gptj",
  "n_embd": 4096, "n_head": 16, "n_inner": null, "n_layer": 28, "n_positions": 2048, "resid_pdrop": 0.0,
  "rotary_dim": 64, "tie_word_embeddings": false, "use_cache": true, "vocab_size": 50400})";

}  // namespace

ModelFamily gptj_family() {
  return {.model_type = "gptj",
          .default_class = "GPTJForCausalLM",
          .classes = {"GPTJForCausalLM", "GPTJModel", "GPTJForSequenceClassification",
                      "GPTJForQuestionAnswering"},
          .generating_classes = {"GPTJForCausalLM"},
          .default_config = default_config,
          .default_config_4 = default_config_4,
          .config_aliases = {{"hidden_size", "n_embd"},
                             {"max_position_embeddings", "n_positions"},
                             {"num_attention_heads", "n_head"},
                             {"num_hidden_layers", "n_layer"}},
          .has_sdpa = false,
          .has_sdpa_4 = false,
          .build = build_gptj};
}

}  // namespace shardscope
