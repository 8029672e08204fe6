#include "core/pytorch/engine/models/attention_interface.h"

#include "core/pytorch/engine/aten/attention.h"
#include "core/pytorch/engine/aten/matmul.h"
#include "core/pytorch/engine/aten/random.h"
#include "core/pytorch/engine/aten/selection.h"
#include "core/pytorch/engine/aten/softmax.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

constexpr double any_factor = 0.5;

Tensor soft_capped(Session& s, Tensor weights) {
  weights = div(s, weights, any_factor);
  weights = tanh(s, weights);
  return mul(s, weights, any_factor);
}

Tensor probabilities(Session& s, Tensor weights, const AttentionCall& call) {
  const LetGo let_go{weights};
  if (call.softmax_in_float32)
    return to(s, softmax(s, weights, -1, Dtype::float32), call.query.dtype());
  weights = softmax(s, weights, -1);
  return call.as_value_dtype ? to(s, weights, call.value.dtype()) : weights;
}

/// Variables of gpt-oss's eager_attention_forward that live until it returns.
struct SinkLocals {
  Tensor sinks, combined, probabilities, scores;
};

/// The softmax over the scores and a sink of each head, without the sink's column.
void beside_sinks(Session& s, const Tensor& weights, const AttentionCall& call,
                  SinkLocals& locals) {
  const Tensor column = reshape(s, call.sinks, {1, -1, 1, 1});
  locals.sinks = expand(s, column, {call.query.size(0), -1, call.query.size(-2), -1});
  locals.combined = cat(s, {weights, locals.sinks}, -1);
  Tensor shifted = [&] {
    const Tensor largest = max_of_rows(s, locals.combined).first;
    return sub(s, locals.combined, largest);
  }();
  locals.combined = std::move(shifted);
  locals.probabilities = softmax(s, locals.combined, -1, locals.combined.dtype());
  locals.scores = indexed_slice(s, locals.probabilities, -1, 0, weights.size(-1));
}

/// eager_attention_forward.
AttentionResult attend_eagerly(Session& s, const AttentionCall& call) {
  Tensor key = repeat_heads(s, call.key, call.groups);
  Tensor value = repeat_heads(s, call.value, call.groups);
  SinkLocals locals;
  const LetGo let_go{key,          value, locals.sinks, locals.combined, locals.probabilities,
                     locals.scores};
  Tensor weights = matmul(s, call.query, transpose(s, key, 2, 3));
  if (call.scaled) weights = mul(s, std::move(weights), any_factor);
  if (call.soft_cap) weights = soft_capped(s, std::move(weights));
  if (call.position_bias) weights = add(s, weights, call.position_bias);
  if (call.mask) weights = add(s, weights, call.mask);
  if (call.sinks) {
    beside_sinks(s, weights, call, locals);
    weights = to(s, dropout(s, locals.scores, call.dropout, true), value.dtype());
  } else {
    weights = probabilities(s, std::move(weights), call);
    weights = dropout(s, weights, call.dropout, true);
  }
  Tensor output = matmul(s, weights, value);
  output = transpose(s, output, 1, 2);
  if (call.contiguous_output) output = contiguous(s, output);
  return {std::move(output), std::move(weights)};
}

/// Megatron-LM's DotProductAttention where its fused softmax does not take the shape: the softmax
/// in float32, by PyTorch's operators. Source: Megatron-LM core/fusions/fused_softmax.py
/// (forward_torch_softmax), core/transformer/dot_product_attention.py (baddbmm with a factor).
AttentionResult attend_as_megatron(Session& s, const AttentionCall& call) {
  const Tensor key = repeat_heads(s, call.key, call.groups);
  const Tensor value = repeat_heads(s, call.value, call.groups);
  Tensor weights = matmul(s, call.query, transpose(s, key, 2, 3));
  weights = to(s, std::move(weights), Dtype::float32);
  weights = mul(s, std::move(weights), any_factor);
  if (call.mask) weights = masked_fill_(s, std::move(weights), call.mask, 0);
  weights = softmax(s, std::move(weights), -1);
  weights = to(s, std::move(weights), call.query.dtype());
  weights = dropout(s, std::move(weights), call.dropout, true);
  Tensor output = transpose(s, matmul(s, weights, value), 1, 2);
  if (call.contiguous_output) output = contiguous(s, output);
  return {std::move(output), std::move(weights)};
}

/// use_gqa_in_sdpa on cuda and cpu.
bool groups_in_kernel(const AttentionCall& call) {
  constexpr std::int64_t largest_head = 256;
  return !call.mask && call.key.size(-1) == call.value.size(-1) &&
         call.value.size(-1) <= largest_head;
}

/// pack_gqa: of a single query the groups become rows.
Tensor packed_groups(Session& s, const Tensor& states, std::int64_t groups) {
  if (!states || states.size(1) == 1) return states;
  return reshape(s, states, {states.size(0), states.size(1) / groups, groups, states.size(-1)});
}

/// create_position_bias_mask: the bias as a mask, with the least number where nothing is attended.
Tensor position_bias_mask(Session& s, const AttentionCall& call, bool causal) {
  const Tensor& bias = call.position_bias;
  const auto attended = [&](const Tensor& mask) {
    return where(s, mask, bias, scalar_tensor(s, like(bias)));
  };
  if (call.mask)
    return contiguous(
        s, call.mask.dtype() == Dtype::boolean ? attended(call.mask) : add(s, bias, call.mask));
  if (!causal) return contiguous(s, bias);
  const std::int64_t queries = call.query.size(2), keys = call.key.size(2);
  const Like indices{Dtype::int64, s.settings.device};
  Tensor rows = unsqueeze(s, arange(s, queries, indices), 1);
  Tensor columns = unsqueeze(s, arange(s, keys, indices), 0);
  const Tensor mask = compare(s, Comparison::ge, std::move(rows), std::move(columns));
  return contiguous(s, attended(view(s, mask, {1, 1, queries, keys})));
}

/// sdpa_attention_forward, integrations/sdpa_attention.py.
AttentionResult attend_fused(Session& s, const AttentionCall& call) {
  const std::int64_t queries = call.query.size(2);
  AttentionArguments arguments{.query = call.query,
                               .key = call.key,
                               .value = call.value,
                               .mask = call.mask,
                               .dropout = call.dropout};
  if (call.groups > 1) {
    if (groups_in_kernel(call)) {
      arguments.grouped_queries = true;
    } else if (queries == 1) {
      arguments.query = packed_groups(s, call.query, call.groups);
      arguments.mask = packed_groups(s, call.mask, call.groups);
    } else {
      arguments.key = repeat_heads(s, call.key, call.groups);
      arguments.value = repeat_heads(s, call.value, call.groups);
    }
  }
  arguments.causal = queries > 1 && !call.mask && call.causal;
  if (call.position_bias) {
    arguments.mask = position_bias_mask(s, call, arguments.causal);
    arguments.causal = false;
  }
  Tensor output = scaled_dot_product_attention(s, arguments);
  output = reshape(s, output, {output.size(0), -1, queries, call.value.size(-1)});
  output = contiguous(s, transpose(s, output, 1, 2));
  return {std::move(output), {}};
}

/// (1, heads, all tokens, head size) as (sequences, heads, tokens, head size).
Tensor by_sequence(Session& s, const Tensor& states, std::int64_t sequences) {
  const Tensor row = contiguous(s, transpose(s, states, 1, 2));
  const std::int64_t tokens = row.size(1) / sequences;
  return transpose(s, view(s, row, {sequences, tokens, row.size(2), row.size(3)}), 1, 2);
}

/// _is_packed_sequence: each layer asks, and the host waits for the answer.
void ask_whether_packed(Session& s, const Tensor& query) {
  const Tensor increasing = arange(s, query.size(2), {Dtype::int64, query.device()});
  item(s, sum(s, sub(s, increasing, 1)));
}

/// _flash_attention_forward: sequences in a row are told apart by their ends (cu_seqlens), so a
/// token attends to its own sequence. Source: transformers 5.24 modeling_flash_attention_utils.py.
AttentionResult attend_by_sequence(Session& s, AttentionCall call, std::int64_t tokens) {
  ask_whether_packed(s, call.query);
  const std::int64_t all = call.query.size(2);
  const std::int64_t sequences = all % tokens == 0 ? all / tokens : 1;
  for (Tensor* states : {&call.query, &call.key, &call.value})
    *states = by_sequence(s, *states, sequences);
  const Tensor output = attend_fused(s, call).output;
  return {view(s, output, {1, -1, output.size(2), output.size(3)}), {}};
}

/// DynamicLayer.lazy_initialization: torch.tensor([]).
Tensor empty_list(Session& s, const Tensor& states) { return tensor(s, {0}, like(states)); }

}  // namespace

AttentionResult attend(Session& s, const Context& context, const AttentionCall& call) {
  const std::int64_t tokens = context->settings.tokens_of_sequence;
  switch (context->settings.attention) {
    case AttentionImplementation::sdpa:
      if (tokens > 0) return attend_by_sequence(s, call, tokens);
      return attend_fused(s, call);
    case AttentionImplementation::flash: {
      AttentionCall unmasked = call;
      unmasked.mask.reset();
      return attend_fused(s, unmasked);
    }
    case AttentionImplementation::megatron:
      return attend_as_megatron(s, call);
    case AttentionImplementation::eager:
      break;
  }
  return attend_eagerly(s, call);
}

Tensor repeat_heads(Session& s, const Tensor& states, std::int64_t times) {
  if (times == 1) return states;
  const std::int64_t batch = states.size(0), heads = states.size(1), tokens = states.size(2),
                     size = states.size(3);
  return reshape(s, expand(s, unsqueeze(s, states, 2), {batch, heads, times, tokens, size}),
                 {batch, heads * times, tokens, size});
}

std::pair<Tensor, Tensor> cached(Session& s, const Context& context, std::size_t layer,
                                 const Tensor& key, const Tensor& value) {
  if (!context->cache) return {key, value};
  KeyValueCache::Layer& kept = context->cache->layers.at(layer);
  kept.keys = empty_list(s, key);
  kept.values = empty_list(s, key);
  if (kept.window) kept.window = to(s, kept.window, {.device = key.device()});
  // The kept keys are let go when the new ones are there.
  Tensor keys = cat(s, {kept.keys, key}, -2);
  if (!kept.window) kept.keys = keys;
  Tensor values = cat(s, {kept.values, value}, -2);
  if (!kept.window) {
    kept.values = values;
    return {std::move(keys), std::move(values)};
  }
  // DynamicSlidingWindowLayer keeps one token less than its window.
  const char* size =
      context->config.lacks("sliding_window") ? "attention_chunk_size" : "sliding_window";
  const std::int64_t window = *context->config.find_integer(size);
  kept.keys = indexed_slice(s, keys, 2, 1 - window);
  kept.values = indexed_slice(s, values, 2, 1 - window);
  return {std::move(keys), std::move(values)};
}

void start_cache(Session& s, const Context& context) {
  context->cache = nullptr;
  if (!context->settings.use_cache) return;
  context->cache = std::make_shared<KeyValueCache>();
  const char* key = context->config.lacks("num_hidden_layers") ? "n_layer" : "num_hidden_layers";
  const auto layers = static_cast<std::size_t>(context->config.integer(key));
  context->cache->layers.resize(layers);
  const bool all_slide =
      context->config.layer_type(0).empty() && !context->config.lacks("sliding_window");
  for (std::size_t i = 0; i < layers; ++i)
    if (all_slide || context->config.layer_type(i) == "sliding_attention" ||
        context->config.layer_type(i) == "chunked_attention")
      context->cache->layers[i].window = tensor(s, {}, {Dtype::int64, Device::cpu});
}

Tensors with_cache(const Context& context, Tensor hidden) {
  Tensors held{std::move(hidden)};
  if (!context->cache) return held;
  for (const KeyValueCache::Layer& layer : context->cache->layers) {
    held.push_back(layer.keys);
    held.push_back(layer.values);
    held.push_back(layer.window);
  }
  context->cache = nullptr;
  return held;
}

}  // namespace shardscope::eager
