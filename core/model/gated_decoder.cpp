#include "core/model/gated_decoder.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "core/model/activations.h"
#include "core/model/config_rules.h"
#include "core/model/heads.h"
#include "core/model/modules.h"

namespace shardscope {
namespace {

constexpr double fixed_epsilon = 1e-5;

struct Sizes {
  std::int64_t vocabulary, positions, width, inner, layers, heads, kv_heads, head_dim;
  std::string activation;
  double epsilon, deviation;
  bool tied;
  RopeParameters rope;
};

void check_divides(const ConfigReader& config, std::string_view key, std::int64_t size,
                   std::string_view part_key, std::int64_t part) {
  if (size % part != 0)
    throw config.error(key == "num_attention_heads" ? part_key : key,
                       fmt::format("{} {} is not a multiple of {} {}", key, size, part_key, part));
}

Sizes read_sizes(const ConfigReader& config, const GatedDecoder& relative) {
  Sizes s{};
  s.vocabulary = config.size({"vocab_size"});
  s.positions = config.size({"max_position_embeddings"});
  s.width = config.size({"hidden_size"});
  s.inner = config.size({"intermediate_size"});
  s.layers = config.layers({"num_hidden_layers"});
  s.heads = config.size({"num_attention_heads"});
  s.kv_heads = relative.needs_kv_heads
                   ? config.size({"num_key_value_heads"})
                   : config.optional_size("num_key_value_heads").value_or(s.heads);
  if (relative.whole_heads && config.version() == TransformersVersion::v5)
    check_divides(config, "hidden_size", s.width, "num_attention_heads", s.heads);
  check_divides(config, "num_attention_heads", s.heads, "num_key_value_heads", s.kv_heads);
  s.head_dim = config.optional_size(relative.head_dim_key).value_or(s.width / s.heads);
  if (s.head_dim == 0)
    throw config.error("hidden_size", fmt::format("hidden_size {} is below num_attention_heads {}",
                                                  s.width, s.heads));
  s.activation = relative.activation.empty() ? read_activation(config, relative.activation_key)
                                             : std::string(relative.activation);
  s.epsilon = relative.epsilon_key.empty() ? fixed_epsilon : config.positive(relative.epsilon_key);
  s.deviation = config.deviation("initializer_range");
  const bool older_key = !relative.tied_key.empty() && config.find(relative.tied_key);
  s.tied = config.flag(older_key ? relative.tied_key : "tie_word_embeddings");
  if (!relative.rotary_types.empty()) {
    if (s.head_dim % 2 != 0)
      throw config.error("head_dim", fmt::format("expected an even number, got {}", s.head_dim));
    s.rope.frequencies = s.head_dim / 2;
  } else
    s.rope = read_rope_parameters(config, relative.rope, s.head_dim, s.positions);
  config.check_padding_token(s.vocabulary);
  if (config.version() == TransformersVersion::v5 || config.declares("layer_types"))
    check_layer_types(config, relative.mixer_layer_type);
  return s;
}

class Builder {
 public:
  Builder(const ConfigReader& config, const GatedDecoder& relative, const Sizes& sizes,
          Model& model)
      : config_(config), relative_(relative), s_(sizes), model_(model) {}

  void build_base(std::string prefix) {
    prefix_ = std::move(prefix);
    if (!prefix_.empty()) add_module(model_, prefix_, of_family(relative_.base_class));
    decoder_.token_embedding =
        add_embedding(model_, at("embed_tokens"),
                      {s_.vocabulary, s_.width, relative_.embedding_class}, s_.deviation);
    add_module(model_, at("layers"), "ModuleList");
    for (std::int64_t layer = 0; layer < s_.layers; ++layer)
      decoder_.blocks.push_back(build_layer(layer));
    const std::string_view dropout = relative_.dropout_before_final_norm;
    const bool norm_last = relative_.final_norm_last || !dropout.empty();
    if (!norm_last) decoder_.final_norm = norm(at(relative_.final_norm), s_.width);
    build_rotary_embedding();
    if (relative_.finish_base) relative_.finish_base(config_, prefix_, shape_of(0), model_);
    if (!norm_last) return;
    if (!dropout.empty()) add_module(model_, at(dropout), "Dropout");
    decoder_.final_norm = norm(at(relative_.final_norm), s_.width);
  }

  void build_language_head() {
    decoder_.head = add_language_head(model_,
                                      {.embedding = decoder_.token_embedding,
                                       .tied = s_.tied,
                                       .bias = relative_.head_bias,
                                       .width = s_.width,
                                       .vocabulary = s_.vocabulary},
                                      s_.deviation);
    finish_decoder();
  }

 private:
  std::string at(std::string_view name) const { return joined(prefix_, name); }
  std::string of_family(std::string_view class_name) const {
    return std::string(relative_.name) + std::string(class_name);
  }

  std::string of_part(std::string_view class_name) const {
    return of_family(std::string(relative_.part_prefix) + std::string(class_name));
  }
  FeedForward shape_of(std::int64_t layer) const {
    return {.layer = layer,
            .width = s_.width,
            .inner = s_.inner,
            .activation = s_.activation,
            .standard_deviation = s_.deviation};
  }

  void add_rotary(std::string_view name) {
    add_module(model_, at(name), of_part("RotaryEmbedding"));
    add_rotary_buffers(model_, at(name), s_.rope.frequencies);
  }

  void build_rotary_embedding() {
    if (relative_.rotary_types.empty()) return add_rotary(relative_.rotary_name);
    if (model_.transformers == TransformersVersion::v4) {
      add_rotary("rotary_emb");
      return add_rotary("rotary_emb_local");
    }
    add_module(model_, at("rotary_emb"), of_part("RotaryEmbedding"));
    for (const std::string& type : relative_.rotary_types) {
      const bool wide = type == "full_attention" && relative_.full_head_dim > 0;
      add_rotary_buffers(model_, at("rotary_emb"),
                         wide ? relative_.full_head_dim / 2 : s_.rope.frequencies, type + "_");
    }
  }

  Norm norm(const std::string& name, std::int64_t width) {
    const bool rms = relative_.norm == NormKind::rms_norm;
    if (relative_.weightless_norms) {
      add_module(model_, name, of_family(relative_.norm_class));
      return {.module = name, .epsilon = s_.epsilon};
    }
    return add_norm(model_, name,
                    {.kind = relative_.norm,
                     .class_name = rms ? of_family(relative_.norm_class) : "LayerNorm",
                     .width = width,
                     .epsilon = s_.epsilon});
  }

  Linear linear(const std::string& name, std::int64_t in, std::int64_t out, bool bias) {
    return add_linear(model_, name, {.in = in, .out = out, .bias = bias}, s_.deviation);
  }

  DecoderBlock build_layer(std::int64_t layer) {
    const std::string name = at(fmt::format("layers.{}", layer));
    DecoderBlock block{.module = name};
    add_module(model_, name, of_part("DecoderLayer"));
    if (relative_.order == LayerOrder::norms_feed_forward_attention) {
      build_norms(name, block);
      build_feed_forward(name, layer, block);
      build_mixer(name, layer, block);
    } else if (relative_.order == LayerOrder::attention_norms_feed_forward) {
      build_mixer(name, layer, block);
      build_norms(name, block);
      build_feed_forward(name, layer, block);
    } else {
      build_mixer(name, layer, block);
      build_feed_forward(name, layer, block);
      build_norms(name, block);
    }
    for (const std::string_view part : relative_.dropouts)
      add_module(model_, joined(name, part), "Dropout");
    if (relative_.finish_layer) relative_.finish_layer(config_, name, shape_of(layer), model_);
    return block;
  }

  AttentionParts parts_of(std::int64_t layer) const {
    return {
        .layer = layer, .width = s_.width, .heads = s_.heads, .standard_deviation = s_.deviation};
  }

  void build_mixer(const std::string& name, std::int64_t layer, DecoderBlock& block) {
    if (relative_.mixer && relative_.mixer(config_, name, parts_of(layer), model_)) return;
    build_attention(name + ".self_attn", layer, block);
  }

  void build_norms(const std::string& layer, DecoderBlock& block) {
    std::vector<Norm> norms;
    for (const std::string_view part : relative_.norms)
      norms.push_back(norm(joined(layer, part), s_.width));
    block.attention_norm = norms[0];
    block.mlp_norm = norms.back();
  }

  void build_attention(const std::string& name, std::int64_t layer, DecoderBlock& block) {
    add_module(model_, name, of_part(relative_.attention_class));
    if (relative_.attention_sinks)
      add_parameter(model_, name + ".sinks", {s_.heads}, {.standard_deviation = s_.deviation});
    if (relative_.attention) return relative_.attention(config_, name, parts_of(layer), model_);
    const std::int64_t query = s_.heads * s_.head_dim;
    const std::int64_t key = s_.kv_heads * s_.head_dim;
    if (relative_.packed_attention) {
      block.attention_out = linear(name + ".o_proj", query, s_.width, relative_.out_bias);
      block.qkv = {linear(name + ".qkv_proj", s_.width, query + 2 * key, relative_.qkv_bias)};
      return;
    }
    for (const auto& [part, size] :
         {std::pair{".q_proj", query}, {".k_proj", key}, {".v_proj", key}})
      block.qkv.push_back(linear(name + part, s_.width, size, relative_.qkv_bias));
    block.attention_out =
        linear(joined(name, relative_.out_projection), query, s_.width, relative_.out_bias);
    if (relative_.dropout_and_rotary_in_attention) {
      add_module(model_, name + ".attention_dropout", "Dropout");
      add_module(model_, name + ".rotary_emb", of_family("RotaryEmbedding"));
      add_rotary_buffers(model_, name + ".rotary_emb", s_.rope.frequencies);
    }
    build_head_norms(name, query, key);
    if (!relative_.attention_gate.empty())
      linear(joined(name, relative_.attention_gate), s_.width, query, false);
  }

  void build_head_norms(const std::string& attention, std::int64_t query, std::int64_t key) {
    if (relative_.query_key_norms == QueryKeyNorms::none) return;
    const bool whole = relative_.query_key_norms == QueryKeyNorms::whole;
    norm(joined(attention, relative_.query_norm), whole ? query : s_.head_dim);
    norm(joined(attention, relative_.key_norm), whole ? key : s_.head_dim);
  }

  void build_feed_forward(const std::string& name, std::int64_t layer, DecoderBlock& block) {
    const std::string mlp = name + ".mlp";
    if (relative_.feed_forward)
      return relative_.feed_forward(config_, name, shape_of(layer), model_);
    add_module(model_, mlp, of_family("MLP"));
    block.mlp = MlpKind::swiglu;
    if (relative_.packed_feed_forward) {
      block.mlp_in = {linear(mlp + ".gate_up_proj", s_.width, 2 * s_.inner, relative_.mlp_bias)};
    } else {
      for (const char* part : {".gate_proj", ".up_proj"})
        block.mlp_in.push_back(linear(mlp + part, s_.width, s_.inner, relative_.mlp_bias));
    }
    block.mlp_out = linear(mlp + ".down_proj", s_.inner, s_.width, relative_.mlp_bias);
    add_module(model_, mlp + (relative_.packed_feed_forward ? ".activation_fn" : ".act_fn"),
               activation_class(s_.activation));
  }

  std::string why_no_decoder() const {
    if (!relative_.why_no_decoder.empty()) return relative_.why_no_decoder;
    if (s_.activation != "silu" && s_.activation != "swish")
      return fmt::format("{} {} (known is silu)", relative_.activation_key, s_.activation);
    return s_.rope.why_not;
  }

  void finish_decoder() {
    model_.why_no_decoder = why_no_decoder();
    if (!model_.why_no_decoder.empty()) return;
    decoder_.vocabulary = s_.vocabulary;
    decoder_.width = s_.width;
    decoder_.heads = s_.heads;
    decoder_.kv_heads = s_.kv_heads;
    decoder_.head_dim = s_.head_dim;
    decoder_.max_positions = s_.positions;
    decoder_.attention_scale = 1 / std::sqrt(static_cast<double>(s_.head_dim));
    decoder_.rope = s_.rope.rope;
    model_.decoder = std::move(decoder_);
  }

  const ConfigReader& config_;
  const GatedDecoder& relative_;
  const Sizes& s_;
  Model& model_;
  std::string prefix_;
  Decoder decoder_;
};

/// Source: modeling_layers.py, GenericForTokenClassification.
void add_token_head(const ConfigReader& config, const Sizes& sizes, Model& model) {
  const bool chosen = config.version() == TransformersVersion::v5;
  const auto bias = chosen ? config.find("token_classification_bias") : std::nullopt;
  add_label_head(model,
                 {.width = sizes.width,
                  .labels = config.labels(),
                  .bias = !bias || bias->boolean(),
                  .dropout = true},
                 sizes.deviation);
}

}  // namespace

void build_gated_decoder(const ConfigReader& config, const GatedDecoder& relative, Model& model) {
  const Sizes sizes = read_sizes(config, relative);
  const std::string_view task = task_of(model, relative.name);
  const std::string base(task == "ForQuestionAnswering" ? relative.question_prefix : "model");
  model.base_model_prefix = relative.base_model_prefix.value_or(base);
  model.no_split_classes = model.no_split_classes_of_class = {
      std::string(relative.name) + std::string(relative.part_prefix) + "DecoderLayer"};
  if (relative.attention_dropout) model.dropout = config.probability("attention_dropout");
  add_module(model, "", model.class_name);
  Builder builder(config, relative, sizes, model);
  const bool is_base = task == relative.base_class;
  const bool generic_head = !is_base && task != "ForCausalLM";
  const Dtype outer = model.dtype;
  if (generic_head) model.dtype = config.part_dtype().value_or(outer);
  builder.build_base(is_base ? "" : base);
  if (task == "ForCausalLM") return builder.build_language_head();
  model.dtype = outer;
  model.why_no_decoder = no_language_head(model);
  if (task == "ForTokenClassification") add_token_head(config, sizes, model);
  add_common_head(config, task, sizes.width, sizes.deviation, model);
  model.dtype = model.parameters.front().dtype;  // the property of that name
}

void refuse_query_key_norms(const ConfigReader& config) {
  if (config.flag("qk_layernorm"))
    throw config.error(
        "qk_layernorm",
        "norms of query and key are not simulated; export the model (docs/own_models.md)");
}

void add_scale(Model& model, const std::string& embedding) {
  model.buffers.push_back(
      {.name = embedding + ".embed_scale", .shape = {}, .dtype = model.dtype, .persistent = false});
}

void add_embedding_scale(Model& model) {
  const std::string embedding = model.parameters.front().name;
  model.buffers.insert(model.buffers.begin(),
                       {.name = embedding.substr(0, embedding.rfind('.')) + ".embed_scale",
                        .shape = {},
                        .dtype = model.dtype,
                        .persistent = false});
}

}  // namespace shardscope
