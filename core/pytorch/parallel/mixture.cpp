#include "core/pytorch/parallel/mixture.h"

#include <fmt/format.h>

#include <limits>
#include <string>
#include <utility>

#include "core/pytorch/engine/aten/flex_attention.h"
#include "core/pytorch/engine/aten/grouped_mm.h"
#include "core/pytorch/engine/aten/indexing.h"
#include "core/pytorch/engine/aten/matmul.h"
#include "core/pytorch/engine/aten/selection.h"
#include "core/pytorch/engine/aten/softmax.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/models/context.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/parallel/latent_attention.h"
#include "core/pytorch/parallel/mixture_modules.h"
#include "core/pytorch/parallel/sequence_shards.h"
#include "core/pytorch/parallel/sink_attention.h"
#include "core/pytorch/runtimes/tensor/distributed_tensor.h"

namespace shardscope::eager::parallel {
namespace {

/// _rotate_half.
Tensor half_turned(Session& s, const Tensor& x) {
  const std::int64_t half = x.size(-1) / 2;
  const Tensor first = slice(s, x, 3, 0, half);
  const Tensor second = slice(s, x, 3, half);
  return cat(s, {neg(s, second), first}, -1);
}

Tensor turned(Session& s, const Tensor& x, const Tensor& cos, const Tensor& sin) {
  Tensor by_cos = mul(s, x, cos);
  Tensor by_sin = mul(s, half_turned(s, x), sin);
  return add(s, std::move(by_cos), std::move(by_sin));
}

/// CosSinRoPE: {queries, keys, positions}, all (B, T, H, D).
Tensors rotary_forward(Session& s, Module& me, const Arguments& arguments) {
  const Tensor &query = arguments[0], &key = arguments[1], &positions = arguments[2];
  const Tensor& table = me.buffer("cache");
  check_positions(s, positions, table.size(0));
  const Tensor rows = table_rows(s, table, positions);
  const std::int64_t size = query.size(3);
  const Tensor cos = slice(s, rows, 3, 0, size);
  const Tensor sin = slice(s, rows, 3, size);
  const Tensor query_wide = to(s, query, Dtype::float32);
  const Tensor key_wide = to(s, key, Dtype::float32);
  const Tensor query_out = turned(s, query_wide, cos, sin);
  const Tensor key_out = turned(s, key_wide, cos, sin);
  Tensor turned_query = type_as(s, query_out, query);
  Tensor turned_key = type_as(s, key_out, key);
  return {std::move(turned_query), std::move(turned_key)};
}

/// FusedQKVLinear: of each head of keys its queries, key and value lie together.
Module::Forward fused_projection(const MixtureShape& shape) {
  return [size = shape.head_dim, group = shape.heads / shape.kv_heads](
             Session& s, Module& me, const Arguments& arguments) -> Tensors {
    const std::int64_t batch = arguments[0].size(0), length = arguments[0].size(1);
    const Tensor fused = view(s, call_one(s, me.child("wqkv"), {arguments[0]}),
                              {batch, length, -1, group + 2, size});
    const Tensors parts = split_with_sizes(s, fused, {group, 1, 1}, 3);
    Tensors heads;
    for (const Tensor& part : parts)
      heads.push_back(contiguous(s, reshape(s, part, {batch, length, -1, size})));
    return heads;
  };
}

/// GQAttention.
Tensors attend(Session& s, Module& me, const Arguments& arguments, const ProcessGroup* context) {
  const auto [query, key, value] = rotated_heads(s, me, arguments);
  Tensor out;
  {
    const Tensor all_keys = with_all_tokens(s, context, key),
                 all_values = with_all_tokens(s, context, value);
    const Tensor q = transpose(s, query, 1, 2), k = transpose(s, all_keys, 1, 2),
                 v = transpose(s, all_values, 1, 2);
    out = transpose(s, flex_attention(s, q, k, v), 1, 2);
  }
  const Tensor flat = flatten(s, contiguous(s, out), 2);
  return {call_one(s, me.child("wo"), {flat})};
}

Module::Forward attention_forward(const ProcessGroup* context) {
  return [context](Session& s, Module& me, const Arguments& arguments) -> Tensors {
    return attend(s, me, arguments, context);
  };
}

}  // namespace

AttentionHeads rotated_heads(Session& s, Module& attention, const Arguments& arguments) {
  Tensors heads = call(s, attention.child("qkv_linear"), {arguments[0]});
  AttentionHeads result{std::move(heads[0]), std::move(heads[1]), std::move(heads[2])};
  heads.clear();
  if (has_child(attention, "q_norm")) {
    result.query = call_one(s, attention.child("q_norm"), {result.query});
    result.key = call_one(s, attention.child("k_norm"), {result.key});
  }
  Tensors turned = call(s, attention.child("rope"), {result.query, result.key, arguments[1]});
  result.query = std::move(turned[0]);
  result.key = std::move(turned[1]);
  return result;
}

void add_fused_projection(Session& s, Module& attention, const MixtureOptions& o, bool has_bias) {
  const MixtureShape& shape = o.shape;
  Module& projection = add_module(attention, "qkv_linear", "FusedQKVLinear");
  const Dims sizes{(shape.heads + 2 * shape.kv_heads) * shape.head_dim / tensor_ranks(o),
                   shape.dim};
  if (has_bias)
    add_biased_linear(s, projection, "wqkv", o, sizes);
  else
    add_linear(s, projection, "wqkv", o, sizes);
  projection.forward = fused_projection(shape);
}

void add_half_rotary(Session& s, Module& attention, const MixtureOptions& o) {
  Module& rope = add_module(attention, "rope", "CosSinRoPE");
  add_buffer(s, rope, "cache", {o.length, 2 * o.shape.head_dim});
  rope.forward = rotary_forward;
}

namespace {

void add_attention(Session& s, Module& block, const MixtureOptions& o) {
  const MixtureShape& shape = o.shape;
  Module& attention = add_module(block, "attention", "GQAttention");
  if (shape.turns_pairs)
    add_complex_rotary(s, attention, o.length, shape.head_dim);
  else
    add_half_rotary(s, attention, o);
  add_fused_projection(s, attention, o, false);
  add_row_linear(s, attention, "wo", o, {shape.dim, shape.heads * shape.head_dim});
  if (shape.norms_heads) {
    add_norm(s, attention, "q_norm", o.dtype, shape.head_dim);
    add_norm(s, attention, "k_norm", o.dtype, shape.head_dim);
  }
  attention.forward = with_whole_sequence(o.tensor, attention_forward(o.context));
}

/// FeedForward of whole sequences, whose results lie in parts.
Module& add_split_feed_forward(Session& s, Module& parent, const std::string& own,
                               std::int64_t hidden, const MixtureOptions& o) {
  Module& module = add_feed_forward(s, parent, own, o, hidden / tensor_ranks(o));
  Module& last = module.child("w2");
  last.forward = with_scattered_sum(o.tensor, std::move(last.forward));
  return module;
}

/// _get_node_limited_routing_scores: the experts of other groups than the best are left out.
Tensor limited_scores(Session& s, const Tensor& scores, const RouterForm& form) {
  Dims grouped_sizes = scores.sizes();
  grouped_sizes[-1] = form.groups;
  grouped_sizes.push_back(scores.size(-1) / form.groups);
  const Tensor grouped = view(s, scores, grouped_sizes);
  constexpr std::int64_t judged_by = 2;
  const auto [best, unused] = topk(s, grouped, judged_by);
  const Tensor group_scores = sum(s, best, {-1});
  const auto [unused_scores, groups] = topk(s, group_scores, form.chosen_groups);
  const Tensor mask = full(s, group_scores.sizes(), like(group_scores, Dtype::boolean));
  scatter_(s, mask, groups);
  const double left_out = -std::numeric_limits<double>::infinity();
  return flatten(s, masked_fill(s, grouped, unsqueeze(s, mask, -1), left_out), -2);
}

/// TokenChoiceTopKRouter: {scores, experts, all scores}.
Module::Forward router_forward(std::int64_t top_k, const RouterForm& form) {
  return [top_k, form](Session& s, Module& me, const Arguments& arguments) -> Tensors {
    Tensor all_scores = call_one(s, me.child("gate"), {arguments[0]});
    all_scores =
        form.is_sigmoid ? sigmoid(s, std::move(all_scores)) : softmax(s, std::move(all_scores), -1);
    Tensor judged = add(s, all_scores, arguments[1]);
    if (form.groups > 1) judged = limited_scores(s, judged, form);
    const auto [unused, experts] = topk(s, judged, top_k);
    Tensor scores = gather(s, all_scores, -1, experts);
    constexpr double small = 1e-20, route_scale = 1.0;
    if (form.normalizes) {
      const Tensor sums = add(s, sum(s, scores, {-1}, true), Number(small));
      scores = div(s, std::move(scores), sums);
    }
    scores = mul(s, std::move(scores), Number(route_scale));
    return {std::move(scores), experts, std::move(all_scores)};
  };
}

/// The gate under autocast in float32.
Tensors gate_forward(Session& s, Module& me, const Arguments& arguments) {
  const Tensor weight = to(s, me.parameter("weight"), Dtype::float32);
  const Tensor x = to(s, arguments[0], Dtype::float32);
  return {linear(s, x, weight)};
}

Tensors biased_gate_forward(Session& s, Module& me, const Arguments& arguments) {
  const Tensor bias = to(s, me.parameter("bias"), Dtype::float32);
  const Tensor weight = to(s, me.parameter("weight"), Dtype::float32);
  const Tensor x = to(s, arguments[0], Dtype::float32);
  return {linear(s, x, weight, bias)};
}

/// GroupedExperts: {tokens, how many each expert has}.
Tensors experts_forward(Session& s, Module& me, const Arguments& arguments) {
  const Tensor& x = arguments[0];
  const Tensor offsets = cumsum(s, arguments[1], 0, Dtype::int32);
  const auto product = [&](const Tensor& rows, const char* name) {
    const Tensor weight = to(s, me.parameter(name), Dtype::bfloat16);
    return grouped_mm(s, to(s, rows, Dtype::bfloat16), transpose(s, weight, -2, -1), offsets);
  };
  Tensor hidden = silu(s, product(x, "w1_EFD"));
  hidden = mul(s, hidden, product(x, "w3_EFD"));
  return {type_as(s, product(hidden, "w2_EDF"), x)};
}

/// RoutedExperts: {x (B, T, D), scores, experts, counts}.
Module::Forward routed_forward(const ProcessGroup* ranks, double load) {
  return [ranks, load](Session& s, Module& me, const Arguments& arguments) -> Tensors {
    const Tensor& x = arguments[0];
    const std::int64_t top_k = arguments[1].size(-1);
    const Tensor tokens = view(s, x, {-1, x.size(-1)});
    const Dispatched dispatched = dispatch_tokens(s, ranks, load, tokens,
                                                  {.scores = view(s, arguments[1], {-1, top_k}),
                                                   .experts = view(s, arguments[2], {-1, top_k}),
                                                   .counts = arguments[3]});
    const Tensor routed =
        call_one(s, me.child("inner_experts"), {dispatched.tokens, dispatched.counts});
    const Tensor out = combine_tokens(s, ranks, dispatched, routed, tokens);
    return {view(s, out, {x.size(0), -1, x.size(-1)})};
  };
}

/// MoE.
Tensors moe_forward(Session& s, Module& me, const Arguments& arguments) {
  const Tensors routed = call(s, me.child("router"), {arguments[0], me.buffer("expert_bias_E")});
  Tensor map = zeros(s, routed[2].sizes(), like(routed[2], Dtype::boolean));
  scatter_(s, map, routed[1]);
  const Tensor counts = sum(s, to(s, map, Dtype::int64), {0, 1});
  {
    const NoGrad no_grad(s);
    add_(s, me.buffer("tokens_per_expert_E"), counts);
  }
  const Tensor out =
      call_one(s, me.child("routed_experts"), {arguments[0], routed[0], routed[1], counts});
  if (!has_child(me, "shared_experts")) return {out};
  const Tensor shared = call_one(s, me.child("shared_experts"), {arguments[0]});
  return {add(s, out, shared)};
}

void set_experts(Session& s, Module& experts, const MixtureOptions& o, const OwnExperts& own) {
  const std::int64_t dim = o.shape.dim;
  add_parameter(s, experts, "w1_EFD", o.dtype, {own.experts, own.hidden, dim});
  add_parameter(s, experts, "w2_EDF", o.dtype, {own.experts, dim, own.hidden});
  add_parameter(s, experts, "w3_EFD", o.dtype, {own.experts, own.hidden, dim});
  experts.forward = experts_forward;
}

void add_moe(Session& s, Module& block, const MixtureOptions& o) {
  const MixtureShape& shape = o.shape;
  const std::int64_t here = shape.experts / (o.ranks ? o.ranks->size() : 1);
  // Experts that are spread get each rank's own tokens.
  const ProcessGroup* splits = o.ranks ? nullptr : o.tensor;
  const std::int64_t hidden = shape.hidden / (splits ? splits->size() : 1);
  Module& moe = add_module(block, "moe", "MoE");
  add_buffer(s, moe, "expert_bias_E", {shape.experts});
  add_buffer(s, moe, "tokens_per_expert_E", {shape.experts});
  Module& routed = add_module(moe, "routed_experts", "RoutedExperts");
  Module& experts = add_module(routed, "inner_experts", "GroupedExperts");
  if (shape.has_sinks)
    set_clamped_experts(s, experts, o, {.experts = here, .hidden = hidden});
  else
    set_experts(s, experts, o, {.experts = here, .hidden = hidden});
  routed.forward = with_scattered_sum(splits, routed_forward(o.ranks, o.load));
  Module& router = add_module(moe, "router", "TokenChoiceTopKRouter");
  const Dims gate{shape.experts, shape.dim};
  if (shape.has_sinks)
    add_biased_linear(s, router, "gate", o, gate).forward = biased_gate_forward;
  else
    add_exact_linear(s, router, "gate", o.dtype, gate).forward = gate_forward;
  router.forward = router_forward(shape.top_k, shape.router);
  if (shape.shared_hidden > 0) {
    Module& shared = add_split_feed_forward(s, moe, "shared_experts", shape.shared_hidden, o);
    if (!splits) shared.forward = with_whole_sequence(o.tensor, std::move(shared.forward));
  }
  moe.forward = with_whole_sequence(splits, moe_forward);
}

/// The norm's result is let go of before what is added is there.
Tensor on_normed(Session& s, Module& norm, Module& module, const Tensor& x,
                 const Tensor& positions) {
  const Tensor normed = call_one(s, norm, {x});
  return call_one(s, module, {normed, positions});
}

/// {x, positions}.
Tensors block_forward(Session& s, Module& me, const Arguments& arguments) {
  Tensor x = arguments[0];
  const Tensor& positions = arguments[1];
  Tensor more = on_normed(s, me.child("attention_norm"), me.child("attention"), x, positions);
  x = add(s, x, std::move(more));
  Module& second = me.child(has_child(me, "moe") ? "moe" : "feed_forward");
  more = on_normed(s, me.child("ffn_norm"), second, x, positions);
  return {add(s, x, std::move(more))};
}

std::string family_of(const MixtureShape& shape) {
  if (shape.latent) return "DeepSeekV3";
  if (shape.has_sinks) return "GptOss";
  return shape.turns_pairs ? "Llama3" : "Qwen3";
}

void add_dense(Session& s, Module& block, const MixtureOptions& o) {
  Module& dense = add_split_feed_forward(s, block, "feed_forward", o.shape.dense_hidden, o);
  dense.forward = with_whole_sequence(o.tensor, std::move(dense.forward));
}

/// Modules in the order in which torchtitan's classes make them, which is that of FSDP2.
void add_block(Session& s, Module& layers, std::int64_t number, const MixtureOptions& o) {
  const bool is_dense = number < o.shape.dense_layers;
  const auto add_second = [&](Module& block) {
    if (is_dense)
      add_dense(s, block, o);
    else
      add_moe(s, block, o);
  };
  const auto add_norms = [&](Module& block) {
    add_norm(s, block, "attention_norm", o.dtype, o.shape.dim);
    add_norm(s, block, "ffn_norm", o.dtype, o.shape.dim);
  };
  Module& block =
      add_module(layers, std::to_string(number), family_of(o.shape) + "TransformerBlock");
  if (o.shape.latent) {
    add_latent_attention(s, block, o);
    add_norms(block);
    add_second(block);
  } else if (o.shape.has_sinks) {
    add_sink_attention(s, block, o, number % 2 == 0 ? o.shape.window : 0);
    add_norms(block);
    add_second(block);
  } else {
    add_attention(s, block, o);
    add_second(block);
    add_norms(block);
  }
  block.forward = block_forward;
}

Tensors embedding_forward(Session& s, Module& me, const Arguments& arguments) {
  return {embedding(s, me.parameter("weight"), arguments[0])};
}

/// Of rows that another rank has zeros.
Tensors split_embedding_forward(Session& s, Module& me, const Arguments& arguments) {
  constexpr int any_bound = 1;
  const Tensor& ids = arguments[0];
  Tensor mask;
  {
    const Tensor from = compare(s, Comparison::ge, ids, any_bound);
    const Tensor below = compare(s, Comparison::lt, ids, any_bound);
    mask = bitwise_and(s, from, below);
  }
  const Tensor own = clamp(s, sub(s, ids, any_bound));
  const Tensor rows = embedding(s, me.parameter("weight"), own);
  return {mul(s, rows, to(s, unsqueeze(s, mask, -1), rows.dtype()))};
}

Tensors decoder_forward(Session& s, Module& me, const Arguments& arguments) {
  Tensor x = has_child(me, "tok_embeddings")
                 ? call_one(s, me.child("tok_embeddings"), {arguments[0]})
                 : arguments[0];
  for (const Module::Child& block : me.child("layers").children)
    x = call_one(s, *block.module, {x, arguments[1]});
  if (has_child(me, "norm")) x = call_one(s, me.child("norm"), {x});
  return {std::move(x)};
}

void add_embeddings(Session& s, Module& root, std::int64_t rows, const MixtureOptions& o) {
  Module& embeddings = add_module(root, "tok_embeddings", "Embedding");
  add_parameter(s, embeddings, "weight", o.dtype, {rows, o.shape.dim});
  embeddings.forward =
      with_scattered_sum(o.tensor, o.tensor ? split_embedding_forward : embedding_forward);
}

void add_head(Session& s, Module& root, std::int64_t rows, const MixtureOptions& o) {
  add_norm(s, root, "norm", o.dtype, o.shape.dim);
  Module& norm = root.child("norm");
  norm.forward = with_gathered_output(o.tensor, std::move(norm.forward));
  add_exact_linear(s, root, "lm_head", o.dtype, {rows, o.shape.dim});
}

Module& uncovered(Module& block) {
  return block.class_name == "CheckpointWrapper" ? block.child("_checkpoint_wrapped_module")
                                                 : block;
}

}  // namespace

std::shared_ptr<Module> make_mixture(Session& s, const MixtureOptions& o) {
  auto root = std::make_shared<Module>();
  root->class_name = family_of(o.shape) + "Model";
  const std::int64_t rows =
      o.tensor ? shard_size(o.shape.vocab, o.tensor->size(), o.tensor->rank) : o.shape.vocab;
  if (o.part.first) add_embeddings(s, *root, rows, o);
  Module& layers = add_module(*root, "layers", "ModuleDict");
  if (o.part.first && o.part.last)
    for (std::int64_t i = 0; i < o.shape.layers; ++i) add_block(s, layers, i, o);
  for (const std::int64_t i : o.part.layers) add_block(s, layers, i, o);
  if (o.part.last) add_head(s, *root, rows, o);
  root->forward = decoder_forward;
  return root;
}

bool is_whole_everywhere(const Module& module, std::string_view parameter) {
  const std::string& name = module.name;
  if (parameter == "bias" && name.ends_with(".wo")) return true;
  return module.class_name == "RMSNorm" || name.ends_with(".gate") || name.ends_with(".wq_a") ||
         name.ends_with(".wkv_a");
}

bool has_moe(Module& block) { return has_child(uncovered(block), "moe"); }

Module& moe_of(Module& block) { return uncovered(block).child("moe"); }

Module& grouped_experts_of(Module& block) {
  return moe_of(block).child("routed_experts").child("inner_experts");
}

}  // namespace shardscope::eager::parallel
