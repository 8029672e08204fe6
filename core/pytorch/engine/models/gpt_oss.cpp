// gpt-oss's router, experts and layer. Source: transformers 5.24,
// models/gpt_oss/modeling_gpt_oss.py and integrations/moe.py.
#include "core/pytorch/engine/aten/matmul.h"
#include "core/pytorch/engine/aten/selection.h"
#include "core/pytorch/engine/aten/softmax.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/models/context.h"
#include "core/pytorch/engine/models/grouped_experts.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

constexpr double any_factor = 0.5;

/// GptOssTopKRouter: {logits, scores, indices}; of the largest logits alone.
Module::Forward router(const Context& context, const Module&) {
  const std::int64_t chosen = context->config.integer("num_experts_per_tok");
  const bool recorded = context->config.flag("output_router_logits");
  return [=](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    Tensor logits = linear(s, arguments[0], module.parameter("weight"), module.parameter("bias"));
    if (recorded) context->router_logits.push_back(logits);
    auto [largest, indices] = topk(s, logits, chosen);
    Tensor scores = softmax(s, largest, 1, largest.dtype());
    return {std::move(logits), std::move(scores), std::move(indices)};
  };
}

/// GptOssMLP: {hidden states, scores}.
Module::Forward feed_forward(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Dims sizes = arguments[0].sizes();
    Tensor hidden = reshape(s, arguments[0], {-1, sizes[-1]});
    Tensors routed = call(s, module.child("router"), {hidden});
    hidden = call_one(s, module.child("experts"), {hidden, routed[2], routed[1]});
    hidden = reshape(s, hidden, sizes);
    return {std::move(hidden), std::move(routed[1])};
  };
}

/// GptOssExperts._apply_gate: every second column is a gate.
Tensor gated(Session& s, Module&, const Tensor& fused) {
  Tensor gate = slice(s, fused, -1, 0, to_the_end, 2);
  Tensor up = slice(s, fused, -1, 1, to_the_end, 2);
  gate = clamp_max(s, gate);
  up = clamp(s, up);
  const Tensor glu = mul(s, gate, sigmoid(s, mul(s, gate, any_factor)));
  const LetGo locals{gate, up};
  return mul(s, add(s, up, 1.0), glu);
}

/// {hidden states, indices, scores}; by grouped products, which transformers 5 takes where it can.
Module::Forward experts(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    return run_grouped_experts(s, module, arguments,
                               {.gate = gated, .is_transposed = true, .has_bias = true});
  };
}

/// GptOssRotaryEmbedding: half a head's cosines and sines, which are not repeated.
Module::Forward rotary_embedding(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const NoGrad no_grad(s);
    Tensor frequencies =
        mul(s, to(s, unsqueeze(s, arguments[1], -1), Dtype::float32), module.buffer("inv_freq"));
    Tensor cosines = mul(s, cos(s, frequencies), 1.0);
    Tensor sines = mul(s, sin(s, frequencies), 1.0);
    const LetGo locals(frequencies, cosines, sines);
    Tensor cast_cosines = to(s, cosines, arguments[0].dtype());
    Tensor cast_sines = to(s, sines, arguments[0].dtype());
    return {std::move(cast_cosines), std::move(cast_sines)};
  };
}

constexpr ClassForward table[] = {
    {"GptOssExperts", experts},
    {"GptOssMLP", feed_forward},
    {"GptOssRotaryEmbedding", rotary_embedding},
    {"GptOssTopKRouter", router},
};

}  // namespace

std::span<const ClassForward> gpt_oss_forwards() { return table; }

}  // namespace shardscope::eager
