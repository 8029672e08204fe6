// OPT's forwards. Source: transformers 5.23, models/opt/modeling_opt.py.
#include "core/base/error.h"
#include "core/pytorch/engine/aten/indexing.h"
#include "core/pytorch/engine/aten/random.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/models/attention_interface.h"
#include "core/pytorch/engine/models/heads.h"
#include "core/pytorch/engine/models/layers.h"
#include "core/pytorch/engine/models/masks.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

constexpr double any_factor = 0.5;

/// OPTLearnedPositionalEmbedding: {attention mask, position ids}, looked up 2 rows further.
Module::Forward positional_embedding(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    return {embedding(s, module.parameter("weight"), add(s, arguments[1], 2))};
  };
}

/// {hidden states, mask, position ids}.
Module::Forward attention(const Context& context, const Module& owner) {
  const ModelConfig& config = context->config;
  const std::int64_t head_size =
      config.integer("hidden_size") / config.integer("num_attention_heads");
  const double dropout = config.number("attention_dropout");
  const std::size_t layer = layer_number(owner.name);
  return [=](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Tensor& hidden = arguments[0];
    const auto as_heads = [&](const Tensor& states) {
      return transpose(
          s, view(s, states, {hidden.size(0), -1, states.size(2) / head_size, head_size}), 1, 2);
    };
    Tensor query = mul(s, call_one(s, module.child("q_proj"), {hidden}), any_factor);
    query = as_heads(query);
    Tensor key = call_one(s, module.child("k_proj"), {hidden});
    Tensor value = call_one(s, module.child("v_proj"), {hidden});
    key = as_heads(key);
    value = as_heads(value);
    std::tie(key, value) = cached(s, context, layer, key, value);
    AttentionResult result = attend(s, context,
                                    {.query = query,
                                     .key = key,
                                     .value = value,
                                     .mask = arguments[1],
                                     .dropout = module.training ? dropout : 0});
    Tensor output = contiguous(s, reshape(s, result.output, {hidden.size(0), hidden.size(1), -1}));
    result.output.reset();
    output = call_one(s, module.child("out_proj"), {output});
    return {std::move(output), std::move(result.weights)};
  };
}

/// {hidden states, mask, position ids}.
Module::Forward layer(const Context& context, const Module&) {
  const double probability = context->config.number("dropout");
  const bool norm_first = context->config.flag("do_layer_norm_before");
  return [=](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    Tensor residual = arguments[0];
    Tensor hidden = arguments[0], weights;
    const auto normed = [&](bool here, const char* norm) {
      if (here) hidden = call_one(s, module.child(norm), {hidden});
    };
    normed(norm_first, "self_attn_layer_norm");
    {
      Tensors attended =
          call(s, module.child("self_attn"), {{hidden, arguments[1], arguments[2]}, 0});
      hidden = std::move(attended[0]);
      weights = std::move(attended[1]);
    }
    hidden = dropout(s, hidden, probability, module.training);
    hidden = add(s, residual, hidden);
    normed(!norm_first, "self_attn_layer_norm");
    const Dims sizes = hidden.sizes();
    hidden = reshape(s, hidden, {-1, hidden.size(-1)});
    residual = hidden;
    normed(norm_first, "final_layer_norm");
    hidden = call_one(s, module.child("fc1"), {hidden});
    hidden = call_one(s, module.child("activation_fn"), {hidden});
    hidden = call_one(s, module.child("fc2"), {hidden});
    hidden = dropout(s, hidden, probability, module.training);
    hidden = view(s, add(s, residual, hidden), sizes);
    normed(!norm_first, "final_layer_norm");
    return {std::move(hidden)};
  };
}

/// The positions that a mask counts; it is what it was made from otherwise.
Tensor counted_positions(Session& s, const Tensor& mask) {
  Tensor positions = cumsum(s, mask, 1);
  positions = to(s, sub(s, mul(s, positions, mask), 1), Dtype::int64);
  return indexed_slice(s, positions, 1, 0);
}

/// {input ids, attention mask}.
Module::Forward decoder(const Context& context, const Module&) {
  if (context->config.find_number("layerdrop").value_or(0) > 0)
    throw Error({.where = "config.json: layerdrop",
                 .what = "layers that are left out at random are not modelled",
                 .way_out = "set layerdrop to 0"});
  return [context](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Tensor input_ids = view(s, arguments[0], {-1, arguments[0].size(-1)});
    Tensor embeddings = call_one(s, module.child("embed_tokens"), {input_ids});
    start_cache(s, context);
    const Tensor counted = arguments[1] ? arguments[1]
                                        : ones(s, {embeddings.size(0), embeddings.size(1)},
                                               {Dtype::float32, s.settings.device});
    const Tensor positions = counted_positions(s, counted);
    const Tensor mask = create_causal_mask(
        s, context, {.embeddings = embeddings, .attention_mask = arguments[1], .position_ids = {}});
    const Tensor position_embeddings =
        call_one(s, module.child("embed_positions"), {{counted, positions}, 1});
    if (has_child(module, "project_in"))
      embeddings = call_one(s, module.child("project_in"), {embeddings});
    Tensor hidden = add(s, embeddings, position_embeddings);
    for (const Module::Child& layer : module.child("layers").children)
      hidden = call_one(s, *layer.module, {{hidden, mask, positions}, 1});
    for (const char* last : {"final_layer_norm", "project_out"})
      if (has_child(module, last)) hidden = call_one(s, module.child(last), {hidden});
    return with_cache(context, std::move(hidden));
  };
}

constexpr ClassForward table[] = {
    {"OPTAttention", attention},
    {"OPTDecoder", decoder},
    {"OPTDecoderLayer", layer},
    {"OPTForCausalLM", causal_language_forward},
    {"OPTForSequenceClassification", sequence_classification_forward},
    {"OPTLearnedPositionalEmbedding", positional_embedding},
};

}  // namespace

std::span<const ClassForward> opt_forwards() { return table; }

}  // namespace shardscope::eager
