// T5's attention with its relative position bias. Source: transformers 5.23,
// models/t5/modeling_t5.py.
#include <tuple>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/models/attention_interface.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

constexpr double any_factor = 0.5;
constexpr std::int64_t any_number = 3;

/// _relative_position_bucket.
Tensor relative_buckets(Session& s, const Tensor& given, bool bidirectional) {
  Tensor buckets, distance;
  if (bidirectional) {
    Tensor after = to(s, compare(s, Comparison::gt, given, 0), Dtype::int64);
    after = mul(s, std::move(after), any_number);
    buckets = add(s, std::move(after), 0);
    distance = abs(s, given);
  } else {
    distance = neg(s, minimum(s, given, zeros_like(s, given)));
  }
  const Tensor is_small = compare(s, Comparison::lt, distance, any_number);
  Tensor large = log(s, div(s, to(s, distance, Dtype::float32), any_number));
  large = mul(s, div(s, std::move(large), any_factor), any_factor);
  large = add(s, to(s, std::move(large), Dtype::int64), any_number);
  large = minimum(s, large, full_like(s, large));
  Tensor chosen = where(s, is_small, distance, large);
  return bidirectional ? add_(s, buckets, std::move(chosen)) : add(s, std::move(chosen), 0);
}

/// compute_bias: (1, H, T, T).
Tensor computed_bias(Session& s, Module& module, std::int64_t tokens, bool bidirectional) {
  const Like indices{Dtype::int64, s.settings.device};
  const Tensor context_position = add(s, unsqueeze(s, arange(s, tokens, indices), 1), 0);
  const Tensor memory_position = unsqueeze(s, arange(s, tokens, indices), 0);
  const Tensor relative_position = sub(s, memory_position, context_position);
  const Tensor buckets = relative_buckets(s, relative_position, bidirectional);
  Tensor values = call_one(s, module.child("relative_attention_bias"), {buckets});
  return unsqueeze(s, permute(s, std::move(values), {2, 0, 1}), 0);
}

/// Which of its three places an attention has.
struct Place {
  bool decodes = false, crosses = false;
  std::size_t cache_layer = 0;  ///< a decoder's own layers first, then the crossing ones
};

Place place_of(const ModelConfig& config, const Module& module) {
  const std::string_view name = module.name;
  Place place{.decodes = name.find("decoder.block") != std::string_view::npos,
              .crosses = own_name(name) == "EncDecAttention",
              .cache_layer = layer_number(name)};
  if (place.crosses)
    place.cache_layer += static_cast<std::size_t>(config.integer("num_decoder_layers"));
  return place;
}

/// {hidden states, mask, encoder's states or None, position bias or None} to {output, position
/// bias, weights}.
Module::Forward attention(const Context& context, const Module& owner) {
  const std::int64_t head_size = context->config.integer("d_kv");
  const std::int64_t heads = context->config.integer("num_heads");
  const double dropout = context->config.number("dropout_rate");
  const Place place = place_of(context->config, owner);
  return [=](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Tensor& hidden = arguments[0];
    const std::int64_t batch = hidden.size(0), tokens = hidden.size(1);
    const auto projected = [&](const char* name, const Tensor& states) {
      Tensor part = call_one(s, module.child(name), {states});
      return transpose(s, view(s, std::move(part), {batch, states.size(1), -1, head_size}), 1, 2);
    };
    const Tensor query = projected("q", hidden);
    const Tensor& states = place.crosses ? arguments[2] : hidden;
    Tensor key = projected("k", states);
    Tensor value = projected("v", states);
    std::tie(key, value) = cached(s, context, place.cache_layer, key, value);
    Tensor bias = arguments[3];
    if (!bias && has_child(module, "relative_attention_bias"))
      bias = computed_bias(s, module, tokens, !place.decodes);
    else if (!bias)
      bias = zeros(s, {1, heads, tokens, key.size(2)}, like(query));
    AttentionResult result = attend(s, context,
                                    {.query = query,
                                     .key = key,
                                     .value = value,
                                     .mask = arguments[1],
                                     .dropout = module.training ? dropout : 0,
                                     .causal = place.decodes && !place.crosses,
                                     .softmax_in_float32 = false,
                                     .position_bias = bias});
    result.output = contiguous(s, reshape(s, result.output, {batch, tokens, -1}));
    result.output = call_one(s, module.child("o"), {result.output});
    return {std::move(result.output), std::move(bias), std::move(result.weights)};
  };
}

/// {hidden states, mask, position bias}.
Module::Forward self_attention(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Tensor normed = call_one(s, module.child("layer_norm"), {arguments[0]});
    Tensors attended =
        call(s, module.child("SelfAttention"), {{normed, arguments[1], Tensor(), arguments[2]}, 1});
    attended[0] = add(s, arguments[0], call_one(s, module.child("dropout"), {attended[0]}));
    return attended;
  };
}

/// {hidden states, encoder's states, mask, position bias}.
Module::Forward cross_attention(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Tensor normed = call_one(s, module.child("layer_norm"), {arguments[0]});
    Tensors attended = call(s, module.child("EncDecAttention"),
                            {{normed, arguments[2], arguments[1], arguments[3]}, 1});
    // The attention's own output lives on beside the layer's.
    const Tensor output = attended[0];
    attended[0] = add(s, arguments[0], call_one(s, module.child("dropout"), {output}));
    return attended;
  };
}

constexpr ClassForward table[] = {
    {"T5Attention", attention},
    {"T5LayerCrossAttention", cross_attention},
    {"T5LayerSelfAttention", self_attention},
};

}  // namespace

std::span<const ClassForward> t5_attention_forwards() { return table; }

}  // namespace shardscope::eager
