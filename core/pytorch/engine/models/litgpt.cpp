// The forwards of litgpt's GPT in training. Source: litgpt 00af8b0d, model.py and lora.py (GPT);
// lightning_fabric 2.2, wrappers.py and plugins/precision.
#include <memory>

#include "core/base/error.h"
#include "core/pytorch/engine/aten/attention.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/models/adaption_prompt.h"
#include "core/pytorch/engine/models/context.h"
#include "core/pytorch/engine/models/heads.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

constexpr double any_factor = 0.5;

struct LitgptShape {
  std::int64_t heads = 0, groups = 0, head_size = 0;
  std::int64_t turned = 0;  ///< rope_n_elem
};

std::int64_t turned_size(const ModelConfig& config) {
  return static_cast<std::int64_t>(config.number("rotary_percentage") *
                                   static_cast<double>(config.integer("head_dim")));
}

/// RMSNorm.forward; add_unit_offset is Gemma's.
Module::Forward norm(const Context& context, const Module&) {
  return [offset = context->config.flag("scale_embeddings")](
             Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Dtype given = arguments[0].dtype();
    const Tensor x = to(s, arguments[0], Dtype::float32);
    const Tensor mean_square = mean(s, mul(s, x, x), {-1}, true);
    const Tensor normed = mul(s, x, rsqrt(s, add(s, mean_square, any_factor)));
    Tensor weight = module.parameter("weight");
    if (offset) weight = add(s, weight, 1);
    return {to(s, mul(s, normed, to(s, weight, Dtype::float32)), given)};
  };
}

/// apply_rope: cosines and sines are float32.
Tensor apply_rope(Session& s, const Tensor& x, const Tensor& cosines, const Tensor& sines) {
  const std::int64_t half = x.size(-1) / 2;
  const Tensor first = indexed_slice(s, x, -1, 0, half);
  const Tensor second = indexed_slice(s, x, -1, half);
  const Tensor rotated = cat(s, {neg(s, second), first}, -1);
  const Tensor roped = add(s, mul(s, x, cosines), mul(s, rotated, sines));
  return to(s, roped, x.dtype());
}

/// Queries and keys of which the first elements of each head are turned.
Tensor turned(Session& s, const Tensor& states, const LitgptShape& shape, const Tensor& cosines,
              const Tensor& sines) {
  const Tensor roped = apply_rope(s, indexed_slice(s, states, -1, 0, shape.turned), cosines, sines);
  return cat(s, {roped, indexed_slice(s, states, -1, shape.turned)}, -1);
}

struct HeadParts {
  Tensor fused, query, key, value;
};

/// The fused projection in groups of queries, a key and a value. Keys and values of grouped queries
/// are repeated; without groups all three stay views of the projection.
HeadParts head_parts(Session& s, Module& attention, const Tensor& x, const LitgptShape& shape) {
  const std::int64_t batch = x.size(0), length = x.size(1), queries = shape.heads / shape.groups;
  HeadParts parts;
  parts.fused = call_one(s, attention.child("attn"), {x});
  parts.fused =
      view(s, std::move(parts.fused), {batch, length, shape.groups, queries + 2, shape.head_size});
  parts.fused = permute(s, std::move(parts.fused), {0, 2, 3, 1, 4});
  {
    const Tensors cut = split_with_sizes(s, parts.fused, {queries, 1, 1}, 2);
    parts.query = cut[0];
    parts.key = cut[1];
    parts.value = cut[2];
  }
  if (queries > 1) {
    const Dims repeated{batch, shape.groups, queries, length, shape.head_size};
    parts.key = expand(s, std::move(parts.key), repeated);
    parts.value = expand(s, std::move(parts.value), repeated);
  }
  const Dims of_heads{batch, -1, length, shape.head_size};
  parts.query = reshape(s, std::move(parts.query), of_heads);
  parts.key = reshape(s, std::move(parts.key), of_heads);
  parts.value = reshape(s, std::move(parts.value), of_heads);
  return parts;
}

/// {hidden states, cosines, sines}.
Module::Forward attention(const Context& context, const Module&) {
  const ModelConfig& config = context->config;
  const LitgptShape shape{.heads = config.integer("num_attention_heads"),
                          .groups = config.integer("num_key_value_heads"),
                          .head_size = config.integer("head_dim"),
                          .turned = turned_size(config)};
  return [shape](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Tensor& x = arguments[0];
    HeadParts parts = head_parts(s, module, x, shape);
    parts.query = turned(s, parts.query, shape, arguments[1], arguments[2]);
    parts.key = turned(s, parts.key, shape, arguments[1], arguments[2]);
    Tensor y = scaled_dot_product_attention(
        s, {.query = parts.query, .key = parts.key, .value = parts.value, .causal = true});
    y = transpose(s, std::move(y), 1, 2);
    if (has_adaption_prompt(module))
      y = with_adaption_prompt(s, {.module = module,
                                   .query = parts.query,
                                   .attended = std::move(y),
                                   .project = [&](const Tensor& prompt) {
                                     HeadParts of = head_parts(s, module, prompt, shape);
                                     return std::pair(of.key, of.value);
                                   }});
    y = reshape(s, std::move(y), {x.size(0), x.size(1), shape.heads * shape.head_size});
    Tensor output = call_one(s, module.child("proj"), {std::move(y)});
    return {std::move(output)};
  };
}

/// GptNeoxMLP.
Module::Forward plain_feed_forward(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    Tensor x = call_one(s, module.child("fc"), {arguments[0]});
    x = gelu(s, x);
    return {call_one(s, module.child("proj"), {x})};
  };
}

/// LLaMAMLP and GemmaMLP.
template <Tensor (*Activation)(Session& s, Tensor self)>
Module::Forward gated_feed_forward(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Tensor first = call_one(s, module.child("fc_1"), {arguments[0]});
    const Tensor second = call_one(s, module.child("fc_2"), {arguments[0]});
    const Tensor product = mul(s, Activation(s, first), second);
    return {call_one(s, module.child("proj"), {product})};
  };
}

/// {hidden states, cosines, sines}.
Module::Forward block(const Context& context, const Module&) {
  return [parallel = context->config.flag("parallel_residual")](
             Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Tensor& x = arguments[0];
    Tensor normed = call_one(s, module.child("norm_1"), {x});
    const Tensor attended =
        call_one(s, module.child("attn"), {{normed, arguments[1], arguments[2]}, -1});
    if (parallel) {
      if (has_child(module, "norm_2")) normed = call_one(s, module.child("norm_2"), {x});
      return {add(s, add(s, call_one(s, module.child("mlp"), {normed}), attended), x)};
    }
    const Tensor residual = add(s, attended, x);
    const Tensor fed = [&] {
      const Tensor second = call_one(s, module.child("norm_2"), {residual});
      return call_one(s, module.child("mlp"), {second});
    }();
    return {add(s, fed, residual)};
  };
}

/// Cosines and sines of the longest sequence (GPT.max_seq_length).
struct RopeCache {
  Tensor cosines, sines;
};

RopeCache build_rope_cache(Session& s, std::int64_t length, std::int64_t size) {
  const NoGrad no_grad(s);
  const Tensor angles = empty(s, {length, size}, {Dtype::float32, s.settings.device});
  return {cos(s, angles), sin(s, angles)};
}

/// {input ids}: logits in float32, as Fabric returns them, whole or in parts of logit_chunk_tokens
/// (lm_head_chunk_size).
Module::Forward model(const Context& context, const Module&) {
  const std::int64_t chunk = context->settings.logit_chunk_tokens;
  const std::int64_t size = turned_size(context->config);
  const bool scales = context->config.flag("scale_embeddings");
  return [=, cache = std::make_shared<RopeCache>()](Session& s, Module& module,
                                                    const Arguments& arguments) -> Tensors {
    if (arguments.tensors.size() > 2 && arguments[2])
      throw Error({.where = "litgpt's GPT",
                   .what = "returns logits and computes no loss from labels",
                   .way_out = "give --loss outside"});
    const Tensor& ids = arguments[0];
    const std::int64_t length = ids.size(1);
    if (!cache->cosines || cache->cosines.size(0) != length)
      *cache = build_rope_cache(s, length, size);
    Module& transformer = module.child("transformer");
    Tensor x = call_one(s, transformer.child("wte"), {ids});
    if (scales) x = mul(s, x, any_factor);
    for (const Module::Child& layer : transformer.child("h").children)
      x = call_one(s, *layer.module, {{x, cache->cosines, cache->sines}, -1});
    x = call_one(s, transformer.child("ln_f"), {x});
    Module& head = module.child("lm_head");
    Tensors narrow;
    if (chunk > 0) {
      for (const Tensor& part : split(s, x, chunk, 1)) narrow.push_back(call_one(s, head, {part}));
    } else {
      narrow.push_back(call_one(s, head, {x}));
    }
    x.reset();
    Tensors outputs{Tensor()};
    for (const Tensor& logits : narrow) outputs.push_back(to(s, logits, Dtype::float32));
    return outputs;
  };
}

constexpr ClassForward table[] = {
    {"LitgptBlock", block},
    {"LitgptCausalSelfAttention", attention},
    {"LitgptGPT", model},
    {"LitgptGemmaMLP", gated_feed_forward<gelu>},
    {"LitgptGptNeoxMLP", plain_feed_forward},
    {"LitgptLLaMAMLP", gated_feed_forward<silu>},
    {"LitgptRMSNorm", norm},
};

}  // namespace

std::span<const ClassForward> litgpt_forwards() { return table; }

}  // namespace shardscope::eager
