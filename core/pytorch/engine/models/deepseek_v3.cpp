// DeepSeek-V3's attention over latents, router and mixture. Source: transformers 5.24,
// models/deepseek_v3/modeling_deepseek_v3.py and glm4_moe/modeling_glm4_moe.py.
#include <tuple>
#include <utility>

#include "core/pytorch/engine/aten/indexing.h"
#include "core/pytorch/engine/aten/matmul.h"
#include "core/pytorch/engine/aten/selection.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/models/attention_interface.h"
#include "core/pytorch/engine/models/context.h"
#include "core/pytorch/engine/models/rotary.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

constexpr double any_factor = 0.5;

/// Sizes of a head's parts: with and without rotary embedding, and of a value.
struct HeadParts {
  std::int64_t plain = 0, rotary = 0, value = 0;
};

Tensor projected_queries(Session& s, Module& module, const Tensor& hidden) {
  if (has_child(module, "q_proj")) return call_one(s, module.child("q_proj"), {hidden});
  Tensor latent = call_one(s, module.child("q_a_proj"), {hidden});
  latent = call_one(s, module.child("q_a_layernorm"), {std::move(latent)});
  return call_one(s, module.child("q_b_proj"), {std::move(latent)});
}

/// expand_kv: {keys, values} of all heads out of the latents.
std::pair<Tensor, Tensor> expanded(Session& s, Module& module, const Tensor& latents,
                                   const Tensor& rotary_key, const HeadParts& parts) {
  Tensor both = call_one(s, module.child("kv_b_proj"), {latents});
  both =
      view(s, std::move(both), {latents.size(0), latents.size(2), -1, parts.plain + parts.value});
  both = transpose(s, std::move(both), 1, 2);
  Tensors cut = split_with_sizes(s, both, {parts.plain, parts.value}, -1);
  const Tensor turned = expand(s, rotary_key, {-1, cut[0].size(1), -1, -1});
  Dims sizes = both.sizes();
  sizes[-1] = parts.plain + parts.rotary;
  Tensor keys = new_empty(s, both, sizes);
  copy_into_slice(s, keys, -1, 0, cut[0]);
  copy_into_slice(s, keys, -1, parts.plain, turned);
  return {std::move(keys), std::move(cut[1])};
}

/// {hidden states, mask, cos, sin}.
Module::Forward attention(const Context& context, const Module& owner) {
  const ModelConfig& config = context->config;
  const HeadParts parts{.plain = config.integer("qk_nope_head_dim"),
                        .rotary = config.integer("qk_rope_head_dim"),
                        .value = config.integer("v_head_dim")};
  const std::int64_t latent_size = config.integer("kv_lora_rank");
  const double dropped = config.number("attention_dropout");
  const auto turn = config.flag("rope_interleave") ? apply_paired_rotary : apply_rotary;
  const std::size_t layer = layer_number(owner.name);
  return [=](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Tensor& hidden = arguments[0];
    const std::int64_t batch = hidden.size(0), tokens = hidden.size(1);
    Tensor queries = projected_queries(s, module, hidden);
    queries = view(s, std::move(queries), {batch, tokens, -1, parts.plain + parts.rotary});
    queries = transpose(s, std::move(queries), 1, 2);
    Tensor plain_query, turned_query;
    {
      Tensors cut = split_with_sizes(s, queries, {parts.plain, parts.rotary}, -1);
      plain_query = std::move(cut[0]);
      turned_query = std::move(cut[1]);
    }
    Tensor compressed = call_one(s, module.child("kv_a_proj_with_mqa"), {hidden});
    Tensor latents, rotary_key;
    {
      Tensors cut = split_with_sizes(s, compressed, {latent_size, parts.rotary}, -1);
      latents = std::move(cut[0]);
      rotary_key = std::move(cut[1]);
    }
    latents = call_one(s, module.child("kv_a_layernorm"), {latents});
    latents = view(s, std::move(latents), {batch, 1, tokens, latent_size});
    rotary_key = view(s, std::move(rotary_key), {batch, 1, tokens, parts.rotary});
    std::tie(turned_query, rotary_key) =
        turn(s, turned_query, rotary_key, arguments[2], arguments[3]);
    std::tie(latents, rotary_key) = cached(s, context, layer, latents, rotary_key);
    Tensor query = cat(s, {plain_query, turned_query}, -1);
    auto [keys, values] = expanded(s, module, latents, rotary_key, parts);
    const LetGo last_local{values};
    const LetGo locals{queries, plain_query, turned_query, compressed,
                       latents, rotary_key,  query,        keys};
    AttentionResult result = attend(s, context,
                                    {.query = query,
                                     .key = keys,
                                     .value = values,
                                     .mask = arguments[1],
                                     .dropout = module.training ? dropped : 0});
    Tensor output = contiguous(s, reshape(s, result.output, {batch, tokens, -1}));
    result.output.reset();
    output = call_one(s, module.child("o_proj"), {output});
    return {std::move(output), std::move(result.weights)};
  };
}

/// How DeepseekV3TopkRouter chooses.
struct RouterForm {
  std::int64_t chosen = 0, groups = 0, chosen_groups = 0;
  bool normed = false;
};

/// DeepseekV3TopkRouter and Glm4MoeTopkRouter: {logits, weights, indices}, in float32. A token has
/// the best experts of the best groups; all variables live until it returns.
Tensors route(Session& s, Module& module, const Tensor& given, const RouterForm& form) {
  const std::int64_t experts = module.sizes_of("weight")[0], of_group = experts / form.groups;
  const Tensor hidden = view(s, given, {-1, module.sizes_of("weight")[1]});
  Tensor logits = [&] {
    Tensor wide_hidden = to(s, hidden, Dtype::float32);
    return linear(s, std::move(wide_hidden), to(s, module.parameter("weight"), Dtype::float32));
  }();
  Tensor scores = sigmoid(s, logits);
  Tensor judged = add(s, scores, module.buffer("e_score_correction_bias"));
  Tensor group_scores = topk(s, view(s, judged, {-1, form.groups, of_group}), 2).first;
  group_scores = sum(s, std::move(group_scores), {-1});
  Tensor best = topk(s, group_scores, form.chosen_groups).second;
  Tensor group_mask = zeros_like(s, group_scores);
  scatter_(s, group_mask, best);
  Tensor mask = expand(s, unsqueeze(s, group_mask, -1), {-1, form.groups, of_group});
  mask = reshape(s, std::move(mask), {-1, experts});
  judged = masked_fill(s, judged, bitwise_not(s, to(s, mask, Dtype::boolean)), 0);
  Tensor indices = topk(s, judged, form.chosen).second;
  Tensor weights = gather(s, scores, 1, indices);
  Tensor denominator;
  if (form.normed) {
    denominator = add(s, sum(s, weights, {-1}, true), 1e-20);
    weights = div_(s, weights, denominator);
  }
  weights = mul(s, std::move(weights), any_factor);
  const LetGo locals{scores, judged, group_scores, best, group_mask, mask, denominator};
  return {std::move(logits), std::move(weights), std::move(indices)};
}

Module::Forward router(const Context& context, const Module&) {
  const ModelConfig& config = context->config;
  const RouterForm form{.chosen = config.integer("num_experts_per_tok"),
                        .groups = config.integer("n_group"),
                        .chosen_groups = config.integer("topk_group"),
                        .normed = config.flag("norm_topk_prob")};
  return [form](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    return route(s, module, arguments[0], form);
  };
}

/// DeepseekV3MoE and Glm4MoeMoE: the chosen experts and the shared one.
Module::Forward mixture(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Tensor& residuals = arguments[0];
    const Dims sizes = residuals.sizes();
    const Tensors routed = call(s, module.child("gate"), {residuals});
    Tensor hidden = view(s, residuals, {-1, sizes[-1]});
    hidden = call_one(s, module.child("experts"), {hidden, routed[2], routed[1]});
    hidden = view(s, std::move(hidden), sizes);
    Tensor shared = call_one(s, module.child("shared_experts"), {residuals});
    hidden = add(s, hidden, std::move(shared));
    return {std::move(hidden)};
  };
}

constexpr ClassForward table[] = {{"DeepseekV3Attention", attention}, {"DeepseekV3MoE", mixture},
                                  {"DeepseekV3TopkRouter", router},   {"Dots1MoE", mixture},
                                  {"Dots1TopkRouter", router},        {"Glm4MoeMoE", mixture},
                                  {"Glm4MoeTopkRouter", router}};

}  // namespace

std::span<const ClassForward> deepseek_v3_forwards() { return table; }

}  // namespace shardscope::eager
