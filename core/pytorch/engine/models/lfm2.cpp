// LFM2's short convolution, its layers and its router. Source: transformers 5.24,
// models/lfm2/modeling_lfm2.py and models/lfm2_moe/modeling_lfm2_moe.py. Convolutions are those of
// PyTorch, which run where no kernel of causal_conv1d is installed.
#include <tuple>
#include <utility>

#include "core/pytorch/engine/aten/convolution.h"
#include "core/pytorch/engine/aten/indexing.h"
#include "core/pytorch/engine/aten/matmul.h"
#include "core/pytorch/engine/aten/selection.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/models/context.h"
#include "core/pytorch/engine/models/grouped_experts.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

constexpr double any_factor = 0.5;

/// causal_conv1d_fn without a kernel of its own: one channel a group, and the end cut off.
Tensor causal_convolution(Session& s, const Tensor& states, const Tensor& weight) {
  const Tensor kernel = squeeze(s, weight, 1);
  const std::int64_t padding = kernel.size(-1) - 1;
  Tensor out = conv1d(s, to(s, states, kernel.dtype()), unsqueeze(s, kernel, 1),
                      {.padding = padding, .groups = kernel.size(0)});
  out = slice(s, std::move(out), 2, 0, states.size(2));
  return to(s, std::move(out), states.dtype());
}

/// Lfm2ShortConv: {hidden states}.
Module::Forward short_convolution(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Tensor fused = transpose(s, call_one(s, module.child("in_proj"), {arguments[0]}), -1, -2);
    const Tensors parts = chunk(s, fused, 3, -2);
    Tensor hidden = mul(s, parts[0], parts[2]);
    hidden = causal_convolution(s, hidden, module.child("conv").parameter("weight"));
    Tensor output = mul(s, parts[1], hidden);
    output = contiguous(s, transpose(s, std::move(output), -1, -2));
    return {call_one(s, module.child("out_proj"), {output})};
  };
}

/// Lfm2DecoderLayer: {hidden states, mask, cos, sin, position ids}.
Module::Forward layer(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Tensor residual = arguments[0];
    Tensor hidden, weights;
    if (has_child(module, "self_attn")) {
      Tensors attended = call(s, module.child("self_attn"),
                              {{call_one(s, module.child("operator_norm"), {arguments[0]}),
                                arguments[1], arguments[2], arguments[3], arguments[4]},
                               0});
      hidden = std::move(attended[0]);
      weights = std::move(attended[1]);
    } else {
      hidden = call_one(s, module.child("conv"),
                        {{call_one(s, module.child("operator_norm"), {arguments[0]})}, 0});
    }
    hidden = add(s, hidden, residual);
    Tensor fed = call_one(s, module.child("feed_forward"),
                          {call_one(s, module.child("ffn_norm"), {hidden})});
    return {add(s, hidden, std::move(fed))};
  };
}

/// Lfm2MLP.
Module::Forward feed_forward(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    Tensor gate = silu(s, call_one(s, module.child("w1"), {arguments[0]}));
    Tensor up = call_one(s, module.child("w3"), {arguments[0]});
    return {call_one(s, module.child("w2"), {mul(s, std::move(gate), std::move(up))})};
  };
}

struct Routing {
  std::int64_t chosen = 0;
  bool normed = false;
};

Routing routing_of(const Context& context) {
  return {.chosen = context->config.integer("num_experts_per_tok"),
          .normed = context->config.flag("norm_topk_prob")};
}

/// What of {logits, bias of the choice, or None} is chosen: scores and indices.
std::pair<Tensor, Tensor> chosen_experts(Session& s, const Routing& routing, const Tensor& logits,
                                         const Tensor& bias) {
  Tensor scores = sigmoid(s, logits);
  Tensor biased, indices;
  if (bias) {
    biased = add(s, scores, bias);
    indices = topk(s, biased, routing.chosen).second;
    scores = type_as(s, gather(s, scores, 1, indices), logits);
  } else {
    std::tie(scores, indices) = topk(s, scores, routing.chosen);
  }
  if (routing.normed) scores = div(s, scores, add(s, sum(s, scores, {-1}, true), 1e-6));
  scores = mul(s, scores, any_factor);
  return {std::move(scores), std::move(indices)};
}

/// Lfm2MoeTopKRouter: {hidden states, bias of the choice, or None} to {logits, scores, indices}.
Module::Forward router(const Context& context, const Module&) {
  const Routing routing = routing_of(context);
  return [routing](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    Tensor logits = linear(s, arguments[0], module.parameter("weight"));
    auto [scores, indices] = chosen_experts(s, routing, logits, arguments[1]);
    return {std::move(logits), std::move(scores), std::move(indices)};
  };
}

/// Lfm2MoeSparseMoeBlock. Experts that are modules have a router that is a linear layer.
Module::Forward block(const Context& context, const Module&) {
  const bool biased = context->config.flag("use_expert_bias");
  const Routing routing = routing_of(context);
  return [=](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Dims sizes = arguments[0].sizes();
    const Tensor hidden = view(s, arguments[0], {-1, sizes[-1]});
    const Tensor bias = biased ? module.buffer("expert_bias") : Tensor();
    Tensors routed;
    if (module.child("experts").class_name == "Lfm2MoeExpertList") {
      Tensor logits = call_one(s, module.child("gate"), {hidden});
      auto [scores, indices] = chosen_experts(s, routing, logits, bias);
      routed = {std::move(logits), std::move(scores), std::move(indices)};
    } else {
      routed = call(s, module.child("gate"), {hidden, bias});
    }
    const Tensor fed = call_one(s, module.child("experts"), {hidden, routed[2], routed[1]});
    return {reshape(s, fed, sizes)};
  };
}

/// The loop over experts that are modules: {hidden states, indices, scores}. As many of them as can
/// be hit have equal shares.
Module::Forward expert_list(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const auto experts = static_cast<std::int64_t>(module.children.size());
    const ExpertShares shares = even_shares(experts, arguments[1].numel());
    const Tensor total = zeros_like(s, arguments[0]);
    const Tensor mask = permute(s, one_hot(s, arguments[1], experts), {2, 1, 0});
    const Tensor hit = nonzero(s, compare(s, Comparison::gt, sum(s, mask, {-1, -2}), 0),
                               static_cast<std::int64_t>(shares.size()));
    Tensor place, token, state, current;
    for (const ExpertShare& share : shares) {
      item(s, hit);
      {
        Tensors places = unbind(s, nonzero(s, select(s, mask, 0, share.expert), share.tokens), 1);
        place = std::move(places[0]);
        token = std::move(places[1]);
      }
      state = index(s, arguments[0], {token});
      Module& expert = *module.children[static_cast<std::size_t>(share.expert)].module;
      const Tensor weights = index(s, unsqueeze(s, arguments[2], -1), {token, place});
      current = mul(s, call_one(s, expert, {state}), weights);
      index_add_(s, total, token, to(s, current, total.dtype()));
    }
    return {total};
  };
}

constexpr ClassForward table[] = {
    {"Lfm2DecoderLayer", layer},          {"Lfm2MLP", feed_forward},
    {"Lfm2MoeDecoderLayer", layer},       {"Lfm2MoeExpertList", expert_list},
    {"Lfm2MoeMLP", feed_forward},         {"Lfm2MoeShortConv", short_convolution},
    {"Lfm2MoeSparseMoeBlock", block},     {"Lfm2MoeTopKRouter", router},
    {"Lfm2ShortConv", short_convolution},
};

}  // namespace

std::span<const ClassForward> lfm2_forwards() { return table; }

}  // namespace shardscope::eager
