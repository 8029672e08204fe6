// GPT-NeoX's forwards. Source: transformers 5.23, models/gpt_neox/modeling_gpt_neox.py.
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/models/adaption_prompt.h"
#include "core/pytorch/engine/models/attention_interface.h"
#include "core/pytorch/engine/models/heads.h"
#include "core/pytorch/engine/models/layers.h"
#include "core/pytorch/engine/models/masks.h"
#include "core/pytorch/engine/models/rotary.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

/// Query, key and value of each head beside each other: (B, H, T, 3 D).
Tensor fused_projection(Session& s, Module& module, const Tensor& hidden, std::int64_t head_size) {
  Tensor fused = call_one(s, module.child("query_key_value"), {hidden});
  fused = view(s, std::move(fused), {hidden.size(0), hidden.size(1), -1, 3 * head_size});
  return transpose(s, std::move(fused), 1, 2);
}

/// {hidden states, mask, position ids, cos, sin}.
Module::Forward attention(const Context& context, const Module& owner) {
  const ModelConfig& config = context->config;
  const std::int64_t head_size =
      config.integer("hidden_size") / config.integer("num_attention_heads");
  const double dropout = config.number("attention_dropout");
  const std::size_t layer = layer_number(owner.name);
  return [=](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Tensor& hidden = arguments[0];
    const Tensor fused = fused_projection(s, module, hidden, head_size);
    Tensor query, key, value;
    {
      Tensors parts = chunk(s, fused, 3, -1);
      query = std::move(parts[0]);
      key = std::move(parts[1]);
      value = std::move(parts[2]);
    }
    std::tie(query, key) = apply_neox_rotary(s, query, key, arguments[3], arguments[4]);
    std::tie(key, value) = cached(s, context, layer, key, value);
    AttentionResult result = attend(s, context,
                                    {.query = query,
                                     .key = key,
                                     .value = value,
                                     .mask = arguments[1],
                                     .dropout = module.training ? dropout : 0});
    if (has_adaption_prompt(module))
      result.output = with_adaption_prompt(
          s, {.module = module,
              .query = query,
              .attended = std::move(result.output),
              .project = [&](const Tensor& prompt) {
                Tensors parts = chunk(s, fused_projection(s, module, prompt, head_size), 3, -1);
                return std::pair(std::move(parts[1]), std::move(parts[2]));
              }});
    Tensor output = contiguous(s, reshape(s, result.output, {hidden.size(0), hidden.size(1), -1}));
    result.output.reset();
    output = call_one(s, module.child("dense"), {output});
    return {std::move(output), std::move(result.weights)};
  };
}

Module::Forward feed_forward(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    Tensor hidden = call_one(s, module.child("dense_h_to_4h"), {arguments[0]});
    hidden = call_one(s, module.child("act"), {hidden});
    return {call_one(s, module.child("dense_4h_to_h"), {hidden})};
  };
}

Tensor fed(Session& s, Module& layer, const Tensor& hidden) {
  Tensor output = call_one(s, layer.child("mlp"),
                           {call_one(s, layer.child("post_attention_layernorm"), {hidden})});
  return call_one(s, layer.child("post_mlp_dropout"), {output});
}

/// {hidden states, mask, position ids, cos, sin}.
Module::Forward layer(const Context& context, const Module&) {
  const bool parallel = context->config.flag("use_parallel_residual");
  return [parallel](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Tensor& hidden = arguments[0];
    Tensors attended = call(s, module.child("attention"),
                            {{call_one(s, module.child("input_layernorm"), {hidden}), arguments[1],
                              arguments[2], arguments[3], arguments[4]},
                             1});
    attended[0] = call_one(s, module.child("post_attention_dropout"), {attended[0]});
    if (parallel) {
      const Tensor inner = fed(s, module, hidden);
      return {add(s, add(s, inner, attended[0]), hidden)};
    }
    attended[0] = add(s, attended[0], hidden);
    const Tensor inner = fed(s, module, attended[0]);
    return {add(s, inner, attended[0])};
  };
}

/// {input ids, attention mask}.
Module::Forward base(const Context& context, const Module&) {
  return [context](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Tensor embeddings = call_one(s, module.child("embed_in"), {arguments[0]});
    start_cache(s, context);
    Tensor positions = add(s, arange(s, embeddings.size(1), {Dtype::int64, s.settings.device}), 0);
    positions = unsqueeze(s, positions, 0);
    const Tensor mask = create_causal_mask(
        s, context,
        {.embeddings = embeddings, .attention_mask = arguments[1], .position_ids = positions});
    Tensor hidden = call_one(s, module.child("emb_dropout"), {embeddings});
    const Tensors turns = call(s, module.child("rotary_emb"), {{hidden, positions}, 1});
    for (const Module::Child& layer : module.child("layers").children)
      hidden = call_one(s, *layer.module, {{hidden, mask, positions, turns[0], turns[1]}, 1});
    hidden = call_one(s, module.child("final_layer_norm"), {hidden});
    return with_cache(context, std::move(hidden));
  };
}

constexpr ClassForward table[] = {
    {"GPTNeoXAttention", attention},
    {"GPTNeoXForCausalLM", causal_language_forward},
    {"GPTNeoXForSequenceClassification", generic_classification_forward},
    {"GPTNeoXForTokenClassification", generic_token_forward},
    {"GPTNeoXLayer", layer},
    {"GPTNeoXMLP", feed_forward},
    {"GPTNeoXModel", base},
    {"GPTNeoXRotaryEmbedding", rotary_embedding_forward},
};

}  // namespace

std::span<const ClassForward> gpt_neox_forwards() { return table; }

}  // namespace shardscope::eager
