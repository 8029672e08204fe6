// litgpt's GPT, which it makes of llama's, phi's, gemma's and others' weights. Keys of the sizes
// are transformers'; the others are litgpt's Config. Source: litgpt 00af8b0d, model.py and
// config.py.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>

#include "core/model/family.h"
#include "core/model/modules.h"

namespace shardscope {
namespace {

struct LitgptConfig {
  std::int64_t vocabulary, width, inner, layers, heads, groups, head_size;
  double epsilon;
  std::string norm, mlp;
  bool bias, head_bias, shared_norm;
};

/// Throws Error where a class is none of those that are played.
std::string class_of(const ConfigReader& config, std::string_view key,
                     std::initializer_list<std::string_view> known) {
  std::string name = config.text(key);
  if (std::find(known.begin(), known.end(), name) == known.end())
    throw config.error(key, fmt::format("{} is not known", name),
                       fmt::format("give one of {}", fmt::join(known, ", ")));
  return name;
}

LitgptConfig read_config(const ConfigReader& config) {
  LitgptConfig c{};
  c.vocabulary = config.size({"vocab_size"});
  c.width = config.size({"hidden_size"});
  c.inner = config.size({"intermediate_size"});
  c.layers = config.layers({"num_hidden_layers"});
  c.heads = config.size({"num_attention_heads"});
  c.groups = config.size({"num_key_value_heads"});
  c.head_size = config.size({"head_dim"});
  c.epsilon = config.positive("norm_eps");
  c.norm = class_of(config, "norm_class_name", {"LayerNorm", "RMSNorm"});
  c.mlp = class_of(config, "mlp_class_name", {"GemmaMLP", "GptNeoxMLP", "LLaMAMLP"});
  c.bias = config.flag("bias");
  c.head_bias = config.flag("lm_head_bias");
  c.shared_norm = config.flag("shared_attention_norm");
  if (c.shared_norm && !config.flag("parallel_residual"))
    throw config.error("shared_attention_norm", "is true, and parallel_residual is not",
                       "litgpt refuses that, too: give parallel_residual true");
  if (const double share = config.positive("rotary_percentage"); share > 1)
    throw config.error("rotary_percentage", fmt::format("{} is more than 1", share));
  if (c.heads % c.groups != 0)
    throw config.error("num_key_value_heads",
                       fmt::format("num_attention_heads {} is not a multiple of it", c.heads));
  return c;
}

class LitgptBuilder {
 public:
  LitgptBuilder(const LitgptConfig& config, Model& model) : c_(config), model_(model) {}

  /// In GPT.__init__'s order: the head is first.
  void build() {
    add_linear(model_, "lm_head", {.in = c_.width, .out = c_.vocabulary, .bias = c_.head_bias},
               deviation);
    add_module(model_, "transformer", "ModuleDict");
    add_embedding(model_, "transformer.wte", {c_.vocabulary, c_.width}, deviation);
    add_module(model_, "transformer.h", "ModuleList");
    for (std::int64_t layer = 0; layer < c_.layers; ++layer)
      build_block(fmt::format("transformer.h.{}", layer));
    norm("transformer.ln_f");
  }

 private:
  static constexpr double deviation = 0.02;

  void norm(const std::string& name) {
    const bool layer_norm = c_.norm == "LayerNorm";
    add_norm(model_, name,
             {.kind = layer_norm ? NormKind::layer_norm : NormKind::rms_norm,
              .class_name = layer_norm ? "LayerNorm" : "LitgptRMSNorm",
              .width = c_.width,
              .epsilon = c_.epsilon});
  }

  void linear(const std::string& name, std::int64_t in, std::int64_t out) {
    add_linear(model_, name, {.in = in, .out = out, .bias = c_.bias}, deviation);
  }

  void build_block(const std::string& name) {
    add_module(model_, name, "LitgptBlock");
    norm(name + ".norm_1");
    add_module(model_, name + ".attn", "LitgptCausalSelfAttention");
    linear(name + ".attn.attn", c_.width, (c_.heads + 2 * c_.groups) * c_.head_size);
    linear(name + ".attn.proj", c_.head_size * c_.heads, c_.width);
    if (!c_.shared_norm) norm(name + ".norm_2");
    const bool gated = c_.mlp != "GptNeoxMLP";
    add_module(model_, name + ".mlp", "Litgpt" + c_.mlp);
    linear(name + (gated ? ".mlp.fc_1" : ".mlp.fc"), c_.width, c_.inner);
    if (gated) linear(name + ".mlp.fc_2", c_.width, c_.inner);
    linear(name + ".mlp.proj", c_.inner, c_.width);
  }

  const LitgptConfig& c_;
  Model& model_;
};

void build_litgpt(const ConfigReader& config, Model& model) {
  const LitgptConfig c = read_config(config);
  model.base_model_prefix = "transformer";
  model.no_split_classes = model.no_split_classes_of_class = {"LitgptBlock"};
  model.why_no_decoder = "litgpt's own layers";
  add_module(model, "", model.class_name);
  LitgptBuilder(c, model).build();
}

/// Source: litgpt 00af8b0d, config.py, class Config; sizes of Llama-2-7b.
constexpr std::string_view default_config = R"({
  "bias": false, "head_dim": 128, "hidden_size": 4096, "intermediate_size": 11008, "lm_head_bias": false,
  "max_position_embeddings": 4096, "mlp_class_name": "LLaMAMLP", "model_type": "litgpt", "norm_class_name": "RMSNorm",
  "norm_eps": 1e-05, "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32,
  "parallel_residual": false, "rotary_percentage": 1.0, "scale_embeddings": false, "shared_attention_norm": false,
  "tie_word_embeddings": false, "vocab_size": 32000})";

}  // namespace

ModelFamily litgpt_family() {
  return {.model_type = "litgpt",
          .default_class = "LitgptGPT",
          .classes = {"LitgptGPT"},
          .generating_classes = {"LitgptGPT"},
          .default_config = default_config,
          .default_config_4 = default_config,
          .build = build_litgpt};
}

}  // namespace shardscope
