// T5. Source: transformers 5.23 and 4.57.6, models/t5/modeling_t5.py and configuration_t5.py.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "core/base/utf8.h"
#include "core/model/activations.h"
#include "core/model/family.h"
#include "core/model/modules.h"

namespace shardscope {
namespace {

/// "relu", or "gated-gelu": the activation after the dash, and whether a second projection gates.
struct FeedForward {
  std::string activation;
  bool gated = false;
};

std::optional<FeedForward> parse_feed_forward(const std::string& text) {
  const std::size_t dash = text.find('-');
  if (dash == std::string::npos) return FeedForward{.activation = text, .gated = text == "gated"};
  if (text.substr(0, dash) != "gated" || text.find('-', dash + 1) != std::string::npos)
    return std::nullopt;
  // The name that T5 v1.1's own configs have for what transformers calls gelu_new.
  const std::string activation = text == "gated-gelu" ? "gelu_new" : text.substr(dash + 1);
  return FeedForward{.activation = activation, .gated = true};
}

struct T5Config {
  std::int64_t vocabulary, width, key_width, inner, layers, decoder_layers, heads, buckets;
  FeedForward feed_forward;
  double epsilon, factor;
  bool tied, is_decoder;
};

FeedForward read_feed_forward(const ConfigReader& config) {
  const std::string text = config.text("feed_forward_proj");
  const auto parsed = parse_feed_forward(text);
  if (!parsed)
    throw config.error("feed_forward_proj", fmt::format("\"{}\" is no feed-forward", shown(text)),
                       "\"gated-ACTIVATION\" or \"ACTIVATION\"");
  FeedForward result = *parsed;
  if (const auto given = config.find("dense_act_fn")) result.activation = given->string();
  if (const auto given = config.find("is_gated_act")) result.gated = given->boolean();
  check_activation(config, "feed_forward_proj", result.activation);
  return result;
}

T5Config read_config(const ConfigReader& config) {
  T5Config c{};
  c.vocabulary = config.size({"vocab_size"});
  c.width = config.size({"d_model", "hidden_size"});
  c.key_width = config.size({"d_kv", "head_dim"});
  c.inner = config.size({"d_ff"});
  c.layers = config.layers({"num_layers", "num_hidden_layers"});
  // As many as num_layers before its other name is looked at.
  c.decoder_layers = config.find("num_decoder_layers") ? config.layers({"num_decoder_layers"})
                                                       : config.layers({"num_layers"});
  c.heads = config.size({"num_heads", "num_attention_heads"});
  c.buckets = config.size({"relative_attention_num_buckets"});
  c.feed_forward = read_feed_forward(config);
  c.epsilon = config.positive("layer_norm_epsilon");
  c.factor = config.positive("initializer_factor");
  c.is_decoder = config.flag("is_decoder");
  // Transformers 5 overrules false.
  c.tied = config.version() == TransformersVersion::v5 || config.flag("tie_word_embeddings");
  return c;
}

class T5Builder {
 public:
  T5Builder(const T5Config& config, Model& model) : c_(config), model_(model) {}

  void build_shared(const std::string& prefix) {
    prefix_ = prefix;
    add_embedding(model_, at("shared"), {c_.vocabulary, c_.width}, c_.factor);
  }

  void build_encoder(bool is_decoder = false) {
    build_stack(at("encoder"), {.layers = c_.layers, .cross_attention = is_decoder});
  }

  void build_decoder() {
    build_stack(at("decoder"), {.layers = c_.decoder_layers, .cross_attention = true});
  }

  void build_language_head() {
    if (!c_.tied) return build_head("lm_head", c_.vocabulary, false);
    add_module(model_, "lm_head", "Linear");
    add_tied(model_, "lm_head.weight", at("shared.weight"));
  }

  void build_head(const std::string& name, std::int64_t out, bool bias) {
    linear(name, c_.width, out, bias);
  }

 private:
  struct Stack {
    std::int64_t layers;
    bool cross_attention;
  };

  std::string at(std::string_view name) const { return joined(prefix_, name); }

  void linear(const std::string& name, std::int64_t in, std::int64_t out, bool bias = false) {
    add_linear(model_, name, {.in = in, .out = out, .bias = bias},
               c_.factor / std::sqrt(static_cast<double>(in)));
  }

  void norm(const std::string& name) {
    add_norm(model_, name,
             {.kind = NormKind::rms_norm,
              .class_name = "T5LayerNorm",
              .width = c_.width,
              .epsilon = c_.epsilon});
  }

  void dropout(const std::string& name) { add_module(model_, name, "Dropout"); }

  void build_stack(const std::string& name, const Stack& stack) {
    add_module(model_, name, "T5Stack");
    add_module(model_, name + ".embed_tokens", "Embedding");
    add_tied(model_, name + ".embed_tokens.weight", at("shared.weight"));
    add_module(model_, name + ".block", "ModuleList");
    for (std::int64_t layer = 0; layer < stack.layers; ++layer)
      build_block(fmt::format("{}.block.{}", name, layer), stack, layer == 0);
    norm(name + ".final_layer_norm");
    dropout(name + ".dropout");
  }

  void build_block(const std::string& name, const Stack& stack, bool first) {
    add_module(model_, name, "T5Block");
    add_module(model_, name + ".layer", "ModuleList");
    int part = 0;
    const auto next = [&] { return fmt::format("{}.layer.{}", name, part++); };
    build_attention(next(), {"T5LayerSelfAttention", "SelfAttention", first});
    if (stack.cross_attention)
      build_attention(next(), {"T5LayerCrossAttention", "EncDecAttention", false});
    build_feed_forward(next());
  }

  struct Attention {
    std::string_view layer_class;
    std::string_view name;
    bool position_bias;  ///< a table of biases by distance, in a stack's first block only
  };

  void build_attention(const std::string& layer, const Attention& attention) {
    const std::int64_t inner = c_.heads * c_.key_width;
    add_module(model_, layer, attention.layer_class);
    const std::string name = joined(layer, attention.name);
    add_module(model_, name, "T5Attention");
    for (const char* projection : {"q", "k", "v"})
      linear(joined(name, projection), c_.width, inner);
    linear(name + ".o", inner, c_.width);
    if (attention.position_bias)
      add_embedding(model_, name + ".relative_attention_bias", {c_.buckets, c_.heads},
                    c_.factor / std::sqrt(static_cast<double>(c_.width)));
    norm(layer + ".layer_norm");
    dropout(layer + ".dropout");
  }

  void build_feed_forward(const std::string& layer) {
    const bool gated = c_.feed_forward.gated;
    add_module(model_, layer, "T5LayerFF");
    const std::string name = layer + ".DenseReluDense";
    add_module(model_, name, gated ? "T5DenseGatedActDense" : "T5DenseActDense");
    linear(name + (gated ? ".wi_0" : ".wi"), c_.width, c_.inner);
    if (gated) linear(name + ".wi_1", c_.width, c_.inner);
    linear(name + ".wo", c_.inner, c_.width);
    dropout(name + ".dropout");
    add_module(model_, name + ".act", activation_class(c_.feed_forward.activation));
    norm(layer + ".layer_norm");
    dropout(layer + ".dropout");
  }

  const T5Config& c_;
  Model& model_;
  std::string prefix_;
};

void build_classification_head(const ConfigReader& config, const T5Config& t5, T5Builder& builder,
                               Model& model) {
  const std::string name = "classification_head";
  add_module(model, name, "T5ClassificationHead");
  builder.build_head(name + ".dense", t5.width, true);
  add_module(model, name + ".dropout", "Dropout");
  builder.build_head(name + ".out_proj", config.labels(), true);
}

/// What each class is made of. A nested model stands under "transformer".
struct Parts {
  std::string_view class_name;
  std::string_view nested_class;  ///< empty: encoder and decoder are the class's own
  bool decoder;
};

constexpr Parts known_parts[] = {
    {"T5ForConditionalGeneration", "", true},
    {"T5Model", "", true},
    {"T5EncoderModel", "", false},
    {"T5ForQuestionAnswering", "", true},
    {"T5ForSequenceClassification", "T5Model", true},
    {"T5ForTokenClassification", "T5EncoderModel", false},
};

void build_parts(const Parts& parts, const T5Config& t5, T5Builder& builder, Model& model) {
  const std::string prefix = parts.nested_class.empty() ? "" : "transformer";
  if (!prefix.empty()) add_module(model, prefix, parts.nested_class);
  builder.build_shared(prefix);
  builder.build_encoder(!parts.decoder && t5.is_decoder);
  if (parts.decoder) builder.build_decoder();
}

void build_t5(const ConfigReader& config, Model& model) {
  const T5Config t5 = read_config(config);
  model.base_model_prefix = "transformer";
  model.no_split_classes = model.no_split_classes_of_class = {"T5Block"};
  model.keep_in_fp32 = {"wo"};
  model.dropout =
      std::max(config.probability("dropout_rate"), config.probability("classifier_dropout"));
  model.why_no_decoder = "model_type t5: an encoder beside the decoder, relative position biases";
  add_module(model, "", model.class_name);
  T5Builder builder(t5, model);
  for (const Parts& parts : known_parts)
    if (parts.class_name == model.class_name) build_parts(parts, t5, builder, model);
  if (model.class_name == "T5ForConditionalGeneration") builder.build_language_head();
  if (model.class_name == "T5ForQuestionAnswering")
    builder.build_head("qa_outputs", config.labels(), true);
  if (model.class_name == "T5ForSequenceClassification")
    build_classification_head(config, t5, builder, model);
  if (model.class_name == "T5ForTokenClassification") {
    add_module(model, "dropout", "Dropout");
    builder.build_head("classifier", config.labels(), true);
  }
}

void complete_t5(ConfigFields& fields, TransformersVersion version) {
  fields.set_where_null("num_decoder_layers", fields.text("num_layers"));
  const std::string quoted = fields.text("feed_forward_proj");
  if (const auto parsed = parse_feed_forward(quoted.substr(1, quoted.size() - 2))) {
    fields.set("dense_act_fn", '"' + parsed->activation + '"');
    fields.set("is_gated_act", parsed->gated ? "true" : "false");
  }
  if (version == TransformersVersion::v4) return;
  const bool tied = fields.text("tie_word_embeddings") != "false";
  fields.set("scale_decoder_outputs", tied ? "true" : "false");
  fields.set("tie_word_embeddings", "true");
}

/// The encoder alone changes the config that it is built from.
void construct_t5(ConfigFields& fields, const Model& model) {
  const auto parts = std::find_if(std::begin(known_parts), std::end(known_parts),
                                  [&](const Parts& p) { return p.class_name == model.class_name; });
  if (parts->decoder) return;
  fields.set("use_cache", "false");
  fields.set("is_encoder_decoder", "false");
}

/// Source: transformers 5.23, configuration_t5.py, class T5Config.
constexpr std::string_view default_config = R"({
  "classifier_dropout": 0.0, "d_ff": 2048, "d_kv": 64, "d_model": 512, "dropout_rate": 0.1, "eos_token_id": 1,
  "feed_forward_proj": "relu", "initializer_factor": 1.0, "is_decoder": false, "is_encoder_decoder": true,
  "layer_norm_epsilon": 1e-06, "model_type": "t5", "num_decoder_layers": null, "num_heads": 8, "num_layers": 6,
  "pad_token_id": 0, "relative_attention_max_distance": 128, "relative_attention_num_buckets": 32,
  "tie_word_embeddings": null, "use_cache": true, "vocab_size": 32128})";

/// Source: transformers 4.57.6, the same class.
constexpr std::string_view default_config_4 = R"({
  "classifier_dropout": 0.0, "d_ff": 2048, "d_kv": 64, "d_model": 512, "dropout_rate": 0.1, "eos_token_id": 1,
  "feed_forward_proj": "relu", "initializer_factor": 1.0, "is_encoder_decoder": true, "layer_norm_epsilon": 1e-06,
  "model_type": "t5", "num_decoder_layers": null, "num_heads": 8, "num_layers": 6, "pad_token_id": 0,
  "relative_attention_max_distance": 128, "relative_attention_num_buckets": 32, "use_cache": true,
  "vocab_size": 32128})";

}  // namespace

ModelFamily t5_family() {
  ModelFamily family{.model_type = "t5",
                     .default_class = "T5ForConditionalGeneration",
                     .classes = {},
                     .generating_classes = {"T5ForConditionalGeneration"},
                     .default_config = default_config,
                     .default_config_4 = default_config_4,
                     .config_aliases = {{"hidden_size", "d_model"},
                                        {"num_attention_heads", "num_heads"},
                                        {"num_hidden_layers", "num_layers"},
                                        {"head_dim", "d_kv"}},
                     .has_sdpa_4 = false,
                     .complete = complete_t5,
                     .construct = construct_t5,
                     .build = build_t5};
  for (const Parts& parts : known_parts) family.classes.push_back(parts.class_name);
  return family;
}

}  // namespace shardscope
