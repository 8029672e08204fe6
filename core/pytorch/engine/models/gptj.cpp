// GPT-J's forwards. Source: transformers 5.23, models/gptj/modeling_gptj.py.
#include "core/pytorch/engine/aten/indexing.h"
#include "core/pytorch/engine/aten/matmul.h"
#include "core/pytorch/engine/aten/softmax.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/models/attention_interface.h"
#include "core/pytorch/engine/models/heads.h"
#include "core/pytorch/engine/models/masks.h"
#include "core/pytorch/engine/models/rotary.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

constexpr double any_factor = 0.5;

/// apply_rotary_pos_emb: x (B, T, H, D), sin and cos (1, T, D / 2).
Tensor apply_rotary_to(Session& s, const Tensor& x, const Tensor& sin, const Tensor& cos) {
  const Tensor sines = repeat_interleave(s, unsqueeze(s, sin, 2), 2, 3);
  const Tensor cosines = repeat_interleave(s, unsqueeze(s, cos, 2), 2, 3);
  Tensor kept = mul(s, x, cosines);
  return add(s, std::move(kept), mul(s, rotate_every_two(s, x), sines));
}

struct Turned {
  Tensor key, query;
  Tensors locals;  ///< of forward: alive until it returns
};

Turned turned(Session& s, Module& module, const Tensor& key, const Tensor& query,
              const Tensor& positions) {
  const Tensor table = repeat(s, module.buffer("embed_positions"), {positions.size(0), 1, 1});
  const Tensor repeated = repeat(s, unsqueeze(s, positions, -1), {1, 1, table.size(-1)});
  const Tensor both = to(s, gather(s, table, 1, repeated), key.dtype());
  const Tensors parts = split(s, both, both.size(-1) / 2, -1);
  const std::int64_t size = both.size(-1);
  Tensor key_part = indexed_slice(s, key, 3, 0, size);
  const Tensor key_rest = indexed_slice(s, key, 3, size);
  Tensor query_part = indexed_slice(s, query, 3, 0, size);
  const Tensor query_rest = indexed_slice(s, query, 3, size);
  key_part = apply_rotary_to(s, key_part, parts[0], parts[1]);
  query_part = apply_rotary_to(s, query_part, parts[0], parts[1]);
  Tensor new_key = cat(s, {key_part, key_rest}, -1);
  Tensor new_query = cat(s, {query_part, query_rest}, -1);
  return {std::move(new_key),
          std::move(new_query),
          {table, repeated, both, key_part, key_rest, query_part, query_rest}};
}

/// _attn: {output (B, H, T, D), weights}.
AttentionResult attend_in_float32(Session& s, Module& module, const AttentionCall& call) {
  const Tensor query = to(s, call.query, Dtype::float32);
  const Tensor key = to(s, call.key, Dtype::float32);
  Tensor weights = matmul(s, query, transpose(s, key, -1, -2));
  weights = div(s, weights, any_factor);
  if (call.mask) weights = add(s, weights, call.mask);
  weights = softmax(s, weights, -1);
  weights = to(s, weights, call.value.dtype());
  weights = call_one(s, module.child("attn_dropout"), {weights});
  Tensor output = matmul(s, weights, call.value);
  return {std::move(output), std::move(weights)};
}

/// {hidden states, mask, position ids}.
Module::Forward attention(const Context& context, const Module& owner) {
  const std::int64_t heads = context->config.integer("n_head");
  const std::int64_t head_size = context->config.integer("n_embd") / heads;
  const std::size_t layer = layer_number(owner.name);
  return [=](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Tensor& hidden = arguments[0];
    const Dims split{hidden.size(0), hidden.size(1), heads, head_size};
    Tensor query = call_one(s, module.child("q_proj"), {hidden});
    Tensor key = call_one(s, module.child("k_proj"), {hidden});
    Tensor value = call_one(s, module.child("v_proj"), {hidden});
    query = view(s, query, split);
    key = view(s, key, split);
    value = permute(s, view(s, value, split), {0, 2, 1, 3});
    const Tensors locals = [&] {
      Turned parts = turned(s, module, key, query, arguments[2]);
      key = std::move(parts.key);
      query = std::move(parts.query);
      return std::move(parts.locals);
    }();
    key = permute(s, key, {0, 2, 1, 3});
    query = permute(s, query, {0, 2, 1, 3});
    std::tie(key, value) = cached(s, context, layer, key, value);
    AttentionResult result = attend_in_float32(
        s, module, {.query = query, .key = key, .value = value, .mask = arguments[1]});
    Tensor& output = result.output;
    output = view(s, contiguous(s, permute(s, output, {0, 2, 1, 3})),
                  {hidden.size(0), hidden.size(1), heads * head_size});
    output = call_one(s, module.child("out_proj"), {output});
    output = call_one(s, module.child("resid_dropout"), {output});
    return {std::move(output), std::move(result.weights)};
  };
}

Module::Forward feed_forward(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    Tensor hidden = call_one(s, module.child("fc_in"), {arguments[0]});
    hidden = call_one(s, module.child("act"), {hidden});
    hidden = call_one(s, module.child("fc_out"), {hidden});
    return {call_one(s, module.child("dropout"), {hidden})};
  };
}

/// {hidden states, mask, position ids} to {hidden states, weights}.
Module::Forward block(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Tensor& residual = arguments[0];
    Tensor hidden = call_one(s, module.child("ln_1"), {residual});
    Tensors attended = call(s, module.child("attn"), {{hidden, arguments[1], arguments[2]}, 0});
    const Tensor inner = call_one(s, module.child("mlp"), {hidden});
    hidden = add(s, add(s, attended[0], inner), residual);
    return {std::move(hidden), std::move(attended[1])};
  };
}

/// {input ids, attention mask}.
Module::Forward base(const Context& context, const Module&) {
  return [context](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Tensor embeddings = call_one(s, module.child("wte"), {arguments[0]});
    start_cache(s, context);
    const std::int64_t tokens = embeddings.size(1);
    Tensor positions = add(s, arange(s, tokens, {Dtype::int64, s.settings.device}), 0);
    positions = unsqueeze(s, positions, 0);
    const Tensor mask = create_causal_mask(
        s, context,
        {.embeddings = embeddings, .attention_mask = arguments[1], .position_ids = positions});
    Tensor hidden = call_one(s, module.child("drop"), {embeddings});
    const std::int64_t width = hidden.size(-1);
    // What a block returned is held until the next one returns.
    Tensors returned;
    for (const Module::Child& layer : module.child("h").children) {
      returned = call(s, *layer.module, {{hidden, mask, positions}, 1});
      hidden = returned[0];
    }
    hidden = call_one(s, module.child("ln_f"), {hidden});
    hidden = view(s, hidden, {-1, tokens, width});
    return with_cache(context, std::move(hidden));
  };
}

constexpr ClassForward table[] = {
    {"GPTJAttention", attention},
    {"GPTJBlock", block},
    {"GPTJForCausalLM", causal_language_forward},
    {"GPTJForSequenceClassification", sequence_classification_forward},
    {"GPTJMLP", feed_forward},
    {"GPTJModel", base},
};

}  // namespace

std::span<const ClassForward> gptj_forwards() { return table; }

}  // namespace shardscope::eager
