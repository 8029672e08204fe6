// Gemma 4, its text model. Source: transformers 5.24, models/gemma4/modeling_gemma4.py and
// configuration_gemma4.py, class Gemma4TextConfig.
#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/activations.h"
#include "core/model/config_rules.h"
#include "core/model/family.h"
#include "core/model/gated_decoder.h"
#include "core/model/modules.h"
#include "core/model/packed_experts.h"

namespace shardscope {
namespace {

constexpr std::int64_t usual_pattern = 6, usual_full_head_dim = 512, most_of_a_size = 1 << 26;
constexpr const char* way_out = "export the model (docs/own_models.md)";

bool slides(std::int64_t layer) { return (layer + 1) % usual_pattern != 0; }

/// The last layer sees all, whatever layer_types says.
bool slides_in(const ConfigReader& config, std::int64_t layer) {
  if (layer + 1 == config.layers({"num_hidden_layers"})) return false;
  const auto types = config.find("layer_types");
  return types ? (*types)[static_cast<std::size_t>(layer)].string() == "sliding_attention"
               : slides(layer);
}

/// What per_layer_config says of a layer; configs that Google publishes have none.
std::optional<std::int64_t> of_layer(const ConfigReader& config, std::int64_t layer,
                                     std::string_view key) {
  const auto all = config.find("per_layer_config");
  const auto own = all ? all->find(std::to_string(layer)) : std::nullopt;
  const auto value = own ? own->find(key) : std::nullopt;
  if (!value) return std::nullopt;
  return value->integer(1, most_of_a_size);
}

/// Layers of full attention, of which the last one is always one, have heads of their own size.
std::int64_t full_head_dim(const ConfigReader& config) {
  const std::int64_t last = config.layers({"num_hidden_layers"}) - 1;
  if (config.find("per_layer_config"))
    return of_layer(config, last, "head_dim").value_or(config.size({"head_dim"}));
  return config.optional_size("global_head_dim").value_or(usual_full_head_dim);
}

std::int64_t key_value_heads(const ConfigReader& config, std::int64_t layer, bool same_values) {
  const std::int64_t usual = config.size({"num_key_value_heads"});
  if (config.find("per_layer_config"))
    return of_layer(config, layer, "num_key_value_heads").value_or(usual);
  return same_values ? config.optional_size("num_global_key_value_heads").value_or(usual) : usual;
}

/// The key that says what layers of full attention have of their own.
std::string_view key_of_full_layers(const ConfigReader& config, std::string_view otherwise) {
  return config.find("per_layer_config") ? "per_layer_config" : otherwise;
}

/// Of an input of its own for each layer; 0: there is none.
std::int64_t own_width(const ConfigReader& config) {
  constexpr std::string_view key = "hidden_size_per_layer_input";
  const std::int64_t width = config.integer(key);
  if (width < 0 || width > most_of_a_size)
    throw config.error(key, fmt::format("expected 0 to {}, got {}", most_of_a_size, width));
  return width;
}

/// Whether the layer reads another one's keys and values.
bool reads_others_keys(const ConfigReader& config, std::int64_t layer) {
  return layer >= config.layers({"num_hidden_layers"}) - config.integer("num_kv_shared_layers");
}

/// Each once, in alphabetical order.
std::vector<std::string> types_of(const ConfigReader& config) {
  const std::int64_t layers = config.layers({"num_hidden_layers"});
  for (std::int64_t layer = 0; layer < layers; ++layer)
    if (slides_in(config, layer)) return {"full_attention", "sliding_attention"};
  return {"full_attention"};
}

struct LayerHeads {
  std::int64_t layer, heads, kv_heads, head_dim;
};

/// Layers of a type have heads of one size, which rotation halves, and groups of whole heads.
void check_layer(const ConfigReader& config, const LayerHeads& l) {
  if (l.heads % l.kv_heads != 0)
    throw config.error(key_of_full_layers(config, "num_global_key_value_heads"),
                       fmt::format("{} heads do not divide over {} key and value heads of layer {}",
                                   l.heads, l.kv_heads, l.layer));
  const std::string_view key = key_of_full_layers(config, "global_head_dim");
  if (l.head_dim % 2 != 0)
    throw config.error(
        key, fmt::format("heads of layer {} have {} elements, an odd number", l.layer, l.head_dim));
  if (!config.find("per_layer_config")) return;
  const std::int64_t own =
      of_layer(config, l.layer, "head_dim").value_or(config.size({"head_dim"}));
  if (own != l.head_dim)
    throw config.error(key, fmt::format("layer {} has heads of {} elements, others of its type {}",
                                        l.layer, own, l.head_dim));
}

void add_norm_of(Model& model, const std::string& name, std::int64_t width) {
  add_norm(model, name,
           {.kind = NormKind::rms_norm, .class_name = "Gemma4RMSNorm", .width = width});
}

void build_attention(const ConfigReader& config, const std::string& attention,
                     const AttentionParts& shape, Model& model) {
  const bool full = !slides_in(config, shape.layer);
  const bool bias = config.flag("attention_bias");
  const bool same_values = full && config.flag("attention_k_eq_v");
  const std::int64_t head = full ? full_head_dim(config) : config.size({"head_dim"});
  const std::int64_t kv_heads = key_value_heads(config, shape.layer, same_values);
  check_layer(config,
              {.layer = shape.layer, .heads = shape.heads, .kv_heads = kv_heads, .head_dim = head});
  const auto project = [&](const char* part, std::int64_t in, std::int64_t out) {
    add_linear(model, attention + part, {.in = in, .out = out, .bias = bias},
               shape.standard_deviation);
  };
  project(".q_proj", shape.width, shape.heads * head);
  add_norm_of(model, attention + ".q_norm", head);
  if (!reads_others_keys(config, shape.layer)) {
    add_norm_of(model, attention + ".k_norm", head);
    add_module(model, attention + ".v_norm", "Gemma4RMSNorm");
    project(".k_proj", shape.width, kv_heads * head);
    if (!same_values) project(".v_proj", shape.width, kv_heads * head);
  }
  project(".o_proj", shape.heads * head, shape.width);
}

void build_feed_forward(const ConfigReader& config, const std::string& layer,
                        const FeedForward& shape, Model& model) {
  FeedForward wide = shape;
  if (config.flag("use_double_wide_mlp") && reads_others_keys(config, shape.layer)) wide.inner *= 2;
  add_dense_feed_forward(model, layer + ".mlp", "Gemma4TextMLP", wide);
}

void build_experts(const ConfigReader& config, const std::string& layer, const FeedForward& shape,
                   Model& model) {
  const std::int64_t experts = config.layers({"num_experts"});
  check_experts(config, "num_experts", experts, "top_k_experts");
  const Initialization ones{.kind = Initialization::Kind::ones};
  const std::string router = layer + ".router";
  add_module(model, router, "Gemma4TextRouter");
  add_parameter(model, router + ".scale", {shape.width}, ones);
  add_parameter(model, router + ".per_expert_scale", {experts}, ones);
  add_module(model, router + ".norm", "Gemma4RMSNorm");
  add_linear(model, router + ".proj", {.in = shape.width, .out = experts, .bias = false},
             shape.standard_deviation);
  FeedForward expert = shape;
  expert.inner = config.size({"moe_intermediate_size"});
  add_packed_experts(model, layer + ".experts", {"Gemma4TextExperts", experts}, expert);
  for (const char* norm : {".post_feedforward_layernorm_1", ".post_feedforward_layernorm_2",
                           ".pre_feedforward_layernorm_2"})
    add_norm_of(model, layer + norm, shape.width);
}

/// A factor of the layer, the input of its own for each layer, and experts.
void finish_layer(const ConfigReader& config, const std::string& layer, const FeedForward& shape,
                  Model& model) {
  model.buffers.push_back({.name = layer + ".layer_scalar", .shape = {1}, .dtype = model.dtype});
  if (const std::int64_t own = own_width(config); own > 0) {
    add_module(model, layer + ".act_fn", activation_class(shape.activation));
    add_linear(model, layer + ".per_layer_input_gate",
               {.in = shape.width, .out = own, .bias = false}, shape.standard_deviation);
    add_linear(model, layer + ".per_layer_projection",
               {.in = own, .out = shape.width, .bias = false}, shape.standard_deviation);
    add_norm_of(model, layer + ".post_per_layer_input_norm", shape.width);
  }
  if (config.flag("enable_moe_block")) build_experts(config, layer, shape, model);
}

/// The embedding of all layers' own inputs.
void finish_base(const ConfigReader& config, const std::string& base, const FeedForward& shape,
                 Model& model) {
  const std::int64_t own = own_width(config);
  if (own == 0) return;
  const std::int64_t all = own * config.layers({"num_hidden_layers"});
  const std::string embedding = joined(base, "embed_tokens_per_layer");
  add_embedding(model, embedding,
                {config.size({"vocab_size_per_layer_input"}), all, "Gemma4TextScaledWordEmbedding"},
                shape.standard_deviation);
  add_scale(model, embedding);
  add_linear(model, joined(base, "per_layer_model_projection"),
             {.in = shape.width, .out = all, .bias = false}, shape.standard_deviation);
  add_norm_of(model, joined(base, "per_layer_projection_norm"), own);
}

/// A layer that shares keys and values reads those of an earlier layer of its type.
void check_sharing(const ConfigReader& config) {
  constexpr std::string_view key = "num_kv_shared_layers";
  const std::int64_t layers = config.layers({"num_hidden_layers"});
  const std::int64_t shared = config.integer(key);
  if (shared < 0 || shared >= layers)
    throw config.error(key, fmt::format("expected 0 to {}, got {}", layers - 1, shared));
  std::set<bool> with_keys;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const bool slides = slides_in(config, layer);
    if (!reads_others_keys(config, layer))
      with_keys.insert(slides);
    else if (!with_keys.contains(slides))
      throw config.error(key,
                         fmt::format("layer {} reads keys of an earlier layer of {} attention, "
                                     "and there is none",
                                     layer, slides ? "sliding" : "full"));
  }
}

/// With "vision" the text model looks back only.
void check_direction(const ConfigReader& config) {
  constexpr std::string_view key = "use_bidirectional_attention";
  const auto direction = config.find(key);
  if (!direction || direction->string() == "vision") return;
  if (direction->string() != "all") throw config.error(key, "expected all, vision or null");
  throw config.error(key, "attention in both directions is not simulated", way_out);
}

void build_gemma4(const ConfigReader& config, Model& model) {
  check_direction(config);
  check_layer_types(config);
  if (const auto types = config.find("layer_types"))
    for (const JsonValue& type : types->elements())
      if (type.string() != "full_attention" && type.string() != "sliding_attention")
        throw type.error("Gemma 4 has full_attention and sliding_attention alone");
  check_rope_parameters(config);
  check_sharing(config);
  GatedDecoder gemma4{.name = "Gemma4",
                      .part_prefix = "Text",
                      .base_class = "TextModel",
                      .activation_key = "hidden_activation",
                      .norms = {"input_layernorm", "post_attention_layernorm",
                                "pre_feedforward_layernorm", "post_feedforward_layernorm"},
                      .rotary_types = types_of(config),
                      .full_head_dim = full_head_dim(config),
                      .needs_kv_heads = true,
                      .feed_forward = build_feed_forward,
                      .attention = build_attention,
                      .finish_layer = finish_layer,
                      .finish_base = finish_base,
                      .why_no_decoder = "norms after each part, sliding window"};
  gemma4.embedding_class = "Gemma4TextScaledWordEmbedding";
  build_gated_decoder(config, gemma4, model);
  add_embedding_scale(model);
  model.no_split_classes =
      model.no_split_classes_of_class = {"Gemma4AudioLayer", "Gemma4TextDecoderLayer",
                                         "Gemma4VisionEncoderLayer", "Gemma4VisionPatchEmbedder"};
}

void complete_gemma4(ConfigFields& fields, TransformersVersion) {
  fill_layer_types(fields, [](std::int64_t layer) { return slides(layer); });
  nlohmann::json types = nlohmann::json::parse(fields.text("layer_types"));
  if (types.is_array() && !types.empty()) types.back() = "full_attention";
  fields.set("layer_types", types.dump());
}

/// The constructor's keys become a config for each layer of full attention.
void fill_layer_configs(ConfigFields& fields) {
  if (fields.is_null("per_layer_config")) {
    nlohmann::json own{{"head_dim", usual_full_head_dim}};
    if (!fields.is_null("global_head_dim")) own["head_dim"] = fields.integer("global_head_dim", 1);
    if (fields.is_true("attention_k_eq_v") && !fields.is_null("num_global_key_value_heads"))
      own["num_key_value_heads"] = fields.integer("num_global_key_value_heads", 1);
    const nlohmann::json types = nlohmann::json::parse(fields.text("layer_types"));
    nlohmann::json all = nlohmann::json::object();
    for (std::size_t i = 0; i < types.size(); ++i)
      if (types[i] == "full_attention") all[std::to_string(i)] = own;
    fields.set("per_layer_config", all.dump());
  }
  fields.erase("global_head_dim");
  fields.erase("num_global_key_value_heads");
}

void construct_gemma4(ConfigFields& fields, const Model&) {
  fill_layer_configs(fields);
  fields.set_where_null("rope_parameters", R"({
    "full_attention": {"partial_rotary_factor": 0.25, "rope_theta": 1000000.0, "rope_type": "proportional"},
    "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"}})");
}

/// Source: transformers 5.24, configuration_gemma4.py, class Gemma4TextConfig.
constexpr std::string_view default_config = R"({
  "attention_bias": false, "attention_dropout": 0.0, "attention_k_eq_v": false, "bos_token_id": 2,
  "enable_moe_block": false, "eos_token_id": 1, "final_logit_softcapping": null, "head_dim": 256,
  "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 2304, "hidden_size_per_layer_input": 256,
  "initializer_range": 0.02, "intermediate_size": 9216, "layer_types": null, "max_position_embeddings": 131072,
  "model_type": "gemma4_text", "moe_intermediate_size": null, "num_attention_heads": 8, "num_experts": null,
  "num_hidden_layers": 30, "num_key_value_heads": 4, "num_kv_shared_layers": 0, "pad_token_id": 0,
  "rms_norm_eps": 1e-06, "rope_parameters": null, "sliding_window": 512, "tie_word_embeddings": true,
  "top_k_experts": null, "use_bidirectional_attention": null, "use_cache": true, "use_double_wide_mlp": false,
  "vocab_size": 262144, "vocab_size_per_layer_input": 262144})";

}  // namespace

ModelFamily gemma4_text_family() {
  return {.model_type = "gemma4_text",
          .default_class = "Gemma4ForCausalLM",
          .classes = {"Gemma4ForCausalLM", "Gemma4TextModel"},
          .generating_classes = {"Gemma4ForCausalLM"},
          .default_config = default_config,
          .complete = complete_gemma4,
          .construct = construct_gemma4,
          .build = build_gemma4};
}

}  // namespace shardscope
