// Llama 4's attention, router, experts and layer. Source: transformers 5.24,
// models/llama4/modeling_llama4.py.
#include <tuple>
#include <utility>

#include "core/pytorch/engine/aten/complex.h"
#include "core/pytorch/engine/aten/indexing.h"
#include "core/pytorch/engine/aten/matmul.h"
#include "core/pytorch/engine/aten/selection.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/models/attention_interface.h"
#include "core/pytorch/engine/models/context.h"
#include "core/pytorch/engine/models/rotary.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

constexpr double any_factor = 0.5;

/// _norm of both norms, and back to the input's dtype.
Tensor normed(Session& s, const Tensor& input) {
  Tensor output;
  {
    const Tensor x = to(s, input, Dtype::float32);
    output = mul(s, x, rsqrt(s, add(s, mean(s, pow(s, x, 2), {-1}, true), 1e-5)));
  }
  return type_as(s, std::move(output), input);
}

Module::Forward unweighted_norm(const Context&, const Module&) {
  return [](Session& s, Module&, const Arguments& arguments) -> Tensors {
    return {normed(s, arguments[0])};
  };
}

Module::Forward weighted_norm(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Tensor output = normed(s, arguments[0]);
    return {mul(s, output, module.parameter("weight"))};
  };
}

/// {hidden states, position ids} to rotations as complex numbers, which are taken for both, cosines
/// and sines.
Module::Forward rotary_embedding(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    Tensor angles =
        mul(s, to(s, unsqueeze(s, arguments[1], -1), Dtype::float32), module.buffer("inv_freq"));
    Tensor rotations = polar(s, ones_like(s, angles), angles);
    rotations = mul(s, rotations, 1.0);
    rotations->is_complex = true;  // FSDP casts no complex arguments
    const LetGo local{angles};
    return {rotations, rotations};
  };
}

/// The query of a layer without rotary embedding, scaled by the position, and the local variables
/// of forward that live until it returns.
struct Scaled {
  Tensor query, positions, scales;
};
Scaled scaled_by_position(Session& s, const Tensor& query, const Tensor& hidden) {
  const std::int64_t batch = hidden.size(0), tokens = hidden.size(1);
  Tensor positions = add(s, arange(s, tokens, {Dtype::int64, s.settings.device}), 0);
  Tensor scales = add(s, to(s, positions, Dtype::float32), 1.0);
  scales = log1p(s, floor(s, div(s, std::move(scales), 1)));
  scales = add(s, mul(s, std::move(scales), any_factor), 1.0);
  scales = expand(s, view(s, std::move(scales), {1, tokens, 1, 1}), {batch, tokens, 1, 1});
  Tensor scaled = to(s, mul(s, query, scales), query.dtype());
  return {std::move(scaled), std::move(positions), std::move(scales)};
}

/// {hidden states, mask, rotations}.
Module::Forward attention(const Context& context, const Module& owner) {
  const ModelConfig& config = context->config;
  const std::int64_t heads = config.integer("num_attention_heads");
  const std::int64_t groups = heads / config.integer("num_key_value_heads");
  const std::int64_t head_size = config.integer("head_dim");
  const double dropped = config.number("attention_dropout");
  const std::size_t layer = layer_number(owner.name);
  const bool turns = (*config.find("no_rope_layers"))[layer].integer() != 0;
  const bool scales = !turns && config.flag("attn_temperature_tuning");
  return [=](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Tensor& hidden = arguments[0];
    const std::int64_t batch = hidden.size(0), tokens = hidden.size(1);
    const auto projected = [&](const char* projection) {
      Tensor states = call_one(s, module.child(projection), {hidden});
      return view(s, std::move(states), {batch, tokens, -1, head_size});
    };
    Tensor query = projected("q_proj");
    Tensor key = projected("k_proj");
    Tensor value = transpose(s, projected("v_proj"), 1, 2);
    Scaled scaled;
    if (turns)
      std::tie(query, key) = apply_complex_rotary(s, query, key, unsqueeze(s, arguments[2], 2));
    if (has_child(module, "qk_norm")) {
      query = call_one(s, module.child("qk_norm"), {query});
      key = call_one(s, module.child("qk_norm"), {key});
    }
    if (scales) {
      scaled = scaled_by_position(s, query, hidden);
      query = std::move(scaled.query);
    }
    query = transpose(s, std::move(query), 1, 2);
    key = transpose(s, std::move(key), 1, 2);
    std::tie(key, value) = cached(s, context, layer, key, value);
    const LetGo locals{query, key, value, scaled.positions, scaled.scales};
    AttentionResult result = attend(s, context,
                                    {.query = query,
                                     .key = key,
                                     .value = value,
                                     .mask = arguments[1],
                                     .dropout = module.training ? dropped : 0,
                                     .groups = groups,
                                     .softmax_in_float32 = false});
    Tensor output = contiguous(s, reshape(s, result.output, {batch, tokens, -1}));
    result.output.reset();
    output = call_one(s, module.child("o_proj"), {output});
    return {std::move(output), std::move(result.weights)};
  };
}

Module::Forward feed_forward(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    Tensor gate = call_one(s, module.child("gate_proj"), {arguments[0]});
    gate = call_one(s, module.child("activation_fn"), {std::move(gate)});
    Tensor up = call_one(s, module.child("up_proj"), {arguments[0]});
    return {call_one(s, module.child("down_proj"), {mul(s, std::move(gate), std::move(up))})};
  };
}

/// {scores, logits}; the scores of experts that a token does not choose are 0.
Module::Forward router(const Context& context, const Module&) {
  const std::int64_t chosen = context->config.integer("num_experts_per_tok");
  const bool recorded = context->config.flag("output_router_logits");
  return [=](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    Tensor logits = linear(s, arguments[0], module.parameter("weight"));
    if (recorded) context->router_logits.push_back(logits);
    auto [largest, indices] = topk(s, logits, chosen);
    Tensor scores = scatter_(s, full_like(s, logits), indices, largest);
    scores = to(s, sigmoid(s, to(s, scores, Dtype::float32)), scores.dtype());
    const LetGo locals{largest, indices};
    return {std::move(scores), std::move(logits)};
  };
}

/// All tokens go through each expert, scaled by their scores: (E, tokens, H) in one product.
Module::Forward experts(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Tensor& first = module.parameter("gate_up_proj");
    const std::int64_t width = arguments[0].size(-1);
    const Tensor hidden = view(s, arguments[0], {first.size(0), -1, width});
    const Tensor fused = bmm(s, hidden, first);
    const Tensors parts = chunk(s, fused, 2, -1);
    Tensor states = [&] {
      const Tensor gated = mul(s, parts[1], call_one(s, module.child("act_fn"), {parts[0]}));
      return bmm(s, gated, module.parameter("down_proj"));
    }();
    return {view(s, std::move(states), {-1, width})};
  };
}

/// {hidden states, router logits}.
Module::Forward mixture(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const std::int64_t width = arguments[0].size(-1);
    const Tensor hidden = reshape(s, arguments[0], {-1, width});
    Tensors routed = call(s, module.child("router"), {hidden});
    const Tensor scores = std::move(routed[0]);
    const std::int64_t count = scores.size(1);
    Tensor routed_in = repeat(s, hidden, {count, 1});
    routed_in = mul(s, routed_in, reshape(s, transpose(s, scores, 0, 1), {-1, 1}));
    const Tensor routed_out = call_one(s, module.child("experts"), {routed_in});
    Tensor out = call_one(s, module.child("shared_expert"), {hidden});
    {
      const Tensor total = sum(s, reshape(s, routed_out, {count, -1, width}), {0});
      out = add_(s, std::move(out), total);
    }
    return {std::move(out), std::move(routed[1])};
  };
}

/// {hidden states, mask, rotations}.
Module::Forward layer(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    Tensor residual = arguments[0];
    Tensor hidden = call_one(s, module.child("input_layernorm"), {arguments[0]});
    Tensors attended =
        call(s, module.child("self_attn"), {{hidden, arguments[1], arguments[2]}, 0});
    const Tensor attention_states = std::move(attended[0]);
    Tensor weights = std::move(attended[1]);
    hidden = add(s, residual, attention_states);
    residual = hidden;
    hidden = call_one(s, module.child("post_attention_layernorm"), {hidden});
    Tensors fed = call(s, module.child("feed_forward"), {hidden});
    hidden = std::move(fed[0]);
    if (fed.size() > 1) weights = std::move(fed[1]);  // _ of both calls: the router's logits
    hidden = add(s, residual, view(s, hidden, residual.sizes()));
    const LetGo locals{residual, weights};
    return {std::move(hidden)};
  };
}

constexpr ClassForward table[] = {
    {"Llama4Router", router},
    {"Llama4TextAttention", attention},
    {"Llama4TextDecoderLayer", layer},
    {"Llama4TextExperts", experts},
    {"Llama4TextL2Norm", unweighted_norm},
    {"Llama4TextMLP", feed_forward},
    {"Llama4TextMoe", mixture},
    {"Llama4TextRMSNorm", weighted_norm},
    {"Llama4TextRotaryEmbedding", rotary_embedding},
};

}  // namespace

std::span<const ClassForward> llama4_forwards() { return table; }

}  // namespace shardscope::eager
