// BLOOM's forwards. Source: transformers 5.23, models/bloom/modeling_bloom.py.
#include <algorithm>
#include <bit>

#include "core/base/error.h"
#include "core/pytorch/engine/aten/matmul.h"
#include "core/pytorch/engine/aten/random.h"
#include "core/pytorch/engine/aten/softmax.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/models/attention_interface.h"
#include "core/pytorch/engine/models/heads.h"
#include "core/pytorch/engine/models/masks.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

constexpr double any_factor = 0.5;

/// _get_alibi_slopes: powers for as many heads as a power of two has, other ones for the rest.
Tensor alibi_slopes(Session& s, std::int64_t heads) {
  const Like factor{Dtype::float32, s.settings.device}, whole{Dtype::int32, s.settings.device};
  const auto closest = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(heads)));
  const Tensor base = full(s, {}, factor);
  const Tensor powers = arange(s, closest, whole, ArangeForm::start);
  Tensor slopes = pow(s, base, powers);
  if (closest == heads) return slopes;
  const Tensor extra_base = full(s, {}, factor);
  const Tensor extra_powers =
      arange(s, std::min(closest, heads - closest), whole, ArangeForm::start_step);
  slopes = cat(s, {slopes, pow(s, extra_base, extra_powers)}, 0);
  return slopes;
}

struct Alibi {
  Tensor bias;    ///< (B * H, 1, T) in the dtype of the hidden states
  Tensor slopes;  ///< without a mask a local variable of forward's
};

/// By the places in a row, or by the mask's count: build_alibi_tensor.
Alibi alibi(Session& s, const Tensor& hidden, const Tensor& attention_mask, std::int64_t heads) {
  const std::int64_t batch = hidden.size(0), tokens = hidden.size(1);
  const Tensor slopes = alibi_slopes(s, heads);
  if (!attention_mask) {
    Tensor wide = unsqueeze(s, unsqueeze(s, slopes, 1), 2);
    const Tensor bias =
        mul(s, std::move(wide), arange(s, tokens, {Dtype::int64, s.settings.device}));
    return {to(s, repeat(s, bias, {batch, 1, 1}), hidden.dtype()), slopes};
  }
  Tensor places = sub(s, cumsum(s, attention_mask, -1), 1);
  places = unsqueeze(s, mul(s, std::move(places), attention_mask), 1);
  const Tensor bias = mul(s, unsqueeze(s, slopes, -1), places);
  return {to(s, reshape(s, bias, {batch * heads, 1, tokens}), hidden.dtype()), {}};
}

/// 0.79788456 * x * (1 + 0.044715 * x * x).
Tensor gelu_inner(Session& s, const Tensor& x) {
  Tensor scaled = mul(s, x, any_factor);
  Tensor cubic = mul(s, mul(s, x, any_factor), x);
  cubic = add(s, std::move(cubic), 1);
  return mul(s, std::move(scaled), std::move(cubic));
}

/// bloom_gelu_forward.
Tensor gelu_forward(Session& s, const Tensor& x) {
  Tensor half = mul(s, x, any_factor);
  Tensor factor = add(s, tanh(s, gelu_inner(s, x)), 1.0);
  return mul(s, std::move(half), std::move(factor));
}

/// bloom_gelu_back.
Tensors gelu_backward(Session& s, Node& node, Tensors& gradients) {
  const Tensor x = node.saved_listed(s, "saved_tensors", 0);
  const Tensor turned = tanh(s, gelu_inner(s, x));
  Tensor half = mul(s, x, any_factor);
  Tensor slope = rsub(s, mul(s, turned, turned), 1);
  Tensor inner = mul(s, mul(s, x, any_factor), x);
  inner = add(s, std::move(inner), any_factor);
  slope = mul(s, std::move(slope), std::move(inner));
  half = mul(s, std::move(half), std::move(slope));
  Tensor rest = mul(s, add(s, turned, 1), any_factor);
  const Tensor factor = add(s, std::move(half), std::move(rest));
  return {mul(s, factor, gradients[0])};
}

/// BloomGelu: an autograd.Function.
Module::Forward gelu_function(const Context&, const Module&) {
  return [](Session& s, Module&, const Arguments& arguments) -> Tensors {
    const Tensor& x = arguments[0];
    return apply_function(
        s, "GeLUFunctionBackward", {x},
        [&](Session& session, const NodeRef& node) {
          Tensor output = gelu_forward(session, x);
          if (node) node->save_listed(session, "saved_tensors", 0, x);
          return Tensors{std::move(output)};
        },
        gelu_backward);
  };
}

/// dropout_add.
Tensor dropout_add(Session& s, const Tensor& x, const Tensor& residual, double probability,
                   bool training) {
  const Tensor dropped = dropout(s, x, probability, training);
  return add(s, residual, dropped);
}

/// {hidden states, residual, alibi, mask} to {hidden states, weights}.
Module::Forward attention(const Context& context, const Module& owner) {
  const std::int64_t heads = context->config.integer("n_head");
  const std::int64_t head_size = context->config.integer("hidden_size") / heads;
  const double probability = context->config.number("hidden_dropout");
  const std::size_t layer = layer_number(owner.name);
  return [=](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const std::int64_t batch = arguments[0].size(0), tokens = arguments[0].size(1);
    const Tensor fused = call_one(s, module.child("query_key_value"), {arguments[0]});
    Tensor query, key, value;
    {
      const Tensor parts = view(s, fused, {batch, tokens, heads, 3, head_size});
      query = transpose(s, select(s, parts, -2, 0), 1, 2);
      key = transpose(s, select(s, parts, -2, 1), 1, 2);
      value = transpose(s, select(s, parts, -2, 2), 1, 2);
    }
    std::tie(key, value) = cached(s, context, layer, key, value);
    query = reshape(s, query, {batch * heads, -1, head_size});
    key = transpose(s, reshape(s, key, {batch * heads, -1, head_size}), -1, -2);
    value = reshape(s, value, {batch * heads, -1, head_size});
    const Tensor scores = baddbmm(s, arguments[2], query, key, {.alpha = any_factor});
    Tensor weights = view(s, scores, {batch, heads, tokens, -1});
    if (arguments[3]) weights = add(s, weights, arguments[3]);
    Tensor probabilities = to(s, softmax(s, weights, -1, Dtype::float32), query.dtype());
    probabilities = call_one(s, module.child("attention_dropout"), {probabilities});
    const Tensor flat = view(s, probabilities, {batch * heads, tokens, -1});
    Tensor attended = bmm(s, flat, value);
    attended =
        reshape(s, permute(s, view(s, attended, {batch, heads, tokens, head_size}), {0, 2, 1, 3}),
                {batch, tokens, heads * head_size});
    Tensor output = call_one(s, module.child("dense"), {attended});
    output = dropout_add(s, output, arguments[1], probability, module.training);
    return {std::move(output), std::move(probabilities)};
  };
}

/// {hidden states, residual}.
Module::Forward feed_forward(const Context& context, const Module&) {
  const double probability = context->config.number("hidden_dropout");
  return [probability](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Tensor inner = call_one(s, module.child("gelu_impl"),
                                  {call_one(s, module.child("dense_h_to_4h"), {arguments[0]})});
    const Tensor output = call_one(s, module.child("dense_4h_to_h"), {inner});
    return {dropout_add(s, output, arguments[1], probability, module.training)};
  };
}

/// {hidden states, alibi, mask} to {hidden states, weights}.
Module::Forward block(const Context& context, const Module&) {
  const bool after_norm = context->config.flag("apply_residual_connection_post_layernorm");
  return [after_norm](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    Tensor normed = call_one(s, module.child("input_layernorm"), {arguments[0]});
    Tensor residual = after_norm ? normed : arguments[0];
    Tensors attended = call(s, module.child("self_attention"),
                            {{normed, residual, arguments[1], arguments[2]}, 2});
    normed = call_one(s, module.child("post_attention_layernorm"), {attended[0]});
    residual = after_norm ? normed : attended[0];
    Tensor output = call_one(s, module.child("mlp"), {normed, residual});
    return {std::move(output), std::move(attended[1])};
  };
}

/// {input ids, attention mask}.
Module::Forward base(const Context& context, const Module&) {
  const ModelConfig& config = context->config;
  if (config.flag("slow_but_exact") && config.integer("pretraining_tp") > 1)
    throw Error({.where = "config.json: slow_but_exact",
                 .what = "products in pretraining_tp slices are not modelled",
                 .way_out = "set slow_but_exact to false"});
  return [context, heads = config.integer("n_head")](Session& s, Module& module,
                                                     const Arguments& arguments) -> Tensors {
    const Tensor embeddings = call_one(s, module.child("word_embeddings"), {arguments[0]});
    start_cache(s, context);
    Tensor hidden = call_one(s, module.child("word_embeddings_layernorm"), {embeddings});
    const Alibi biases = alibi(s, hidden, arguments[1], heads);
    const Tensor mask = create_causal_mask(
        s, context, {.embeddings = embeddings, .attention_mask = arguments[1], .position_ids = {}});
    // What a block returned is held until the next one returns.
    Tensors returned;
    for (const Module::Child& layer : module.child("h").children) {
      returned = call(s, *layer.module, {{hidden, biases.bias, mask}, 1});
      hidden = returned[0];
    }
    hidden = call_one(s, module.child("ln_f"), {hidden});
    return with_cache(context, std::move(hidden));
  };
}

constexpr ClassForward table[] = {
    {"BloomAttention", attention},
    {"BloomBlock", block},
    {"BloomForCausalLM", causal_language_forward},
    {"BloomForSequenceClassification", unflattened_classification_forward},
    {"BloomForTokenClassification", token_classification_forward},
    {"BloomGelu", gelu_function},
    {"BloomMLP", feed_forward},
    {"BloomModel", base},
};

}  // namespace

std::span<const ClassForward> bloom_forwards() { return table; }

}  // namespace shardscope::eager
