// AFMoE's router and mixture. Source: transformers 5.24 and 5.0, models/afmoe/modeling_afmoe.py;
// experts that are modules of their own are those of 5.0 and of the models' own repositories.
#include <cstdint>
#include <utility>

#include "core/pytorch/engine/aten/indexing.h"
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

/// AfmoeTokenChoiceRouter: {hidden states, bias of the choice} to {logits, scores, indices}.
Module::Forward router(const Context& context, const Module&) {
  const std::int64_t chosen = context->config.integer("num_experts_per_tok");
  const bool recorded = context->config.flag("output_router_logits");
  return [=](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Tensor hidden = view(s, arguments[0], {-1, arguments[0].size(-1)});
    Tensor logits = to(s, call_one(s, module.child("gate"), {hidden}), Dtype::float32);
    if (recorded) context->router_logits.push_back(logits);
    const Tensor scores = sigmoid(s, logits);
    auto [best, indices] = topk(s, add(s, scores, arguments[1]), chosen);
    Tensor of_chosen = gather(s, scores, 1, indices);
    const Tensor denominator = add(s, sum(s, of_chosen, {-1}, true), 1e-20);
    of_chosen = div(s, of_chosen, denominator);
    of_chosen = mul(s, of_chosen, any_factor);
    return {std::move(logits), std::move(of_chosen), std::move(indices)};
  };
}

/// AfmoeSparseMoeBlock, and AfmoeMoE before it.
Module::Forward block(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Dims sizes = arguments[0].sizes();
    const Tensor hidden = view(s, arguments[0], {-1, sizes[-1]});
    const Tensors routed =
        call(s, module.child("router"), {arguments[0], module.parameter("expert_bias")});
    const Tensor shared = view(s, call_one(s, module.child("shared_experts"), {hidden}), sizes);
    const Tensor fed =
        view(s, call_one(s, module.child("experts"), {hidden, routed[2], routed[1]}), sizes);
    return {add(s, shared, fed)};
  };
}

/// A row for each pair of token and expert, sorted by the experts.
struct Pairs {
  Tensor tokens, experts, weights;
};

Pairs sorted_pairs(Session& s, const Arguments& arguments) {
  const Tensor& hidden = arguments[0];
  Pairs pairs;
  pairs.tokens = repeat_interleave(s, arange(s, hidden.size(0), {Dtype::int64, s.settings.device}),
                                   arguments[1].size(-1), 0);
  pairs.experts = reshape(s, arguments[1], {-1});
  pairs.weights = reshape(s, arguments[2], {-1});
  const Tensor order = sort(s, pairs.experts).second;
  pairs.tokens = index(s, pairs.tokens, {order});
  pairs.experts = index(s, pairs.experts, {order});
  pairs.weights = index(s, pairs.weights, {order});
  return pairs;
}

/// The loop of AfmoeExperts of 5.0: {hidden states, indices, scores}. As many experts as can be hit
/// have equal shares.
Module::Forward expert_list(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Tensor& hidden = arguments[0];
    const Pairs pairs = sorted_pairs(s, arguments);
    const Tensor dispatched = index_select(s, hidden, 0, pairs.tokens);
    const Tensor outputs = zeros_like(s, dispatched);
    item(s, pairs.experts);  // tolist(), of the experts and of their counts
    item(s, pairs.experts);
    std::int64_t start = 0;
    const auto experts = static_cast<std::int64_t>(module.children.size());
    for (const ExpertShare& share : even_shares(experts, pairs.tokens.numel())) {
      const Tensor input = slice(s, dispatched, 0, start, start + share.tokens);
      Module& expert = *module.children[static_cast<std::size_t>(share.expert)].module;
      copy_into_slice(s, outputs, 0, start, call_one(s, expert, {input}));
      start += share.tokens;
    }
    Tensor weighted = mul(s, to(s, outputs, Dtype::float32), unsqueeze(s, pairs.weights, -1));
    weighted = to(s, std::move(weighted), hidden.dtype());
    const Tensor total = zeros_like(s, hidden);
    return {index_add_(s, total, pairs.tokens, weighted)};
  };
}

constexpr ClassForward table[] = {
    {"AfmoeExpertList", expert_list},
    {"AfmoeMoE", block},
    {"AfmoeSparseMoeBlock", block},
    {"AfmoeTokenChoiceRouter", router},
};

}  // namespace

std::span<const ClassForward> afmoe_forwards() { return table; }

}  // namespace shardscope::eager
