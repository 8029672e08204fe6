// The forwards of Qwen of 2023, with the kernels of the package flash-attn as its authors install
// it. Sources: modeling_qwen.py of Qwen/Qwen-7B on the Hub; flash-attn 2.3.3, ops/rms_norm.py,
// ops/layer_norm.py and layers/rotary.py, csrc/layer_norm/ln_api.cpp; QwenLM/Qwen
// docker/Dockerfile.
#include <memory>

#include "core/pytorch/engine/aten/attention.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/kernel_scratch.h"
#include "core/pytorch/engine/models/context.h"
#include "core/pytorch/engine/models/heads.h"
#include "core/pytorch/engine/models/layers.h"
#include "core/pytorch/engine/models/rotary_buffers.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

Tensor rows_of(Session& s, const Tensor& tensor) { return view(s, tensor, {-1, tensor.size(-1)}); }

/// dropout_add_ln_bwd: the weight's gradient is made whether or not it is wanted, from a part for
/// each block of threads. There are about as many blocks as multiprocessors.
Tensors norm_backward(Session& s, Node& node, Tensors& gradients) {
  static constexpr Operator op{"flash_attn.dropout_add_ln_bwd", OperatorKind::reduction};
  const std::int64_t blocks = kernel_device(s.settings.compute_capability).multiprocessors;
  const Tensor x = node.saved(s, "x");
  const Tensor weight = node.saved(s, "gamma");
  const Tensor mean = node.saved(s, "mu");
  const Tensor deviations = node.saved(s, "rsigma");
  const Tensor dz = rows_of(s, contiguous(s, gradients[0]));
  const Tensor dx = empty_like(s, x);
  const Tensor dweight = empty_like(s, weight);
  const Tensor part = empty(s, {blocks, x.size(1)}, like(x, Dtype::float32));
  dispatched(s, op, {&dz, &x, &mean, &deviations, &weight}, {&dx, &dweight, &part});
  return {view(s, dx, gradients[0].sizes()), dweight};
}

Tensor fused_norm(Session& s, const Tensor& given, const Tensor& weight) {
  static constexpr Operator op{"flash_attn.dropout_add_ln_fwd", OperatorKind::reduction};
  const auto forward = [&](Session& in, const NodeRef& node) -> Tensors {
    const Tensor x = rows_of(in, given);
    const Tensor z = empty_like(in, x);
    const Tensor mean = empty(in, {x.size(0)}, like(x, Dtype::float32));
    const Tensor deviations = empty(in, {x.size(0)}, like(x, Dtype::float32));
    dispatched(in, op, {&x, &weight}, {&z, &mean, &deviations});
    if (node) {
      node->save(in, "x", x);
      node->save(in, "gamma", weight);
      node->save(in, "mu", mean);
      node->save(in, "rsigma", deviations);
    }
    return {view(in, z, given.sizes())};
  };
  return apply_function(s, "DropoutAddLayerNormFnBackward", {given, weight}, forward, norm_backward)
      .front();
}

Module::Forward norm(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    return {fused_norm(s, arguments[0], module.parameter("weight"))};
  };
}

Tensor rotated(Session& s, const Tensor& x, const Tensor& cos, const Tensor& sin) {
  static constexpr Operator op{"flash_attn.rotary_kernel", OperatorKind::pointwise};
  const Tensor output = empty_like(s, x);
  dispatched(s, op, {&x, &cos, &sin}, {&output});
  return output;
}

/// apply_rotary_pos_emb: in float32, by flash-attn's kernel.
Tensor apply_rotary_pos_emb(Session& s, const Tensor& states, const Tensor& cosines,
                            const Tensor& sines) {
  const auto half = [&](const Tensor& angles) {
    return slice(s, squeeze(s, squeeze(s, angles, 0), 1), 1, 0, angles.size(-1) / 2);
  };
  const Tensor wide = to(s, states, Dtype::float32);
  const Tensor cos = half(cosines), sin = half(sines);
  const Tensor output = apply_function(
                            s, "ApplyRotaryEmbBackward", {wide},
                            [&](Session& in, const NodeRef& node) -> Tensors {
                              if (node) {
                                node->save(in, "cos", cos);
                                node->save(in, "sin", sin);
                              }
                              return {rotated(in, wide, cos, sin)};
                            },
                            [](Session& in, Node& node, Tensors& gradients) -> Tensors {
                              const Tensor of_cos = node.saved(in, "cos");
                              return {rotated(in, gradients[0], of_cos, node.saved(in, "sin"))};
                            })
                            .front();
  return to(s, output, states.dtype());
}

/// {hidden states, cos, sin}.
Module::Forward attention(const Context& context, const Module&) {
  const std::int64_t head_size = context->config.integer("kv_channels");
  return [head_size](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Tensor& hidden = arguments[0];
    const Tensor mixed = call_one(s, module.child("c_attn"), {hidden});
    const std::int64_t width = mixed.size(-1) / 3;
    const Tensors parts = split(s, mixed, width, 2);
    const auto as_heads = [&](const Tensor& states) {
      return view(s, states, {hidden.size(0), hidden.size(1), -1, head_size});
    };
    Tensor query = as_heads(parts[0]);
    Tensor key = as_heads(parts[1]);
    const Tensor value = as_heads(parts[2]);
    query = apply_rotary_pos_emb(s, query, arguments[1], arguments[2]);
    key = apply_rotary_pos_emb(s, key, arguments[1], arguments[2]);
    // FlashSelfAttention makes the ends of queries and keys for flash_attn_varlen_func.
    const Like ends{Dtype::int32, s.settings.device};
    const Tensor query_ends = arange(s, hidden.size(0) + 1, ends);
    const Tensor key_ends = arange(s, hidden.size(0) + 1, ends);
    Tensor output = scaled_dot_product_attention(s, {.query = transpose(s, query, 1, 2),
                                                     .key = transpose(s, key, 1, 2),
                                                     .value = transpose(s, value, 1, 2),
                                                     .causal = true});
    output = contiguous(s, transpose(s, std::move(output), 1, 2));
    output = view(s, std::move(output), {hidden.size(0), hidden.size(1), width});
    return {call_one(s, module.child("c_proj"), {output})};
  };
}

Module::Forward feed_forward(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Tensor first = call_one(s, module.child("w1"), {arguments[0]});
    const Tensor second = call_one(s, module.child("w2"), {arguments[0]});
    const Tensor product = mul(s, first, silu(s, second));
    return {call_one(s, module.child("c_proj"), {product})};
  };
}

/// {hidden states, cos, sin}.
Module::Forward block(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    Tensor normed = call_one(s, module.child("ln_1"), {arguments[0]});
    const Tensor attended =
        call_one(s, module.child("attn"), {{normed, arguments[1], arguments[2]}, 1});
    const Tensor residual = add(s, attended, arguments[0]);
    normed = call_one(s, module.child("ln_2"), {residual});
    return {add(s, residual, call_one(s, module.child("mlp"), {normed}))};
  };
}

/// Cosines and sines of twice as many positions as were needed when they were made.
struct RotaryCache {
  Tensor cosines, sines;
};

RotaryCache make_cache(Session& s, std::int64_t positions, std::int64_t head_size) {
  const NoGrad no_grad(s);
  const Tensor inverse = default_inverse_frequencies(s, head_size / 2);
  const Tensor places = arange(s, positions, {Dtype::int64, s.settings.device});
  const Tensor angles = mul(s, unsqueeze(s, to(s, places, inverse.dtype()), 1), inverse);
  const Tensor both = view(s, cat(s, {angles, angles}, -1), {1, positions, 1, head_size});
  return {cos(s, both), sin(s, both)};
}

/// {input ids}.
Module::Forward base(const Context& context, const Module&) {
  const std::int64_t head_size = context->config.integer("kv_channels");
  return [head_size, cache = std::make_shared<RotaryCache>()](
             Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const std::int64_t tokens = arguments[0].size(1);
    const Tensor positions = arange(s, tokens, {Dtype::int64, s.settings.device});
    const Tensor embeddings = call_one(s, module.child("wte"), {arguments[0]});
    if (!cache->cosines || cache->cosines.size(1) < tokens)
      *cache = make_cache(s, 2 * tokens, head_size);
    const Tensor cosines = slice(s, cache->cosines, 1, 0, tokens);
    const Tensor sines = slice(s, cache->sines, 1, 0, tokens);
    Tensor hidden = call_one(s, module.child("drop"), {embeddings});
    for (const Module::Child& layer : module.child("h").children)
      hidden = call_one(s, *layer.module, {{hidden, cosines, sines}, 1});
    return {call_one(s, module.child("ln_f"), {hidden})};
  };
}

constexpr ClassForward table[] = {
    {"QWenAttention", attention},
    {"QWenBlock", block},
    {"QWenLMHeadModel", causal_language_forward},
    {"QWenMLP", feed_forward},
    {"QWenModel", base},
    {"RMSNorm", norm},
};

}  // namespace

std::span<const ClassForward> qwen_forwards() { return table; }

}  // namespace shardscope::eager
