#include "core/model/bert_encoder.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/model/activations.h"
#include "core/model/modules.h"

namespace shardscope {
namespace {

void check_heads(const ConfigReader& config, const BertConfig& c) {
  if (c.width % c.heads != 0 && !config.find("embedding_size"))
    throw config.error("hidden_size",
                       fmt::format("hidden_size {} is not a multiple of num_attention_heads {}",
                                   c.width, c.heads));
}

double largest_dropout(const ConfigReader& config) {
  double largest = std::max(config.probability("hidden_dropout_prob"),
                            config.probability("attention_probs_dropout_prob"));
  if (config.find("classifier_dropout"))
    largest = std::max(largest, config.probability("classifier_dropout"));
  return largest;
}

/// Transformers 4 has a class per kind of attention, sdpa by default, and positions relative to
/// each other.
void read_attention(const ConfigReader& config, BertConfig& c) {
  const bool v4 = config.version() == TransformersVersion::v4;
  const auto implementation = config.find("attn_implementation");
  const bool eager = implementation && implementation->string() == "eager";
  c.self_attention = v4 && !eager ? "SdpaSelfAttention" : "SelfAttention";
  c.cross_attention_class = v4 ? c.self_attention : "CrossAttention";
  if (!v4) return;
  const std::string positions = config.text("position_embedding_type");
  c.relative_positions = positions == "relative_key" || positions == "relative_key_query";
}

}  // namespace

BertConfig read_bert_config(const ConfigReader& config, std::string_view class_prefix) {
  BertConfig c{.class_prefix = class_prefix};
  c.vocabulary = config.size({"vocab_size"});
  c.positions = config.size({"max_position_embeddings"});
  c.token_types = config.size({"type_vocab_size"});
  c.width = config.size({"hidden_size"});
  c.heads = config.size({"num_attention_heads"});
  c.layers = config.layers({"num_hidden_layers"});
  c.inner = config.size({"intermediate_size"});
  c.activation = read_activation(config, "hidden_act");
  c.epsilon = config.positive("layer_norm_eps");
  c.deviation = config.probability("initializer_range");
  c.dropout = largest_dropout(config);
  c.tied = config.flag("tie_word_embeddings");
  c.cross_attention = config.flag("add_cross_attention");
  check_heads(config, c);
  if (c.cross_attention && !config.flag("is_decoder"))
    throw config.error("add_cross_attention", "add_cross_attention true needs is_decoder true");
  read_attention(config, c);
  return c;
}

std::string BertBuilder::class_name(std::string_view name) const {
  return std::string(c_.class_prefix).append(name);
}

void BertBuilder::embedding(const std::string& name, std::int64_t rows) {
  add_embedding(model_, name, {rows, c_.width}, c_.deviation);
}

void BertBuilder::linear(const std::string& name, std::int64_t in, std::int64_t out) {
  add_linear(model_, name, {.in = in, .out = out}, c_.deviation);
}

void BertBuilder::norm(const std::string& name) {
  add_norm(model_, name, {.width = c_.width, .epsilon = c_.epsilon});
}

void BertBuilder::dropout(const std::string& name) { add_module(model_, name, "Dropout"); }

void BertBuilder::build_base(const std::string& prefix, bool pooler) {
  if (!prefix.empty()) add_module(model_, prefix, class_name("Model"));
  build_embeddings(joined(prefix, "embeddings"));
  const std::string encoder = joined(prefix, "encoder");
  add_module(model_, encoder, class_name("Encoder"));
  add_module(model_, encoder + ".layer", "ModuleList");
  for (std::int64_t layer = 0; layer < c_.layers; ++layer)
    build_layer(fmt::format("{}.layer.{}", encoder, layer));
  if (!pooler) return;
  const std::string name = joined(prefix, "pooler");
  add_module(model_, name, class_name("Pooler"));
  linear(name + ".dense", c_.width, c_.width);
  add_module(model_, name + ".activation", "Tanh");
}

void BertBuilder::build_embeddings(const std::string& name) {
  add_module(model_, name, class_name("Embeddings"));
  for (const char* buffer : {"position_ids", "token_type_ids"})
    model_.buffers.push_back({.name = joined(name, buffer),
                              .shape = {1, c_.positions},
                              .dtype = Dtype::int64,
                              .persistent = false});
  embedding(name + ".word_embeddings", c_.vocabulary);
  word_embedding_ = name + ".word_embeddings.weight";
  const std::string positions = name + ".position_embeddings";
  if (c_.position_order == PositionOrder::second) embedding(positions, c_.positions);
  embedding(name + ".token_type_embeddings", c_.token_types);
  norm(name + ".LayerNorm");
  dropout(name + ".dropout");
  if (c_.position_order == PositionOrder::last) embedding(positions, c_.positions);
}

void BertBuilder::build_layer(const std::string& name) {
  add_module(model_, name, class_name("Layer"));
  build_attention(name + ".attention", c_.self_attention, c_.relative_positions);
  if (c_.cross_attention)
    build_attention(name + ".crossattention", c_.cross_attention_class, false);
  add_module(model_, name + ".intermediate", class_name("Intermediate"));
  linear(name + ".intermediate.dense", c_.width, c_.inner);
  add_module(model_, name + ".intermediate.intermediate_act_fn", activation_class(c_.activation));
  build_output(name + ".output", "Output", c_.inner);
}

void BertBuilder::build_attention(const std::string& name, std::string_view attention_class,
                                  bool relative) {
  const std::int64_t head_width = c_.width / c_.heads;
  const std::string self = name + ".self";
  add_module(model_, name, class_name("Attention"));
  add_module(model_, self, class_name(attention_class));
  for (const char* projection : {"query", "key", "value"})
    linear(joined(self, projection), c_.width, c_.heads * head_width);
  dropout(self + ".dropout");
  if (relative)
    add_embedding(model_, self + ".distance_embedding", {2 * c_.positions - 1, head_width},
                  c_.deviation);
  build_output(name + ".output", "SelfOutput", c_.width);
}

void BertBuilder::build_output(const std::string& name, std::string_view output_class,
                               std::int64_t in) {
  add_module(model_, name, class_name(output_class));
  linear(name + ".dense", in, c_.width);
  norm(name + ".LayerNorm");
  dropout(name + ".dropout");
}

void BertBuilder::build_decoder(const std::string& name, const std::string& bias) {
  const bool bias_tied = c_.tied || model_.transformers == TransformersVersion::v4;
  const LinearShape shape{.in = c_.width, .out = c_.vocabulary, .bias = !bias_tied};
  if (c_.tied) {
    add_module(model_, name, "Linear");
    add_tied(model_, name + ".weight", word_embedding_);
  } else {
    add_linear(model_, name, shape, c_.deviation);
  }
  if (bias_tied) add_tied(model_, name + ".bias", bias);
}

}  // namespace shardscope
