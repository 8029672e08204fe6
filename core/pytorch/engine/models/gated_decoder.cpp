// Llama's forwards and those of its relatives, from gemma to starcoder2. Source: transformers 5.23
// and 5.24, models/*/modeling_*.py.
#include <array>
#include <tuple>
#include <utility>

#include "core/pytorch/engine/aten/indexing.h"
#include "core/pytorch/engine/aten/norm.h"
#include "core/pytorch/engine/aten/random.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/models/adaption_prompt.h"
#include "core/pytorch/engine/models/attention_interface.h"
#include "core/pytorch/engine/models/heads.h"
#include "core/pytorch/engine/models/layers.h"
#include "core/pytorch/engine/models/liger.h"
#include "core/pytorch/engine/models/masks.h"
#include "core/pytorch/engine/models/rotary.h"
#include "core/pytorch/engine/models/torchtitan_attention.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

constexpr double any_factor = 0.5;

struct AttentionShape {
  std::int64_t heads = 0, kv_heads = 0, head_size = 0;
  double dropout = 0;
  bool soft_cap = false;
};

AttentionShape attention_shape(const ModelConfig& config) {
  AttentionShape shape;
  shape.heads = config.integer("num_attention_heads");
  shape.kv_heads = config.find_integer("num_key_value_heads").value_or(shape.heads);
  shape.head_size =
      config.find_integer("head_dim").value_or(config.integer("hidden_size") / shape.heads);
  shape.dropout = config.find_number("attention_dropout").value_or(0);
  shape.soft_cap = !config.lacks("attn_logit_softcapping");
  return shape;
}

/// A projection of the hidden states as heads, with a norm of each head where the family has one.
Tensor projected(Session& s, Module& module, const Tensor& hidden, const char* projection,
                 const char* norm, std::int64_t head_size) {
  Tensor states = call_one(s, module.child(projection), {hidden});
  states = view(s, std::move(states), {hidden.size(0), hidden.size(1), -1, head_size});
  if (norm && has_child(module, norm)) states = call_one(s, module.child(norm), {states});
  return transpose(s, std::move(states), 1, 2);
}

struct Projections {
  Tensor query, key, value;
  Tensor fused;  ///< where they were cut from: a local variable of forward's
  Tensor gate;   ///< of what attention gives (AFMoE)
};

/// Phi-3's fused projection, cut by slices.
Projections cut_projections(Session& s, Module& module, const Tensor& hidden,
                            const AttentionShape& shape) {
  const Tensor fused = call_one(s, module.child("qkv_proj"), {hidden});
  const std::int64_t query_end = shape.heads * shape.head_size;
  const std::int64_t key_end = query_end + shape.kv_heads * shape.head_size;
  const auto as_heads = [&](const Tensor& states) {
    return transpose(s, view(s, states, {hidden.size(0), hidden.size(1), -1, shape.head_size}), 1,
                     2);
  };
  Tensor query = slice(s, fused, -1, 0, query_end);
  Tensor key = slice(s, fused, -1, query_end, key_end);
  Tensor value = slice(s, fused, -1, key_end);
  query = as_heads(query);
  key = as_heads(key);
  value = as_heads(value);
  return {std::move(query), std::move(key), std::move(value), fused};
}

/// OLMo and its relatives: all three, from OLMo 2 on behind norms of all heads together, and where
/// the config says so cut off at a number.
template <bool normed, bool clips>
Projections project_whole(Session& s, Module& module, const Tensor& hidden,
                          const AttentionShape& shape) {
  const auto states_of = [&](const char* projection, const char* norm) {
    Tensor states = call_one(s, module.child(projection), {hidden});
    return normed && norm ? call_one(s, module.child(norm), {states}) : states;
  };
  Projections out;
  out.query = states_of("q_proj", "q_norm");
  out.key = states_of("k_proj", "k_norm");
  out.value = states_of("v_proj", nullptr);
  for (Tensor* states : {&out.query, &out.key, &out.value}) {
    if (clips) *states = clamp_(s, std::move(*states));
    *states = view(s, std::move(*states), {hidden.size(0), hidden.size(1), -1, shape.head_size});
    *states = transpose(s, std::move(*states), 1, 2);
  }
  return out;
}

/// Query and key turned, and the local variables of forward that live until it returns.
struct Turned {
  Tensor query, key;
  Tensors locals;
};

/// PhiAttention and StableLmAttention: a part of each head is turned in forward itself.
Turned turn_parts(Session& s, const Tensor& query, const Tensor& key, const Tensor& cos,
                  const Tensor& sin) {
  const std::int64_t size = cos.size(-1);
  Tensor query_part = indexed_slice(s, query, -1, 0, size);
  const Tensor query_rest = indexed_slice(s, query, -1, size);
  Tensor key_part = indexed_slice(s, key, -1, 0, size);
  const Tensor key_rest = indexed_slice(s, key, -1, size);
  std::tie(query_part, key_part) = apply_rotary(s, query_part, key_part, cos, sin);
  Tensor turned_query = cat(s, {query_part, query_rest}, -1);
  Tensor turned_key = cat(s, {key_part, key_rest}, -1);
  return {
      std::move(turned_query), std::move(turned_key), {query_part, query_rest, key_part, key_rest}};
}

/// Gemma 3: norms of each head's query and key, after all projections.
Projections project_then_norm(Session& s, Module& module, const Tensor& hidden,
                              const AttentionShape& shape) {
  Projections out;
  out.query = projected(s, module, hidden, "q_proj", nullptr, shape.head_size);
  out.key = projected(s, module, hidden, "k_proj", nullptr, shape.head_size);
  out.value = projected(s, module, hidden, "v_proj", nullptr, shape.head_size);
  out.query = call_one(s, module.child("q_norm"), {out.query});
  out.key = call_one(s, module.child("k_norm"), {out.key});
  return out;
}

/// Query, key and value as (batch, tokens, heads, head size).
Projections project_as_heads(Session& s, Module& module, const Tensor& hidden,
                             const AttentionShape& shape) {
  const auto as_heads = [&](const char* projection) {
    Tensor states = call_one(s, module.child(projection), {hidden});
    return view(s, std::move(states), {hidden.size(0), hidden.size(1), -1, shape.head_size});
  };
  Projections out;
  out.query = as_heads("q_proj");
  out.key = as_heads("k_proj");
  out.value = as_heads("v_proj");
  return out;
}

/// GLM-4.5: norms of the heads, where it has them, after all projections.
Projections project_before_norms(Session& s, Module& module, const Tensor& hidden,
                                 const AttentionShape& shape) {
  Projections out = project_as_heads(s, module, hidden, shape);
  if (has_child(module, "q_norm")) {
    out.query = call_one(s, module.child("q_norm"), {out.query});
    out.key = call_one(s, module.child("k_norm"), {out.key});
  }
  for (Tensor* states : {&out.query, &out.key, &out.value})
    *states = transpose(s, std::move(*states), 1, 2);
  return out;
}

struct HeadNorms {
  const char *query = "q_norm", *key = "k_norm";
};

Projections project_named(Session& s, Module& module, const Tensor& hidden, std::int64_t head_size,
                          const HeadNorms& norms) {
  Projections out;
  out.query = projected(s, module, hidden, "q_proj", norms.query, head_size);
  out.key = projected(s, module, hidden, "k_proj", norms.key, head_size);
  out.value = projected(s, module, hidden, "v_proj", nullptr, head_size);
  return out;
}

Projections project_lfm2(Session& s, Module& module, const Tensor& hidden,
                         const AttentionShape& shape) {
  return project_named(s, module, hidden, shape.head_size, {"q_layernorm", "k_layernorm"});
}

Projections project_each(Session& s, Module& module, const Tensor& hidden,
                         const AttentionShape& shape) {
  return project_named(s, module, hidden, shape.head_size, {});
}

/// AFMoE: a gate beside query, key and value, and norms of the heads after all of them.
Projections project_gated(Session& s, Module& module, const Tensor& hidden,
                          const AttentionShape& shape) {
  Projections out = project_as_heads(s, module, hidden, shape);
  out.gate = call_one(s, module.child("gate_proj"), {hidden});
  out.query = transpose(s, call_one(s, module.child("q_norm"), {out.query}), 1, 2);
  out.key = transpose(s, call_one(s, module.child("k_norm"), {out.key}), 1, 2);
  out.value = transpose(s, std::move(out.value), 1, 2);
  return out;
}

/// One of rotary.h's functions: nothing of it outlives the call.
template <std::pair<Tensor, Tensor> (*Apply)(Session& s, const Tensor& query, const Tensor& key,
                                             const Tensor& cos, const Tensor& sin)>
Turned turn_by(Session& s, const Tensor& query, const Tensor& key, const Tensor& cos,
               const Tensor& sin) {
  auto [turned_query, turned_key] = Apply(s, query, key, cos, sin);
  return {std::move(turned_query), std::move(turned_key), {}};
}

/// SmolLM3: some layers have no rotary embedding.
bool turns(const ModelConfig& config, std::size_t layer) {
  const auto turned = config.find("no_rope_layers");
  return !turned || layer >= turned->size() || (*turned)[layer].integer() != 0;
}

/// EXAONE 4: where a window is used, layers that see all have no rotary embedding.
bool turns_where_it_slides(const ModelConfig& config, std::size_t layer) {
  return config.lacks("sliding_window") || config.layer_type(layer) == "sliding_attention";
}

/// AFMoE and Cohere 2: layers that see all have no rotary embedding.
bool turns_where_local(const ModelConfig& config, std::size_t layer) {
  return config.layer_type(layer) == "sliding_attention";
}

/// In what the families' attentions differ.
struct AttentionForm {
  Projections (*project)(Session& s, Module& module, const Tensor& hidden,
                         const AttentionShape& shape) = project_each;
  Turned (*turn)(Session& s, const Tensor& query, const Tensor& key, const Tensor& cos,
                 const Tensor& sin) = turn_by<apply_rotary>;
  const char* out = "o_proj";
  bool (*turns_in)(const ModelConfig& config, std::size_t layer) = turns;
  bool scales_query = false;                ///< Ministral 3: by the position
  bool norms_turned = false;                ///< Hunyuan: norms of the heads come after
  bool sinks = false;                       ///< gpt-oss: a number for each head beside the scores
  const char* dropout_of_output = nullptr;  ///< key of its probability; null: there is none
};

/// get_llama_4_attn_scale of modeling_ministral3.py, on the query: by the position ids (1, T).
Tensor scaled_by_position(Session& s, const Tensor& query, const Tensor& positions) {
  Tensor scale = floor(s, div(s, positions, 1.0));
  scale = log(s, add(s, std::move(scale), 1));
  scale = add(s, mul(s, std::move(scale), any_factor), 1);
  scale = unsqueeze(s, unsqueeze(s, std::move(scale), 1), 3);
  return mul(s, query, to(s, std::move(scale), query.dtype()));
}

/// {hidden states, mask, cos, sin, position ids}.
Module::Forward attention_of(const Context& context, const Module& owner,
                             const AttentionForm& form) {
  const AttentionShape shape = attention_shape(context->config);
  const std::size_t layer = layer_number(owner.name);
  const bool is_turned = form.turns_in(context->config, layer);
  const auto turn = context->settings.liger.rope ? turn_by<liger_rotary> : form.turn;
  const double dropped =
      form.dropout_of_output ? context->config.number(form.dropout_of_output) : 0;
  return [=](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Tensor& hidden = arguments[0];
    Projections states = form.project(s, module, hidden, shape);
    const LetGo let_go{states.query, states.key, states.value, states.fused, states.gate};
    Tensors locals;
    if (is_turned) {
      Turned turned = turn(s, states.query, states.key, arguments[2], arguments[3]);
      states.query = std::move(turned.query);
      states.key = std::move(turned.key);
      locals = std::move(turned.locals);
    }
    if (form.norms_turned) {
      states.query = call_one(s, module.child("query_layernorm"), {states.query});
      states.key = call_one(s, module.child("key_layernorm"), {states.key});
    }
    if (form.scales_query) states.query = scaled_by_position(s, states.query, arguments[4]);
    std::tie(states.key, states.value) = cached(s, context, layer, states.key, states.value);
    AttentionResult result = attend(s, context,
                                    {.query = states.query,
                                     .key = states.key,
                                     .value = states.value,
                                     .mask = arguments[1],
                                     .dropout = module.training ? shape.dropout : 0,
                                     .groups = shape.heads / shape.kv_heads,
                                     .soft_cap = shape.soft_cap,
                                     .sinks = form.sinks ? module.parameter("sinks") : Tensor()});
    if (has_adaption_prompt(module))
      result.output = with_adaption_prompt(s, {.module = module,
                                               .query = states.query,
                                               .attended = std::move(result.output),
                                               .project = [&](const Tensor& prompt) {
                                                 Projections of =
                                                     form.project(s, module, prompt, shape);
                                                 return std::pair(of.key, of.value);
                                               }});
    Tensor output = contiguous(s, reshape(s, result.output, {hidden.size(0), hidden.size(1), -1}));
    result.output.reset();
    if (states.gate) output = mul(s, std::move(output), sigmoid(s, states.gate));
    output = call_one(s, module.child(form.out), {output});
    output = dropout(s, std::move(output), dropped, module.training);
    return {std::move(output), std::move(result.weights)};
  };
}

Module::Forward attention(const Context& context, const Module& owner) {
  return attention_of(context, owner, {});
}
Module::Forward llama_attention(const Context& context, const Module& owner) {
  if (context->settings.torchtitan_attention)
    return torchtitan_attention(attention_shape(context->config).head_size);
  return attention(context, owner);
}
Module::Forward llama_rotary_embedding(const Context& context, const Module& owner) {
  if (context->settings.torchtitan_attention) return torchtitan_rotations();
  return rotary_embedding_forward(context, owner);
}
Module::Forward afmoe_attention(const Context& context, const Module& owner) {
  return attention_of(context, owner, {.project = project_gated, .turns_in = turns_where_local});
}
Module::Forward gemma3_attention(const Context& context, const Module& owner) {
  return attention_of(context, owner, {.project = project_then_norm});
}
Module::Forward ernie4_5_attention(const Context& context, const Module& owner) {
  return attention_of(context, owner, {.turn = turn_by<apply_float_interleaved_rotary>});
}
Module::Forward exaone4_attention(const Context& context, const Module& owner) {
  return attention_of(context, owner,
                      {.project = project_then_norm, .turns_in = turns_where_it_slides});
}
Module::Forward hunyuan_attention(const Context& context, const Module& owner) {
  return attention_of(context, owner, {.norms_turned = true});
}
Module::Forward minimax_m2_attention(const Context& context, const Module& owner) {
  return attention_of(context, owner,
                      {.project = project_whole<true, false>, .turn = turn_by<apply_neox_rotary>});
}
Module::Forward lfm2_attention(const Context& context, const Module& owner) {
  return attention_of(context, owner, {.project = project_lfm2, .out = "out_proj"});
}
Module::Forward ministral3_attention(const Context& context, const Module& owner) {
  return attention_of(context, owner, {.scales_query = true});
}
Module::Forward cohere_attention(const Context& context, const Module& owner) {
  return attention_of(
      context, owner,
      {.project = project_before_norms, .turn = turn_by<apply_float_paired_rotary>});
}
Module::Forward cohere2_attention(const Context& context, const Module& owner) {
  return attention_of(context, owner,
                      {.turn = turn_by<apply_float_paired_rotary>, .turns_in = turns_where_local});
}
Module::Forward glm4_attention(const Context& context, const Module& owner) {
  return attention_of(context, owner, {.turn = turn_by<apply_interleaved_rotary>});
}
Module::Forward glm4_moe_attention(const Context& context, const Module& owner) {
  return attention_of(context, owner,
                      {.project = project_before_norms, .turn = turn_by<apply_neox_rotary>});
}
Module::Forward gpt_oss_attention(const Context& context, const Module& owner) {
  return attention_of(context, owner, {.turn = turn_by<apply_half_rotary>, .sinks = true});
}
Module::Forward olmo_attention(const Context& context, const Module& owner) {
  const bool clips = !context->config.lacks("clip_qkv");
  return attention_of(context, owner,
                      {.project = clips ? project_whole<false, true> : project_whole<false, false>,
                       .turn = turn_by<apply_float_rotary>});
}
Module::Forward olmoe_attention(const Context& context, const Module& owner) {
  const bool clips = !context->config.lacks("clip_qkv");
  return attention_of(context, owner,
                      {.project = clips ? project_whole<true, true> : project_whole<true, false>});
}
Module::Forward olmo2_attention(const Context& context, const Module& owner) {
  return attention_of(context, owner,
                      {.project = project_whole<true, false>, .turn = turn_by<apply_float_rotary>});
}
Module::Forward phi_attention(const Context& context, const Module& owner) {
  return attention_of(context, owner, {.turn = turn_parts, .out = "dense"});
}
Module::Forward phi3_attention(const Context& context, const Module& owner) {
  return attention_of(context, owner,
                      {.project = cut_projections, .turn = turn_by<apply_partial_rotary>});
}
Module::Forward stablelm_attention(const Context& context, const Module& owner) {
  return attention_of(context, owner, {.turn = turn_parts});
}
Module::Forward starcoder2_attention(const Context& context, const Module& owner) {
  return attention_of(context, owner, {.dropout_of_output = "residual_dropout"});
}

Module::Forward gated_feed_forward(const Context& context, const Module&) {
  if (context->settings.liger.swiglu)
    return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
      Tensor product = [&] {
        const Tensor gate = call_one(s, module.child("gate_proj"), {arguments[0]});
        const Tensor up = call_one(s, module.child("up_proj"), {arguments[0]});
        return liger_silu_mul(s, gate, up);
      }();
      return {call_one(s, module.child("down_proj"), {std::move(product)})};
    };
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    Tensor gate = call_one(s, module.child("gate_proj"), {arguments[0]});
    gate = call_one(s, module.child("act_fn"), {std::move(gate)});
    Tensor up = call_one(s, module.child("up_proj"), {arguments[0]});
    return {call_one(s, module.child("down_proj"), {mul(s, std::move(gate), std::move(up))})};
  };
}

/// SeedOssMLP.
Module::Forward gated_feed_forward_with_dropout(const Context& context, const Module& owner) {
  const double probability = context->config.number("residual_dropout");
  return [probability, plain = gated_feed_forward(context, owner)](
             Session& s, Module& module, const Arguments& arguments) -> Tensors {
    return {dropout(s, plain(s, module, arguments)[0], probability, module.training)};
  };
}

/// GraniteMoeHybridMLP.
Module::Forward granite_hybrid_feed_forward(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    Tensor hidden = call_one(s, module.child("input_linear"), {arguments[0]});
    const Tensors parts = chunk(s, hidden, 2, -1);
    hidden = mul(s, call_one(s, module.child("activation"), {parts[0]}), parts[1]);
    return {call_one(s, module.child("output_linear"), {hidden})};
  };
}

/// PhiMLP.
Module::Forward phi_feed_forward(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    Tensor hidden = call_one(s, module.child("fc1"), {arguments[0]});
    hidden = call_one(s, module.child("activation_fn"), {hidden});
    return {call_one(s, module.child("fc2"), {hidden})};
  };
}

/// ArceeMLP.
Module::Forward ungated_feed_forward(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    Tensor hidden = call_one(s, module.child("up_proj"), {arguments[0]});
    hidden = call_one(s, module.child("act_fn"), {std::move(hidden)});
    return {call_one(s, module.child("down_proj"), {std::move(hidden)})};
  };
}

/// Starcoder2MLP.
Module::Forward starcoder_feed_forward(const Context& context, const Module&) {
  const double probability = context->config.number("residual_dropout");
  return [probability](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    Tensor hidden = call_one(s, module.child("c_fc"), {arguments[0]});
    hidden = call_one(s, module.child("act"), {hidden});
    hidden = call_one(s, module.child("c_proj"), {hidden});
    return {dropout(s, std::move(hidden), probability, module.training)};
  };
}

/// Phi3MLP.
Module::Forward fused_feed_forward(const Context& context, const Module&) {
  if (context->settings.liger.swiglu)
    return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
      const Tensors parts =
          chunk(s, call_one(s, module.child("gate_up_proj"), {arguments[0]}), 2, -1);
      return {call_one(s, module.child("down_proj"), {liger_silu_mul(s, parts[0], parts[1])})};
    };
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    Tensor up = call_one(s, module.child("gate_up_proj"), {arguments[0]});
    const Tensor gate = [&] {
      Tensors parts = chunk(s, up, 2, -1);
      up = std::move(parts[1]);
      return parts[0];
    }();
    up = mul(s, up, call_one(s, module.child("activation_fn"), {gate}));
    return {call_one(s, module.child("down_proj"), {up})};
  };
}

/// `hidden, weights = self.self_attn(hidden_states=hidden, ...)` of a layer.
std::pair<Tensor, Tensor> self_attention(Session& s, Module& layer, const Tensor& hidden,
                                         const Arguments& arguments) {
  Tensors attended = call(s, layer.child("self_attn"),
                          {{hidden, arguments[1], arguments[2], arguments[3], arguments[4]}, 0});
  return {std::move(attended[0]), std::move(attended[1])};
}

/// {hidden states, mask, cos, sin, position ids}.
Module::Forward layer(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    Tensor residual = arguments[0];
    Tensor hidden = call_one(s, module.child("input_layernorm"), {arguments[0]});
    Tensor weights;
    std::tie(hidden, weights) = self_attention(s, module, hidden, arguments);
    hidden = add(s, residual, hidden);
    residual = hidden;
    hidden = call_one(s, module.child("post_attention_layernorm"), {hidden});
    Tensors fed = call(s, module.child("mlp"), {hidden});
    hidden = std::move(fed[0]);
    if (fed.size() > 1) weights = std::move(fed[1]);  // _ of both calls: the router's scores
    hidden = add(s, residual, hidden);
    const LetGo locals{residual, weights};
    return {std::move(hidden)};
  };
}

/// What is added is multiplied first.
Module::Forward layer_with_multiplier_of(const char* feed_forward) {
  return [feed_forward](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    Tensor residual = arguments[0];
    Tensor hidden = call_one(s, module.child("input_layernorm"), {arguments[0]});
    Tensor weights;
    std::tie(hidden, weights) = self_attention(s, module, hidden, arguments);
    hidden = add(s, residual, mul(s, hidden, any_factor));
    residual = hidden;
    hidden = call_one(s, module.child("post_attention_layernorm"), {hidden});
    hidden = call_one(s, module.child(feed_forward), {hidden});
    hidden = add(s, residual, mul(s, hidden, any_factor));
    return {std::move(hidden)};
  };
}

Module::Forward layer_with_multiplier(const Context&, const Module&) {
  return layer_with_multiplier_of("mlp");
}
Module::Forward granite_hybrid_layer(const Context&, const Module&) {
  return layer_with_multiplier_of("shared_mlp");
}

/// Olmo2DecoderLayer: norms after each part.
Module::Forward layer_of_norms_after(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    Tensor residual = arguments[0];
    Tensor hidden, weights;
    std::tie(hidden, weights) = self_attention(s, module, arguments[0], arguments);
    hidden = call_one(s, module.child("post_attention_layernorm"), {hidden});
    hidden = add(s, residual, hidden);
    residual = hidden;
    hidden = call_one(s, module.child("mlp"), {hidden});
    hidden = call_one(s, module.child("post_feedforward_layernorm"), {hidden});
    hidden = add(s, residual, hidden);
    return {std::move(hidden)};
  };
}

/// PhiDecoderLayer: attention and feed-forward part read the same norm.
Module::Forward parallel_layer(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Tensor hidden = call_one(s, module.child("input_layernorm"), {arguments[0]});
    Tensor attended, weights;
    std::tie(attended, weights) = self_attention(s, module, hidden, arguments);
    attended = call_one(s, module.child("resid_dropout"), {attended});
    const Tensor fed =
        call_one(s, module.child("resid_dropout"), {call_one(s, module.child("mlp"), {hidden})});
    return {add(s, add(s, attended, fed), arguments[0])};
  };
}

/// CohereDecoderLayer: as Phi's, without dropout, and its variables live until it returns.
Module::Forward cohere_layer(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Tensor hidden = call_one(s, module.child("input_layernorm"), {arguments[0]});
    const auto [attended, weights] = self_attention(s, module, hidden, arguments);
    const Tensor fed = call_one(s, module.child("mlp"), {hidden});
    return {add(s, add(s, arguments[0], attended), fed)};
  };
}

/// StableLmDecoderLayer.
Module::Forward stablelm_layer(const Context& context, const Module&) {
  const bool parallel = context->config.flag("use_parallel_residual");
  return [parallel](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Tensor hidden = call_one(s, module.child("input_layernorm"), {arguments[0]});
    Tensor attended, weights;
    std::tie(attended, weights) = self_attention(s, module, hidden, arguments);
    const auto fed = [&](const Tensor& input) {
      const Tensor output = call_one(s, module.child("mlp"), {input});
      return call_one(s, module.child("dropout"), {output});
    };
    if (parallel) {
      const Tensor inner = fed(hidden);
      return {add(s, add(s, arguments[0], attended), inner)};
    }
    const Tensor residual = add(s, arguments[0], attended);
    const Tensor inner = fed(call_one(s, module.child("post_attention_layernorm"), {residual}));
    return {add(s, residual, inner)};
  };
}

/// How a layer calls its norms after the first.
struct FourNorms {
  const char *after_attention, *before_mlp, *after_mlp;
};

/// Norms before and after each part.
Module::Forward layer_of_four_norms(const FourNorms& norms) {
  return [=](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    Tensor residual = arguments[0];
    Tensor hidden = call_one(s, module.child("input_layernorm"), {arguments[0]});
    Tensor weights;
    std::tie(hidden, weights) = self_attention(s, module, hidden, arguments);
    hidden = call_one(s, module.child(norms.after_attention), {hidden});
    hidden = add(s, residual, hidden);
    residual = hidden;
    hidden = call_one(s, module.child(norms.before_mlp), {hidden});
    hidden = call_one(s, module.child("mlp"), {hidden});
    hidden = call_one(s, module.child(norms.after_mlp), {hidden});
    hidden = add(s, residual, hidden);
    return {std::move(hidden)};
  };
}

/// Gemma2DecoderLayer and Gemma3DecoderLayer.
Module::Forward gemma_layer(const Context&, const Module&) {
  return layer_of_four_norms(
      {"post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"});
}

Module::Forward afmoe_layer(const Context&, const Module&) {
  return layer_of_four_norms(
      {"post_attention_layernorm", "pre_mlp_layernorm", "post_mlp_layernorm"});
}

/// Glm4DecoderLayer.
Module::Forward glm4_layer(const Context&, const Module&) {
  return layer_of_four_norms(
      {"post_self_attn_layernorm", "post_attention_layernorm", "post_mlp_layernorm"});
}

/// Phi3DecoderLayer: dropout before each sum.
Module::Forward layer_with_dropout(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    Tensor residual = arguments[0];
    Tensor hidden = call_one(s, module.child("input_layernorm"), {arguments[0]});
    Tensor weights;
    std::tie(hidden, weights) = self_attention(s, module, hidden, arguments);
    hidden = add(s, residual, call_one(s, module.child("resid_attn_dropout"), {hidden}));
    residual = hidden;
    hidden = call_one(s, module.child("post_attention_layernorm"), {hidden});
    hidden = call_one(s, module.child("mlp"), {hidden});
    hidden = add(s, residual, call_one(s, module.child("resid_mlp_dropout"), {hidden}));
    return {std::move(hidden)};
  };
}

/// Masks for full and for sliding layers; None: masked by the kernel, or not needed.
struct LayerMasks {
  Tensor full, sliding;
};

/// Which masks a model makes, in their order: those of its layer_types, both where it `always`
/// does, or one kind for all layers.
LayerMasks make_masks(Session& s, const Context& context, MaskRequest request, bool always) {
  const ModelConfig& config = context->config;
  const auto window = config.find_integer("sliding_window");
  const auto types = config.find("layer_types");
  LayerMasks masks;
  if (!types) {
    request.sliding_window = window;
    masks.full = create_causal_mask(s, context, request);
    return masks;
  }
  masks.full = create_causal_mask(s, context, request);
  bool slides = always;
  for (std::size_t i = 0; i < types->size(); ++i)
    slides = slides || (*types)[i].string() == "sliding_attention";
  if (!slides) return masks;
  request.sliding_window = window;
  masks.sliding = create_causal_mask(s, context, request);
  return masks;
}

/// The type of layers that do not see all, and what they see.
struct LocalLayers {
  const char* type = "sliding_attention";
  bool in_chunks = false;   ///< a chunk, not a window
  bool if_present = false;  ///< masks are made of those types alone that there are
};

/// Masks of the types of layers that are present. The order of a set of names, as below.
LayerMasks make_present_masks(Session& s, const Context& context, MaskRequest request,
                              const LocalLayers& local) {
  const ModelConfig& config = context->config;
  const auto types = *config.find("layer_types");
  bool is_full = false, is_local = false;
  for (std::size_t i = 0; i < types.size(); ++i)
    (types[i].string() == local.type ? is_local : is_full) = true;
  LayerMasks masks;
  if (is_full) masks.full = create_causal_mask(s, context, request);
  if (local.in_chunks)
    request.chunk = config.find_integer("attention_chunk_size");
  else
    request.sliding_window = config.find_integer("sliding_window");
  if (is_local) masks.sliding = create_causal_mask(s, context, request);
  return masks;
}

/// {cos, sin} of full and of sliding layers; one for all where `sliding` is empty.
struct LayerTurns {
  Tensors full, sliding;
};

/// Gemma 3: a rotary embedding for each type of layer. transformers goes through a set of names,
/// whose order depends on Python's hash seed; this is the order of PYTHONHASHSEED=0.
LayerTurns turns_by_type(Session& s, const Context& context, Module& rotary, const Tensor& hidden,
                         const Tensor& positions) {
  LayerTurns turns;
  const auto turn = [&](const char* frequencies) {
    return call(s, rotary, {hidden, positions, rotary.buffer(frequencies)});
  };
  const auto types = context->config.find("layer_types");
  bool is_full = false, slides = false;
  for (std::size_t i = 0; types && i < types->size(); ++i)
    ((*types)[i].string() == "sliding_attention" ? slides : is_full) = true;
  if (is_full) turns.full = turn("full_attention_inv_freq");
  if (slides) turns.sliding = turn("sliding_attention_inv_freq");
  return turns;
}

/// In what the families' base models differ.
struct BaseForm {
  const char* final_norm = "norm";
  const char* rotary = "rotary_emb";
  bool cache_first = false;             ///< before the embedding
  bool scales_embeddings = false;       ///< by embedding_multiplier
  const char* scales_hidden = nullptr;  ///< key that says so: after the masks
  bool both_masks = false;              ///< whatever layer_types says
  LocalLayers local = {};
  bool masks_by_position = true;            ///< position ids say whether sequences are packed
  bool passes_positions = true;             ///< position ids are an argument of the layers
  bool turns_by_type = false;               ///< a rotary embedding for each type of layer
  const char* embed_dropout = nullptr;      ///< a child
  const char* dropout_of_hidden = nullptr;  ///< key of its probability; null: there is none
};

/// {input ids, attention mask}.
Module::Forward base_of(const Context& context, const BaseForm& form) {
  const double dropped =
      form.dropout_of_hidden ? context->config.number(form.dropout_of_hidden) : 0;
  const bool scales = form.scales_hidden && context->config.flag(form.scales_hidden);
  return [=](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    if (form.cache_first) start_cache(s, context);
    Tensor embeddings = call_one(s, module.child("embed_tokens"), {arguments[0]});
    if (form.scales_embeddings) embeddings = mul(s, embeddings, any_factor);
    if (!form.cache_first) start_cache(s, context);
    const std::int64_t tokens = embeddings.size(1);
    Tensor positions = add(s, arange(s, tokens, {Dtype::int64, s.settings.device}), 0);
    positions = unsqueeze(s, positions, 0);
    const MaskRequest request{.embeddings = embeddings,
                              .attention_mask = arguments[1],
                              .position_ids = form.masks_by_position ? positions : Tensor()};
    const LayerMasks masks = form.local.if_present
                                 ? make_present_masks(s, context, request, form.local)
                                 : make_masks(s, context, request, form.both_masks);
    if (form.embed_dropout)
      embeddings = call_one(s, module.child(form.embed_dropout), {embeddings});
    Tensor hidden = dropout(s, embeddings, dropped, module.training);
    if (scales) hidden = mul(s, hidden, any_factor);
    Module& rotary = module.child(form.rotary);
    const LayerTurns turns = form.turns_by_type
                                 ? turns_by_type(s, context, rotary, hidden, positions)
                                 : LayerTurns{call(s, rotary, {hidden, positions}), {}};
    std::size_t i = 0;
    for (const Module::Child& layer : module.child("layers").children) {
      const bool slides = context->config.layer_type(i++) == form.local.type;
      const Tensors& turn = slides && !turns.sliding.empty() ? turns.sliding : turns.full;
      hidden = call_one(s, *layer.module,
                        {{hidden, slides ? masks.sliding : masks.full, turn[0], turn[1],
                          form.passes_positions ? positions : Tensor()},
                         1});
    }
    hidden = call_one(s, module.child(form.final_norm), {hidden});
    Tensors outputs = with_cache(context, std::move(hidden));
    const Tensors logits = std::exchange(context->router_logits, {});
    outputs.insert(outputs.end(), logits.begin(), logits.end());
    return outputs;
  };
}

Module::Forward base(const Context& context, const Module&) { return base_of(context, {}); }
Module::Forward base_of_both_masks(const Context& context, const Module&) {
  return base_of(context, {.both_masks = true});
}
Module::Forward afmoe_base(const Context& context, const Module&) {
  return base_of(context, {.cache_first = true,
                           .scales_hidden = "mup_enabled",
                           .both_masks = true,
                           .masks_by_position = false});
}
Module::Forward dots1_base(const Context& context, const Module&) {
  return base_of(context, {.local = {.if_present = true}});
}
Module::Forward gemma3_base(const Context& context, const Module&) {
  return base_of(context, {.both_masks = true, .turns_by_type = true});
}
Module::Forward granite_hybrid_base(const Context& context, const Module&) {
  return base_of(
      context, {.scales_embeddings = true, .masks_by_position = false, .passes_positions = false});
}
Module::Forward granite_base(const Context& context, const Module&) {
  return base_of(context, {.scales_embeddings = true});
}
/// MixtralModel and Qwen3MoeModel.
Module::Forward mixture_base(const Context& context, const Module&) {
  return base_of(context, {.cache_first = true});
}
Module::Forward gpt_oss_base(const Context& context, const Module&) {
  return base_of(context, {.both_masks = true, .masks_by_position = false});
}
Module::Forward llama4_base(const Context& context, const Module&) {
  return base_of(context,
                 {.local = {.type = "chunked_attention", .in_chunks = true, .if_present = true}});
}
/// What convolutions take for a mask is None without padding.
Module::Forward lfm2_base(const Context& context, const Module&) {
  return base_of(context, {.final_norm = "embedding_norm"});
}
Module::Forward lfm2_moe_base(const Context& context, const Module&) {
  return base_of(context, {.final_norm = "embedding_norm", .rotary = "pos_emb"});
}
Module::Forward phi_base(const Context& context, const Module&) {
  return base_of(context, {.final_norm = "final_layernorm", .embed_dropout = "embed_dropout"});
}
Module::Forward starcoder2_base(const Context& context, const Module&) {
  return base_of(context, {.dropout_of_hidden = "embedding_dropout"});
}

/// Olmo2RMSNorm: weighted in float32.
Module::Forward float_rms_norm(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    Tensor hidden = to(s, arguments[0], Dtype::float32);
    Tensor variance = mean(s, pow(s, hidden, 2), {-1}, true);
    const LetGo locals(hidden, variance);
    hidden = mul(s, hidden, rsqrt(s, add(s, variance, 1e-6)));
    return {to(s, mul(s, module.parameter("weight"), hidden), arguments[0].dtype())};
  };
}

/// OlmoLayerNorm: without weights, in float32.
Module::Forward float_layer_norm(const Context&, const Module&) {
  return [](Session& s, Module&, const Arguments& arguments) -> Tensors {
    Tensor hidden = to(s, arguments[0], Dtype::float32);
    return {to(s, layer_norm(s, std::move(hidden), {}), arguments[0].dtype())};
  };
}

/// CohereLayerNorm: without a bias, in float32, by single operators.
Module::Forward cohere_norm(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    Tensor hidden = to(s, arguments[0], Dtype::float32);
    Tensor middle = mean(s, hidden, {-1}, true);
    Tensor variance = mean(s, pow(s, sub(s, hidden, middle), 2), {-1}, true);
    const LetGo locals(hidden, middle, variance);
    {
      Tensor centred = sub(s, hidden, middle);
      hidden = mul(s, std::move(centred), rsqrt(s, add(s, variance, 1e-5)));
    }
    hidden = mul(s, to(s, module.parameter("weight"), Dtype::float32), hidden);
    return {to(s, hidden, arguments[0].dtype())};
  };
}

/// Gemma2RMSNorm: in float32, by 1 + weight.
Module::Forward gemma_norm(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    Tensor output;
    {
      const Tensor x = to(s, arguments[0], Dtype::float32);
      output = mul(s, x, rsqrt(s, add(s, mean(s, pow(s, x, 2), {-1}, true), 1e-6)));
    }
    output = mul(s, output, add(s, to(s, module.parameter("weight"), Dtype::float32), 1.0));
    return {type_as(s, output, arguments[0])};
  };
}

/// Gemma2TextScaledWordEmbedding.
Module::Forward scaled_embedding(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Tensor& weight = module.parameter("weight");
    Tensor embedded = embedding(s, weight, arguments[0]);
    return {mul(s, std::move(embedded), to(s, module.buffer("embed_scale"), weight.dtype()))};
  };
}

constexpr ClassForward table[] = {
    {"AfmoeAttention", afmoe_attention},
    {"AfmoeDecoderLayer", afmoe_layer},
    {"AfmoeForCausalLM", causal_language_forward},
    {"AfmoeMLP", gated_feed_forward},
    {"AfmoeModel", afmoe_base},
    {"AfmoeRMSNorm", float_rms_norm},
    {"AfmoeRotaryEmbedding", rotary_embedding_forward},
    {"ArceeAttention", attention},
    {"ArceeDecoderLayer", layer},
    {"ArceeForCausalLM", causal_language_forward},
    {"ArceeForSequenceClassification", generic_classification_forward},
    {"ArceeForTokenClassification", generic_token_forward},
    {"ArceeMLP", ungated_feed_forward},
    {"ArceeModel", base},
    {"ArceeRMSNorm", rms_norm_forward},
    {"ArceeRotaryEmbedding", rotary_embedding_forward},
    {"CohereAttention", cohere_attention},
    {"CohereDecoderLayer", cohere_layer},
    {"CohereForCausalLM", causal_language_forward},
    {"CohereLayerNorm", cohere_norm},
    {"CohereMLP", gated_feed_forward},
    {"CohereModel", base},
    {"CohereRotaryEmbedding", paired_rotary_embedding_forward},
    {"Cohere2Attention", cohere2_attention},
    {"Cohere2DecoderLayer", cohere_layer},
    {"Cohere2ForCausalLM", causal_language_forward},
    {"Cohere2LayerNorm", cohere_norm},
    {"Cohere2MLP", gated_feed_forward},
    {"Cohere2Model", base_of_both_masks},
    {"Cohere2RotaryEmbedding", paired_rotary_embedding_forward},
    {"DeepseekV3DecoderLayer", layer},
    {"DeepseekV3ForCausalLM", causal_language_forward},
    {"DeepseekV3ForSequenceClassification", generic_classification_forward},
    {"DeepseekV3ForTokenClassification", generic_token_forward},
    {"DeepseekV3MLP", gated_feed_forward},
    {"DeepseekV3Model", mixture_base},
    {"DeepseekV3RMSNorm", rms_norm_forward},
    {"DeepseekV3RotaryEmbedding", rotary_embedding_forward},
    {"Gemma2Attention", attention},
    {"Gemma2DecoderLayer", gemma_layer},
    {"Gemma2ForCausalLM", causal_language_forward},
    {"Gemma2ForSequenceClassification", generic_classification_forward},
    {"Gemma2ForTokenClassification", generic_token_forward},
    {"Gemma2MLP", gated_feed_forward},
    {"Gemma2Model", base_of_both_masks},
    {"Gemma2RMSNorm", gemma_norm},
    {"Gemma2RotaryEmbedding", rotary_embedding_forward},
    {"Gemma2TextScaledWordEmbedding", scaled_embedding},
    {"Dots1Attention", attention},
    {"Dots1DecoderLayer", layer},
    {"Dots1ForCausalLM", causal_language_forward},
    {"Dots1MLP", gated_feed_forward},
    {"Dots1Model", dots1_base},
    {"Dots1RMSNorm", rms_norm_forward},
    {"Dots1RotaryEmbedding", rotary_embedding_forward},
    {"Ernie4_5Attention", ernie4_5_attention},
    {"Ernie4_5DecoderLayer", layer},
    {"Ernie4_5ForCausalLM", causal_language_forward},
    {"Ernie4_5MLP", gated_feed_forward},
    {"Ernie4_5Model", base},
    {"Ernie4_5RMSNorm", rms_norm_forward},
    {"Ernie4_5RotaryEmbedding", float_rotary_embedding_forward},
    {"Exaone4Attention", exaone4_attention},
    {"Exaone4DecoderLayer", layer_of_norms_after},
    {"Exaone4ForCausalLM", causal_language_forward},
    {"Exaone4ForSequenceClassification", generic_classification_forward},
    {"Exaone4ForTokenClassification", generic_token_forward},
    {"Exaone4MLP", gated_feed_forward},
    {"Exaone4Model", base},
    {"Exaone4RMSNorm", rms_norm_forward},
    {"Exaone4RotaryEmbedding", rotary_embedding_forward},
    {"GemmaAttention", attention},
    {"GemmaDecoderLayer", layer},
    {"GemmaForCausalLM", causal_language_forward},
    {"GemmaForSequenceClassification", generic_classification_forward},
    {"GemmaForTokenClassification", generic_token_forward},
    {"GemmaMLP", gated_feed_forward},
    {"GemmaModel", base},
    {"GemmaRMSNorm", gemma_norm},
    {"GemmaRotaryEmbedding", rotary_embedding_forward},
    {"GemmaTextScaledWordEmbedding", scaled_embedding},
    {"Gemma3Attention", gemma3_attention},
    {"Gemma3DecoderLayer", gemma_layer},
    {"Gemma3ForCausalLM", causal_language_forward},
    {"Gemma3MLP", gated_feed_forward},
    {"Gemma3RMSNorm", gemma_norm},
    {"Gemma3RotaryEmbedding", rotary_embedding_forward},
    {"Gemma3TextModel", gemma3_base},
    {"Gemma3TextScaledWordEmbedding", scaled_embedding},
    {"GlmAttention", glm4_attention},
    {"GlmDecoderLayer", layer},
    {"GlmForCausalLM", causal_language_forward},
    {"GlmForSequenceClassification", generic_classification_forward},
    {"GlmForTokenClassification", generic_token_forward},
    {"GlmMLP", fused_feed_forward},
    {"GlmModel", base},
    {"GlmRMSNorm", rms_norm_forward},
    {"GlmRotaryEmbedding", rotary_embedding_forward},
    {"Gemma4ForCausalLM", causal_language_forward},
    {"Gemma4TextMLP", gated_feed_forward},
    {"Gemma4TextRotaryEmbedding", rotary_embedding_forward},
    {"Gemma4TextScaledWordEmbedding", scaled_embedding},
    {"Glm4Attention", glm4_attention},
    {"Glm4DecoderLayer", glm4_layer},
    {"Glm4ForCausalLM", causal_language_forward},
    {"Glm4ForSequenceClassification", generic_classification_forward},
    {"Glm4ForTokenClassification", generic_token_forward},
    {"Glm4MLP", fused_feed_forward},
    {"Glm4Model", base},
    {"Glm4RMSNorm", rms_norm_forward},
    {"Glm4RotaryEmbedding", rotary_embedding_forward},
    {"Glm4MoeAttention", glm4_moe_attention},
    {"Glm4MoeDecoderLayer", layer},
    {"Glm4MoeForCausalLM", causal_language_forward},
    {"Glm4MoeMLP", gated_feed_forward},
    {"Glm4MoeModel", mixture_base},
    {"Glm4MoeRMSNorm", rms_norm_forward},
    {"Glm4MoeRotaryEmbedding", rotary_embedding_forward},
    {"GptOssAttention", gpt_oss_attention},
    {"GptOssDecoderLayer", layer},
    {"GptOssForSequenceClassification", generic_classification_forward},
    {"GptOssForTokenClassification", generic_token_forward},
    {"GptOssModel", gpt_oss_base},
    {"GptOssRMSNorm", float_rms_norm},
    {"GraniteAttention", attention},
    {"GraniteDecoderLayer", layer_with_multiplier},
    {"GraniteForCausalLM", causal_language_forward},
    {"GraniteMLP", gated_feed_forward},
    {"GraniteModel", granite_base},
    {"GraniteRMSNorm", rms_norm_forward},
    {"GraniteRotaryEmbedding", rotary_embedding_forward},
    {"GraniteMoeHybridAttention", attention},
    {"GraniteMoeHybridDecoderLayer", granite_hybrid_layer},
    {"GraniteMoeHybridForCausalLM", causal_language_forward},
    {"GraniteMoeHybridMLP", granite_hybrid_feed_forward},
    {"GraniteMoeHybridModel", granite_hybrid_base},
    {"GraniteMoeHybridRMSNorm", rms_norm_forward},
    {"GraniteMoeHybridRotaryEmbedding", rotary_embedding_forward},
    {"HunYuanDenseV1Attention", hunyuan_attention},
    {"HunYuanDenseV1DecoderLayer", layer},
    {"HunYuanDenseV1ForCausalLM", causal_language_forward},
    {"HunYuanDenseV1MLP", gated_feed_forward},
    {"HunYuanDenseV1Model", base},
    {"HunYuanDenseV1RMSNorm", rms_norm_forward},
    {"HunYuanDenseV1RotaryEmbedding", rotary_embedding_forward},
    {"Lfm2Attention", lfm2_attention},
    {"Lfm2ForCausalLM", causal_language_forward},
    {"Lfm2Model", lfm2_base},
    {"Lfm2RMSNorm", rms_norm_forward},
    {"Lfm2RotaryEmbedding", rotary_embedding_forward},
    {"Lfm2MoeAttention", lfm2_attention},
    {"Lfm2MoeForCausalLM", causal_language_forward},
    {"Lfm2MoeModel", lfm2_moe_base},
    {"Lfm2MoeRMSNorm", rms_norm_forward},
    {"Lfm2MoeRotaryEmbedding", rotary_embedding_forward},
    {"Llama4ForCausalLM", causal_language_forward},
    {"Llama4TextModel", llama4_base},
    {"LlamaAttention", llama_attention},
    {"LlamaDecoderLayer", layer},
    {"LlamaForCausalLM", causal_language_forward},
    {"LlamaForSequenceClassification", generic_classification_forward},
    {"LlamaForTokenClassification", generic_token_forward},
    {"LlamaMLP", gated_feed_forward},
    {"LlamaModel", base},
    {"LlamaRMSNorm", rms_norm_forward},
    {"LlamaRotaryEmbedding", llama_rotary_embedding},
    {"MiniMaxM2Attention", minimax_m2_attention},
    {"MiniMaxM2DecoderLayer", layer},
    {"MiniMaxM2Model", mixture_base},
    {"MiniMaxM2RMSNorm", rms_norm_forward},
    {"MiniMaxM2RotaryEmbedding", rotary_embedding_forward},
    {"MinistralAttention", attention},
    {"MinistralDecoderLayer", layer},
    {"MinistralForCausalLM", causal_language_forward},
    {"MinistralForSequenceClassification", generic_classification_forward},
    {"MinistralForTokenClassification", generic_token_forward},
    {"MinistralMLP", gated_feed_forward},
    {"MinistralModel", base_of_both_masks},
    {"MinistralRMSNorm", rms_norm_forward},
    {"MinistralRotaryEmbedding", rotary_embedding_forward},
    {"Ministral3Attention", ministral3_attention},
    {"Ministral3DecoderLayer", layer},
    {"Ministral3ForCausalLM", causal_language_forward},
    {"Ministral3ForSequenceClassification", generic_classification_forward},
    {"Ministral3ForTokenClassification", generic_token_forward},
    {"Ministral3MLP", gated_feed_forward},
    {"Ministral3Model", base},
    {"Ministral3RMSNorm", rms_norm_forward},
    {"Ministral3RotaryEmbedding", rotary_embedding_forward},
    {"MistralAttention", attention},
    {"MistralDecoderLayer", layer},
    {"MistralForCausalLM", causal_language_forward},
    {"MistralForSequenceClassification", generic_classification_forward},
    {"MistralForTokenClassification", generic_token_forward},
    {"MistralMLP", gated_feed_forward},
    {"MistralModel", base},
    {"MistralRMSNorm", rms_norm_forward},
    {"MistralRotaryEmbedding", rotary_embedding_forward},
    {"MixtralAttention", attention},
    {"MixtralDecoderLayer", layer},
    {"MixtralForSequenceClassification", generic_classification_forward},
    {"MixtralForTokenClassification", generic_token_forward},
    {"MixtralModel", mixture_base},
    {"MixtralRMSNorm", rms_norm_forward},
    {"MixtralRotaryEmbedding", rotary_embedding_forward},
    {"OlmoAttention", olmo_attention},
    {"OlmoDecoderLayer", layer},
    {"OlmoForCausalLM", causal_language_forward},
    {"OlmoLayerNorm", float_layer_norm},
    {"OlmoMLP", gated_feed_forward},
    {"OlmoModel", base},
    {"OlmoRotaryEmbedding", float_rotary_embedding_forward},
    {"Olmo2Attention", olmo2_attention},
    {"Olmo2DecoderLayer", layer_of_norms_after},
    {"Olmo2ForCausalLM", causal_language_forward},
    {"Olmo2MLP", gated_feed_forward},
    {"Olmo2Model", base},
    {"Olmo2RMSNorm", float_rms_norm},
    {"Olmo2RotaryEmbedding", float_rotary_embedding_forward},
    {"Olmo3Attention", olmo2_attention},
    {"Olmo3DecoderLayer", layer_of_norms_after},
    {"Olmo3ForCausalLM", causal_language_forward},
    {"Olmo3MLP", gated_feed_forward},
    {"Olmo3Model", gemma3_base},
    {"Olmo3RMSNorm", float_rms_norm},
    {"Olmo3RotaryEmbedding", float_rotary_embedding_forward},
    {"OlmoeAttention", olmoe_attention},
    {"OlmoeDecoderLayer", layer},
    {"OlmoeModel", mixture_base},
    {"OlmoeRMSNorm", rms_norm_forward},
    {"OlmoeRotaryEmbedding", rotary_embedding_forward},
    {"PhiAttention", phi_attention},
    {"PhiDecoderLayer", parallel_layer},
    {"PhiForCausalLM", causal_language_forward},
    {"PhiForSequenceClassification", generic_classification_forward},
    {"PhiForTokenClassification", generic_token_forward},
    {"PhiMLP", phi_feed_forward},
    {"PhiModel", phi_base},
    {"PhiRotaryEmbedding", rotary_embedding_forward},
    {"Phi3Attention", phi3_attention},
    {"Phi3DecoderLayer", layer_with_dropout},
    {"Phi3ForCausalLM", causal_language_forward},
    {"Phi3ForSequenceClassification", generic_classification_forward},
    {"Phi3ForTokenClassification", generic_token_forward},
    {"Phi3MLP", fused_feed_forward},
    {"Phi3Model", base},
    {"Phi3RMSNorm", rms_norm_forward},
    {"Phi3RotaryEmbedding", rotary_embedding_forward},
    {"Qwen2Attention", attention},
    {"Qwen2DecoderLayer", layer},
    {"Qwen2ForCausalLM", causal_language_forward},
    {"Qwen2ForSequenceClassification", generic_classification_forward},
    {"Qwen2ForTokenClassification", generic_token_forward},
    {"Qwen2MLP", gated_feed_forward},
    {"Qwen2Model", base},
    {"Qwen2RMSNorm", rms_norm_forward},
    {"Qwen2RotaryEmbedding", rotary_embedding_forward},
    {"Qwen2MoeAttention", attention},
    {"Qwen2MoeDecoderLayer", layer},
    {"Qwen2MoeForSequenceClassification", generic_classification_forward},
    {"Qwen2MoeForTokenClassification", generic_token_forward},
    {"Qwen2MoeMLP", gated_feed_forward},
    {"Qwen2MoeModel", base_of_both_masks},
    {"Qwen2MoeRMSNorm", rms_norm_forward},
    {"Qwen2MoeRotaryEmbedding", rotary_embedding_forward},
    {"Qwen3Attention", attention},
    {"Qwen3DecoderLayer", layer},
    {"Qwen3ForCausalLM", causal_language_forward},
    {"Qwen3ForSequenceClassification", generic_classification_forward},
    {"Qwen3ForTokenClassification", generic_token_forward},
    {"Qwen3MLP", gated_feed_forward},
    {"Qwen3Model", base},
    {"Qwen3RMSNorm", rms_norm_forward},
    {"Qwen3RotaryEmbedding", rotary_embedding_forward},
    {"Qwen3MoeAttention", attention},
    {"Qwen3MoeDecoderLayer", layer},
    {"Qwen3MoeForSequenceClassification", generic_classification_forward},
    {"Qwen3MoeForTokenClassification", generic_token_forward},
    {"Qwen3MoeMLP", gated_feed_forward},
    {"Qwen3MoeModel", mixture_base},
    {"Qwen3MoeRMSNorm", rms_norm_forward},
    {"Qwen3MoeRotaryEmbedding", rotary_embedding_forward},
    {"SeedOssAttention", starcoder2_attention},
    {"SeedOssDecoderLayer", layer},
    {"SeedOssForCausalLM", causal_language_forward},
    {"SeedOssForSequenceClassification", generic_classification_forward},
    {"SeedOssForTokenClassification", generic_token_forward},
    {"SeedOssMLP", gated_feed_forward_with_dropout},
    {"SeedOssModel", base},
    {"SeedOssRMSNorm", rms_norm_forward},
    {"SeedOssRotaryEmbedding", rotary_embedding_forward},
    {"SmolLM3Attention", attention},
    {"SmolLM3DecoderLayer", layer},
    {"SmolLM3ForCausalLM", causal_language_forward},
    {"SmolLM3ForSequenceClassification", generic_classification_forward},
    {"SmolLM3ForTokenClassification", generic_token_forward},
    {"SmolLM3MLP", gated_feed_forward},
    {"SmolLM3Model", base},
    {"SmolLM3RMSNorm", rms_norm_forward},
    {"SmolLM3RotaryEmbedding", rotary_embedding_forward},
    {"StableLmAttention", stablelm_attention},
    {"StableLmDecoderLayer", stablelm_layer},
    {"StableLmForCausalLM", causal_language_forward},
    {"StableLmForSequenceClassification", generic_classification_forward},
    {"StableLmForTokenClassification", generic_token_forward},
    {"StableLmMLP", gated_feed_forward},
    {"StableLmModel", base},
    {"StableLmRotaryEmbedding", rotary_embedding_forward},
    {"StableLmSdpaAttention", stablelm_attention},
    {"Starcoder2Attention", starcoder2_attention},
    {"Starcoder2DecoderLayer", layer},
    {"Starcoder2ForCausalLM", causal_language_forward},
    {"Starcoder2ForSequenceClassification", generic_classification_forward},
    {"Starcoder2ForTokenClassification", generic_token_forward},
    {"Starcoder2MLP", starcoder_feed_forward},
    {"Starcoder2Model", starcoder2_base},
    {"Starcoder2RotaryEmbedding", rotary_embedding_forward},
};

}  // namespace

std::span<const ClassForward> gated_decoder_forwards() { return table; }

}  // namespace shardscope::eager
