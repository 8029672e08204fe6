// Llama 4's text model. Source: transformers 5.24, models/llama4/modeling_llama4.py and
// configuration_llama4.py.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "core/model/config_rules.h"
#include "core/model/family.h"
#include "core/model/gated_decoder.h"
#include "core/model/modules.h"
#include "core/model/packed_experts.h"

namespace shardscope {
namespace {

constexpr std::int64_t most_layers = 4096, usual_interval = 4;

/// Whether a list of layers' flags, in spite of its name 1 for a layer with rotary embedding, or
/// without one every fourth layer, says that this one has none.
bool turns(const ConfigReader& config, std::int64_t layer) {
  const auto given = config.find("no_rope_layers");
  if (!given || given->size() == 0)
    return (layer + 1) % config.optional_size("no_rope_layer_interval").value_or(usual_interval) !=
           0;
  if (layer >= static_cast<std::int64_t>(given->size()))
    throw given->error(fmt::format("has {} entries, num_hidden_layers is {}", given->size(),
                                   config.layers({"num_hidden_layers"})));
  return (*given)[static_cast<std::size_t>(layer)].integer() != 0;
}

bool has_experts(const ConfigReader& config, std::int64_t layer) {
  if (const auto given = config.find("moe_layers")) {
    const auto layers = given->elements();
    return std::any_of(layers.begin(), layers.end(),
                       [&](const JsonValue& one) { return one.integer() == layer; });
  }
  return (layer + 1) % config.layers({"interleave_moe_layer_step"}) == 0;
}

void add_feed_forward(Model& model, const std::string& name, const FeedForward& shape) {
  add_module(model, name, "Llama4TextMLP");
  const auto linear = [&](const char* part, std::int64_t in, std::int64_t out) {
    add_linear(model, name + part, {.in = in, .out = out, .bias = false}, shape.standard_deviation);
  };
  linear(".gate_proj", shape.width, shape.inner);
  linear(".up_proj", shape.width, shape.inner);
  linear(".down_proj", shape.inner, shape.width);
  add_module(model, name + ".activation_fn", activation_class(shape.activation));
}

/// Experts, whose weights lie as [E, in, out], a router and an expert that all tokens go through.
void build_feed_forward(const ConfigReader& config, const std::string& layer,
                        const FeedForward& shape, Model& model) {
  const std::string name = layer + ".feed_forward";
  if (!has_experts(config, shape.layer)) {
    FeedForward dense = shape;
    dense.inner = config.size({"intermediate_size_mlp"});
    return add_feed_forward(model, name, dense);
  }
  const std::int64_t experts = config.layers({"num_local_experts"});
  check_experts(config, "num_local_experts", experts);
  const Initialization drawn{.standard_deviation = shape.standard_deviation};
  add_module(model, name, "Llama4TextMoe");
  const std::string stack = name + ".experts";
  add_module(model, stack, "Llama4TextExperts");
  add_parameter(model, stack + ".gate_up_proj", {experts, shape.width, 2 * shape.inner}, drawn);
  add_parameter(model, stack + ".down_proj", {experts, shape.inner, shape.width}, drawn);
  add_module(model, stack + ".act_fn", activation_class(shape.activation));
  add_router(model, name + ".router", {"Llama4Router", experts}, shape);
  add_feed_forward(model, name + ".shared_expert", shape);
}

void build_attention(const ConfigReader& config, const std::string& name,
                     const AttentionParts& shape, Model& model) {
  const bool bias = config.flag("attention_bias");
  const std::int64_t head = config.size({"head_dim"});
  const std::int64_t query = shape.heads * head;
  const std::int64_t key = config.optional_size("num_key_value_heads").value_or(shape.heads) * head;
  const auto linear = [&](const char* part, std::int64_t in, std::int64_t out) {
    add_linear(model, name + part, {.in = in, .out = out, .bias = bias}, shape.standard_deviation);
  };
  linear(".q_proj", shape.width, query);
  linear(".k_proj", shape.width, key);
  linear(".v_proj", shape.width, key);
  linear(".o_proj", query, shape.width);
  if (config.flag("use_qk_norm") && turns(config, shape.layer))
    add_module(model, name + ".qk_norm", "Llama4TextL2Norm");
}

void build_llama4(const ConfigReader& config, Model& model) {
  const bool is_base = model.class_name == "Llama4TextModel";
  build_gated_decoder(config,
                      {.name = "Llama4",
                       .part_prefix = "Text",
                       .base_class = "TextModel",
                       .rope = {.default_theta = "500000.0"},
                       .norm_class = "TextRMSNorm",
                       .base_model_prefix = is_base ? "model" : "language_model",
                       .feed_forward = build_feed_forward,
                       .attention = build_attention,
                       .why_no_decoder = "mixture of experts, attention in chunks"},
                      model);
}

/// An empty list counts as none.
void fill_no_rope_layers(ConfigFields& fields) {
  const auto given = nlohmann::json::parse(fields.text("no_rope_layers"));
  if (!given.is_null() && !given.empty()) return;
  const std::int64_t interval = fields.integer("no_rope_layer_interval", 1);
  const std::int64_t layers = fields.integer("num_hidden_layers", 0, most_layers);
  nlohmann::json turned = nlohmann::json::array();
  for (std::int64_t layer = 0; layer < layers; ++layer)
    turned.push_back((layer + 1) % interval != 0 ? 1 : 0);
  fields.set("no_rope_layers", turned.dump());
}

void fill_moe_layers(ConfigFields& fields) {
  if (!fields.is_null("moe_layers")) return;
  const std::int64_t step = fields.integer("interleave_moe_layer_step", 1, most_layers);
  const std::int64_t layers = fields.integer("num_hidden_layers", 0, most_layers);
  nlohmann::json with_experts = nlohmann::json::array();
  for (std::int64_t layer = step - 1; layer < layers; layer += step) with_experts.push_back(layer);
  fields.set("moe_layers", with_experts.dump());
}

/// Layers with a rotary embedding see a chunk.
void fill_chunked_layers(ConfigFields& fields) {
  if (!fields.is_null("layer_types")) return;
  const bool chunks = !fields.is_null("attention_chunk_size");
  nlohmann::json types = nlohmann::json::array();
  for (const auto& turned : nlohmann::json::parse(fields.text("no_rope_layers")))
    types.push_back(chunks && turned != 0 ? "chunked_attention" : "full_attention");
  fields.set("layer_types", types.dump());
}

void complete_llama4(ConfigFields& fields, TransformersVersion) {
  fill_key_value_heads(fields);
  fill_head_dim(fields);
  fill_no_rope_layers(fields);
  fill_moe_layers(fields);
  fill_chunked_layers(fields);
}

/// Source: transformers 5.24, configuration_llama4.py, class Llama4TextConfig.
constexpr std::string_view default_config = R"({
  "attention_bias": false, "attention_chunk_size": 8192, "attention_dropout": 0.0, "attn_scale": 0.1,
  "attn_temperature_tuning": true, "bos_token_id": 1, "eos_token_id": 2, "floor_scale": 8192, "head_dim": 128,
  "hidden_act": "silu", "hidden_size": 5120, "initializer_range": 0.02, "interleave_moe_layer_step": 1,
  "intermediate_size": 8192, "intermediate_size_mlp": 16384, "layer_types": null, "max_position_embeddings": 131072,
  "model_type": "llama4_text", "moe_layers": null, "no_rope_layer_interval": 4, "no_rope_layers": null,
  "num_attention_heads": 40, "num_experts_per_tok": 1, "num_hidden_layers": 48, "num_key_value_heads": 8,
  "num_local_experts": 16, "output_router_logits": false, "pad_token_id": null, "rms_norm_eps": 1e-05,
  "rope_parameters": null, "router_aux_loss_coef": 0.001, "router_jitter_noise": 0.0, "tie_word_embeddings": false,
  "use_cache": true, "use_qk_norm": true, "vocab_size": 202048})";

}  // namespace

ModelFamily llama4_text_family() {
  return {.model_type = "llama4_text",
          .default_class = "Llama4ForCausalLM",
          .classes = {"Llama4ForCausalLM", "Llama4TextModel"},
          .generating_classes = {"Llama4ForCausalLM"},
          .default_config = default_config,
          .rope = RopeKeys{.default_theta = "500000.0"},
          .complete = complete_llama4,
          .build = build_llama4};
}

}  // namespace shardscope
