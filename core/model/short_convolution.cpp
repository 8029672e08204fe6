#include "core/model/short_convolution.h"

#include <cstdint>
#include <nlohmann/json.hpp>

#include "core/model/modules.h"

namespace shardscope {
namespace {

constexpr std::string_view layer_type = "conv";
constexpr std::int64_t most_layers = 4096;

bool has_attention(const ConfigReader& config, std::int64_t layer) {
  if (const auto types = config.find("layer_types")) {
    const JsonValue type = (*types)[static_cast<std::size_t>(layer)];
    if (type.string() == layer_type) return false;
    if (type.string() != "full_attention")
      throw type.error("LFM2 has conv and full_attention alone");
    return true;
  }
  const auto full = config.find("full_attn_idxs");
  if (!full) return true;
  for (const JsonValue& number : full->elements())
    if (number.integer() == layer) return true;
  return false;
}

bool build_convolution(const ConfigReader& config, const std::string& layer,
                       const AttentionParts& shape, Model& model) {
  if (has_attention(config, shape.layer)) return false;
  if (config.flag("conv_bias"))
    throw config.error("conv_bias", "convolutions with a bias are not simulated",
                       "export the model (docs/own_models.md)");
  const std::string name = layer + ".conv";
  add_module(model, name,
             model.class_name.starts_with("Lfm2Moe") ? "Lfm2MoeShortConv" : "Lfm2ShortConv");
  add_module(model, name + ".conv", "Conv1d");
  add_parameter(model, name + ".conv.weight", {shape.width, 1, config.size({"conv_L_cache"})},
                {.standard_deviation = shape.standard_deviation});
  add_linear(model, name + ".in_proj", {.in = shape.width, .out = 3 * shape.width, .bias = false},
             shape.standard_deviation);
  add_linear(model, name + ".out_proj", {.in = shape.width, .out = shape.width, .bias = false},
             shape.standard_deviation);
  return true;
}

}  // namespace

GatedDecoder short_convolution_decoder(std::string_view name) {
  return {.name = name,
          .activation = "silu",
          .rope = {.default_theta = "1000000.0"},
          .query_key_norms = QueryKeyNorms::each_head,
          .attention_dropout = false,
          .query_norm = "q_layernorm",
          .key_norm = "k_layernorm",
          .out_projection = "out_proj",
          .epsilon_key = "norm_eps",
          .norms = {"operator_norm", "ffn_norm"},
          .final_norm = "embedding_norm",
          .final_norm_last = true,
          .needs_kv_heads = true,
          .mixer = build_convolution,
          .mixer_layer_type = layer_type,
          .why_no_decoder = "layers of short convolutions"};
}

void add_numbered_feed_forward(Model& model, const std::string& name, std::string_view class_name,
                               const FeedForward& shape) {
  add_module(model, name, class_name);
  const auto linear = [&](const char* part, std::int64_t in, std::int64_t out) {
    add_linear(model, name + part, {.in = in, .out = out, .bias = false}, shape.standard_deviation);
  };
  linear(".w1", shape.width, shape.inner);
  linear(".w3", shape.width, shape.inner);
  linear(".w2", shape.inner, shape.width);
}

void complete_short_convolutions(ConfigFields& fields) {
  if (!fields.is_null("layer_types")) return;
  const std::int64_t layers = fields.integer("num_hidden_layers", 0, most_layers);
  nlohmann::json full = nlohmann::json::parse(fields.text("full_attn_idxs"));
  if (!full.is_array()) {
    full = nlohmann::json::array();
    for (std::int64_t layer = 0; layer < layers; ++layer) full.push_back(layer);
    fields.set("full_attn_idxs", full.dump());
  }
  nlohmann::json types = nlohmann::json::array();
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    bool attends = false;
    for (const auto& number : full) attends = attends || number == layer;
    types.push_back(attends ? "full_attention" : layer_type);
  }
  fields.set("layer_types", types.dump());
}

}  // namespace shardscope
