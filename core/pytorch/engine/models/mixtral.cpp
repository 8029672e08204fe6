// Mixtral's and Qwen3-MoE's experts, and DeepSeek-V3's. Source: transformers 5.23,
// models/mixtral/modeling_mixtral.py and integrations/moe.py.
#include "core/pytorch/engine/aten/indexing.h"
#include "core/pytorch/engine/aten/matmul.h"
#include "core/pytorch/engine/aten/selection.h"
#include "core/pytorch/engine/aten/softmax.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/models/context.h"
#include "core/pytorch/engine/models/grouped_experts.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

/// MixtralTopKRouter, and Qwen3MoeTopKRouter as others have it: {logits, scores, indices}.
Module::Forward router(const Context& context, const Module& owner) {
  const bool qwen = owner.class_name != "MixtralTopKRouter";
  const bool normed = !qwen || context->config.flag("norm_topk_prob");
  const std::int64_t chosen = context->config.integer("num_experts_per_tok");
  const bool recorded = context->config.flag("output_router_logits");
  return [=](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Tensor hidden = reshape(s, arguments[0], {-1, module.sizes_of("weight")[1]});
    Tensor logits = linear(s, hidden, module.parameter("weight"));
    if (recorded) context->router_logits.push_back(logits);
    const Tensor probabilities = softmax(s, to(s, logits, Dtype::float32), -1);
    auto [scores, indices] = topk(s, probabilities, chosen);
    if (normed) scores = div_(s, scores, sum(s, scores, {-1}, true));
    if (qwen) scores = to(s, scores, logits.dtype());
    return {std::move(logits), std::move(scores), std::move(indices)};
  };
}

/// MiniMaxM2TopKRouter: {logits, weights, indices}; the second argument is a bias of the choice.
Module::Forward sigmoid_router(const Context& context, const Module&) {
  const std::int64_t chosen = context->config.integer("num_experts_per_tok");
  const bool recorded = context->config.flag("output_router_logits");
  return [=](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Tensor hidden = reshape(s, arguments[0], {-1, module.sizes_of("weight")[1]});
    const Tensor& weight = module.parameter("weight");
    Tensor logits = linear(s, to(s, hidden, weight.dtype()), weight);
    if (recorded) context->router_logits.push_back(logits);
    const Tensor scores = sigmoid(s, to(s, logits, Dtype::float32));
    const Tensor judged = add(s, scores, arguments[1]);
    auto [best, indices] = topk(s, judged, chosen);
    Tensor weights = gather(s, scores, 1, indices);
    weights = div_(s, weights, sum(s, weights, {-1}, true));
    return {std::move(logits), std::move(weights), std::move(indices)};
  };
}

/// MixtralSparseMoeBlock, MiniMaxM2SparseMoeBlock, and Qwen3MoeSparseMoeBlock, which has no jitter.
Module::Forward block(const Context& context, const Module& owner) {
  const bool jitters = context->config.find_number("router_jitter_noise").value_or(0) > 0;
  const bool biased = owner.class_name == "MiniMaxM2SparseMoeBlock";
  return [jitters, biased](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Dims sizes = arguments[0].sizes();
    Tensor hidden = arguments[0];
    if (jitters && module.training) hidden = mul_(s, hidden, uniform_(s, empty_like(s, hidden)));
    hidden = view(s, hidden, {-1, sizes[-1]});
    Arguments routing{hidden};
    if (biased) routing.tensors.push_back(module.buffer("e_score_correction_bias"));
    const Tensors routed = call(s, module.child("gate"), routing);
    hidden = call_one(s, module.child("experts"), {hidden, routed[2], routed[1]});
    return {reshape(s, hidden, sizes)};
  };
}

/// Qwen2MoeSparseMoeBlock: an expert that all tokens go through, behind a gate of its own.
Module::Forward block_with_shared_expert(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Dims sizes = arguments[0].sizes();
    const Tensor hidden = view(s, arguments[0], {-1, sizes[-1]});
    Tensor shared = call_one(s, module.child("shared_expert"), {hidden});
    const Tensors routed = call(s, module.child("gate"), {hidden});
    Tensor fed = call_one(s, module.child("experts"), {hidden, routed[2], routed[1]});
    shared = mul(s, sigmoid(s, call_one(s, module.child("shared_expert_gate"), {hidden})), shared);
    fed = add(s, fed, shared);
    return {reshape(s, fed, sizes)};
  };
}

/// _default_apply_gate.
Tensor gated(Session& s, Module& module, const Tensor& fused) {
  const Tensors parts = chunk(s, fused, 2, -1);
  // LFM2's is a function.
  if (!has_child(module, "act_fn")) return mul(s, silu(s, parts[0]), parts[1]);
  return mul(s, call_one(s, module.child("act_fn"), {parts[0]}), parts[1]);
}

/// What an iteration over the experts binds; the names keep the last ones.
struct LoopNames {
  Tensor place, token, state, gate, up, current;
};

/// One turn of the loop of MixtralExperts.forward; indexing by a tensor reads it back.
void run_expert(Session& s, Module& module, const Arguments& arguments, const Tensor& mask,
                const Tensor& expert, const ExpertShare& share, LoopNames& names,
                const Tensor& total) {
  const auto chosen_by = [&](const Tensor& stack) {
    item(s, expert);
    return select(s, stack, 0, share.expert);
  };
  item(s, compare(s, Comparison::eq, expert, module.sizes_of("gate_up_proj")[0]));
  {
    Tensors places = unbind(s, nonzero(s, chosen_by(mask), share.tokens), 1);
    names.place = std::move(places[0]);
    names.token = std::move(places[1]);
  }
  names.state = index(s, arguments[0], {names.token});
  {
    Tensors parts =
        chunk(s, linear(s, names.state, chosen_by(module.parameter("gate_up_proj"))), 2, -1);
    names.gate = std::move(parts[0]);
    names.up = std::move(parts[1]);
  }
  names.current = mul(s, call_one(s, module.child("act_fn"), {names.gate}), names.up);
  names.current = linear(s, names.current, chosen_by(module.parameter("down_proj")));
  names.current =
      mul(s, names.current, index(s, unsqueeze(s, arguments[2], -1), {names.token, names.place}));
  index_add_(s, total, names.token, to(s, names.current, total.dtype()));
}

Tensors run_loop(Session& s, Module& module, const Arguments& arguments,
                 const ExpertShares& shares) {
  const std::int64_t experts = module.sizes_of("gate_up_proj")[0];
  const Tensor total = zeros_like(s, arguments[0]);
  Tensor mask, hit;
  {
    const NoGrad no_grad(s);
    mask = one_hot(s, arguments[1], experts + 1);
    mask = permute(s, mask, {2, 1, 0});
    hit = nonzero(s, compare(s, Comparison::gt, sum(s, mask, {-1, -2}), 0),
                  static_cast<std::int64_t>(shares.size()));
  }
  LoopNames names;
  const Tensors rows = unbind(s, hit, 0);
  for (std::size_t i = 0; i < rows.size(); ++i)
    run_expert(s, module, arguments, mask, select(s, rows[i], 0, 0), shares[i], names, total);
  return {total};
}

/// {hidden states, indices, scores}.
Module::Forward experts(const Context& context, const Module& owner) {
  const std::size_t layer = layer_number(owner.name);
  return [context, layer](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    if (context->settings.experts == ExpertsImplementation::grouped_mm)
      return run_grouped_experts(s, module, arguments, {.gate = gated});
    const auto& routing = context->settings.routing;
    return run_loop(s, module, arguments,
                    layer < routing.size()
                        ? routing[layer]
                        : even_shares(module.sizes_of("gate_up_proj")[0], arguments[1].numel()));
  };
}

constexpr ClassForward table[] = {
    {"AfmoeExperts", experts},
    {"DeepseekV3Experts", experts},
    {"MixtralExperts", experts},
    {"MixtralSparseMoeBlock", block},
    {"MixtralTopKRouter", router},
    {"Qwen3MoeExperts", experts},
    {"Qwen3MoeSparseMoeBlock", block},
    {"Gemma4TextExperts", experts},
    {"Lfm2MoeExperts", experts},
    {"Qwen3MoeTopKRouter", router},
    {"Dots1Experts", experts},
    {"Glm4MoeExperts", experts},
    {"MiniMaxM2Experts", experts},
    {"MiniMaxM2SparseMoeBlock", block},
    {"MiniMaxM2TopKRouter", sigmoid_router},
    {"OlmoeExperts", experts},
    {"OlmoeSparseMoeBlock", block},
    {"OlmoeTopKRouter", router},
    {"Qwen2MoeExperts", experts},
    {"Qwen2MoeTopKRouter", router},
    {"Qwen2MoeSparseMoeBlock", block_with_shared_expert},
};

}  // namespace

std::span<const ClassForward> mixtral_forwards() { return table; }

}  // namespace shardscope::eager
