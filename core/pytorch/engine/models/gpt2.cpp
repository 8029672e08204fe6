// GPT-2's forwards. Source: transformers 5.23, models/gpt2/modeling_gpt2.py.
#include <array>
#include <cmath>

#include "core/pytorch/engine/aten/matmul.h"
#include "core/pytorch/engine/aten/random.h"
#include "core/pytorch/engine/aten/softmax.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/models/attention_interface.h"
#include "core/pytorch/engine/models/heads.h"
#include "core/pytorch/engine/models/layers.h"
#include "core/pytorch/engine/models/masks.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

/// (B, T, W) as (B, H, T, D).
Tensor as_heads(Session& s, const Tensor& states, std::int64_t head_size) {
  return transpose(s, view(s, states, {states.size(0), states.size(1), -1, head_size}), 1, 2);
}

/// _upcast_and_reordered_attn: scores in float32 by one baddbmm.
AttentionResult attend_upcast(Session& s, Module& module, const AttentionCall& call,
                              double scaling) {
  const std::int64_t batch = call.query.size(0), heads = call.query.size(1),
                     tokens = call.query.size(2), head_size = call.query.size(3);
  Tensor weights = empty(s, {batch * heads, tokens, tokens}, like(call.query, Dtype::float32));
  Tensor query, key;
  {
    const Scoped no_autocast(s.autocast.enabled, false);
    query = reshape(s, call.query, {-1, tokens, head_size});
    key = reshape(s, transpose(s, call.key, -1, -2), {-1, head_size, tokens});
    Tensor wide_query = to(s, query, Dtype::float32);
    Tensor wide_key = to(s, key, Dtype::float32);
    weights = baddbmm(s, weights, std::move(wide_query), std::move(wide_key),
                      {.beta = 0, .alpha = scaling});
    weights = reshape(s, weights, {batch, heads, tokens, tokens});
  }
  if (call.mask) weights = add(s, weights, call.mask);
  weights = softmax(s, weights, -1);
  weights = to(s, weights, call.value.dtype());
  weights = call_one(s, module.child("attn_dropout"), {weights});
  Tensor output = matmul(s, weights, call.value);
  output = transpose(s, output, 1, 2);
  return {std::move(output), std::move(weights)};
}

/// GPT2Attention.scaling.
double attention_scaling(const ModelConfig& config, std::int64_t head_size, std::size_t layer) {
  const double of_size =
      config.flag("scale_attn_weights") ? 1 / std::sqrt(static_cast<double>(head_size)) : 1;
  const bool by_layer = config.flag("scale_attn_by_inverse_layer_idx");
  return by_layer ? of_size / static_cast<double>(layer + 1) : of_size;
}

/// {hidden states, mask}.
Module::Forward attention(const Context& context, const Module& owner) {
  const ModelConfig& config = context->config;
  const std::int64_t head_size = config.integer("n_embd") / config.integer("n_head");
  const double dropout = config.number("attn_pdrop");
  const bool reorders = config.flag("reorder_and_upcast_attn");
  const std::size_t layer = layer_number(owner.name);
  const double scaling = attention_scaling(config, head_size, layer);
  return [=](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    Tensor query, key, value;
    std::int64_t width = 0;  // of a tensor-parallel rank: that of its heads
    {
      const Tensor projected = call_one(s, module.child("c_attn"), {arguments[0]});
      width = projected.size(-1) / 3;
      Tensors parts = split(s, projected, width, 2);
      query = std::move(parts[0]);
      key = std::move(parts[1]);
      value = std::move(parts[2]);
    }
    key = as_heads(s, key, head_size);
    value = as_heads(s, value, head_size);
    query = as_heads(s, query, head_size);
    std::tie(key, value) = cached(s, context, layer, key, value);
    const AttentionCall call{.query = query,
                             .key = key,
                             .value = value,
                             .mask = arguments[1],
                             .dropout = module.training ? dropout : 0,
                             .softmax_in_float32 = false,
                             .as_value_dtype = true,
                             .contiguous_output = false};
    AttentionResult result =
        reorders && context->settings.attention == AttentionImplementation::eager
            ? attend_upcast(s, module, call, scaling)
            : attend(s, context, call);
    Tensor output = contiguous(
        s, reshape(s, result.output, {result.output.size(0), result.output.size(1), width}));
    result.output.reset();
    output = call_one(s, module.child("c_proj"), {output});
    output = call_one(s, module.child("resid_dropout"), {output});
    return {std::move(output), std::move(result.weights)};
  };
}

Module::Forward feed_forward(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    Tensor hidden = call_one(s, module.child("c_fc"), {arguments[0]});
    hidden = call_one(s, module.child("act"), {hidden});
    hidden = call_one(s, module.child("c_proj"), {hidden});
    return {call_one(s, module.child("dropout"), {hidden})};
  };
}

/// {hidden states, mask, position ids}.
Module::Forward block(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    Tensor residual = arguments[0];
    Tensor hidden = call_one(s, module.child("ln_1"), {arguments[0]});
    Tensors attended = call(s, module.child("attn"), {{hidden, arguments[1]}, 1});
    hidden = add(s, attended[0], residual);
    residual = hidden;
    hidden = call_one(s, module.child("ln_2"), {hidden});
    Tensor fed = call_one(s, module.child("mlp"), {hidden});
    hidden = add(s, residual, fed);
    const LetGo let_go{residual, attended[0], fed};
    return {std::move(hidden)};
  };
}

/// {input ids, attention mask}.
Module::Forward base(const Context& context, const Module&) {
  return [context](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Tensor input_ids = view(s, arguments[0], {-1, arguments[0].size(-1)});
    const std::int64_t batch = input_ids.size(0), tokens = input_ids.size(1);
    start_cache(s, context);
    Tensor embeddings = call_one(s, module.child("wte"), {input_ids});
    Tensor positions = add(s, arange(s, tokens, {Dtype::int64, s.settings.device}), 0);
    positions = unsqueeze(s, positions, 0);
    Tensor position_embeddings = call_one(s, module.child("wpe"), {positions});
    Tensor hidden = add(s, embeddings, position_embeddings);
    Tensor attention_mask = arguments[1];
    if (attention_mask) attention_mask = view(s, attention_mask, {batch, -1});
    const Tensor mask = create_causal_mask(
        s, context,
        {.embeddings = embeddings, .attention_mask = attention_mask, .position_ids = positions});
    hidden = call_one(s, module.child("drop"), {hidden});
    const std::int64_t width = hidden.size(-1);
    for (const Module::Child& layer : module.child("h").children)
      hidden = call_one(s, *layer.module, {{hidden, mask, positions}, 2});
    hidden = call_one(s, module.child("ln_f"), {hidden});
    hidden = view(s, hidden, {-1, tokens, width});
    Tensors outputs = with_cache(context, std::move(hidden));
    const LetGo let_go{embeddings, position_embeddings};
    return outputs;
  };
}

constexpr ClassForward table[] = {
    {"GPT2Attention", attention},
    {"GPT2Block", block},
    {"GPT2ForSequenceClassification", sequence_classification_forward},
    {"GPT2ForTokenClassification", token_classification_forward},
    {"GPT2LMHeadModel", causal_language_forward},
    {"GPT2MLP", feed_forward},
    {"GPT2Model", base},
};

}  // namespace

std::span<const ClassForward> gpt2_forwards() { return table; }

}  // namespace shardscope::eager
