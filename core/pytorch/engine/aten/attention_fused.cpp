// The fused attention kernels: what they return, keep and make of gradients.
#include <algorithm>
#include <array>
#include <limits>

#include "core/pytorch/engine/aten/attention.h"
#include "core/pytorch/engine/dispatch.h"

namespace shardscope::eager {
namespace {

constexpr Operator flash_op{"aten._scaled_dot_product_flash_attention.default",
                            OperatorKind::attention};
constexpr Operator flash_backward_op{"aten._scaled_dot_product_flash_attention_backward.default",
                                     OperatorKind::attention};
constexpr Operator cudnn_op{"aten._scaled_dot_product_cudnn_attention.default",
                            OperatorKind::attention};
constexpr Operator cudnn_backward_op{"aten._scaled_dot_product_cudnn_attention_backward.default",
                                     OperatorKind::attention};
constexpr Operator efficient_op{"aten._scaled_dot_product_efficient_attention.default",
                                OperatorKind::attention};
constexpr Operator efficient_backward_op{
    "aten._scaled_dot_product_efficient_attention_backward.default", OperatorKind::attention};
constexpr Operator cpu_op{"aten._scaled_dot_product_flash_attention_for_cpu.default",
                          OperatorKind::attention};
constexpr Operator cpu_backward_op{
    "aten._scaled_dot_product_flash_attention_for_cpu_backward.default", OperatorKind::attention};

/// Of the two products of forward; torch.utils.flop_counter, sdpa_flop_count.
std::int64_t forward_flops(const Tensor& query, const Tensor& key, const Tensor& value) {
  const std::int64_t scores = query.size(0) * query.size(1) * query.size(2) * key.size(2);
  return 2 * scores * (query.size(3) + value.size(3));
}

/// Of the five products of backward, the scores made again among them: sdpa_backward_flop_count.
std::int64_t backward_flops(const Tensor& query, const Tensor& key, const Tensor& value) {
  const std::int64_t scores = query.size(0) * query.size(1) * query.size(2) * key.size(2);
  return 2 * scores * (3 * query.size(3) + 2 * value.size(3));
}

/// alloc_with_matching_layout: the dimensions of `sizes` in the query's order.
Tensor allocate_matching(Session& s, const Tensor& query, const Dims& sizes) {
  if (sizes == query.sizes()) return allocate_like(s, query, query.dtype());
  std::array<int, Dims::capacity> order{};
  for (int i = 0; i < sizes.size(); ++i) order[static_cast<std::size_t>(i)] = i;
  const auto key_of = [&](int i) {
    const std::int64_t stride = query.strides()[i];
    return stride ? stride : std::numeric_limits<std::int64_t>::max();
  };
  std::stable_sort(order.begin(), order.begin() + sizes.size(),
                   [&](int a, int b) { return key_of(a) < key_of(b); });
  Dims strides = sizes;
  std::int64_t stride = 1;
  for (int i = 0; i < sizes.size(); ++i) {
    const int dim = order[static_cast<std::size_t>(i)];
    strides[dim] = stride;
    stride *= sizes[dim];
  }
  return allocate_strided(s, like(query), sizes, strides);
}

Dims output_sizes(const AttentionArguments& a) {
  return {a.query.size(0), a.query.size(1), a.query.size(2), a.value.size(3)};
}

/// (B, H, T, D) that lies as (B, T, H, D).
Tensor allocate_tokens_first(Session& s, const Tensor& of, const Dims& sizes) {
  const std::int64_t row = sizes[1] * sizes[3];
  return allocate_strided(s, like(of), sizes, {sizes[2] * row, sizes[3], row, 1});
}

void save_inputs(Session& s, const NodeRef& node, const AttentionArguments& a) {
  node->save(s, "query", a.query);
  node->save(s, "key", a.key);
  node->save(s, "value", a.value);
}

/// What every backward reads.
struct Saved {
  Tensor query, key, value, output, logsumexp;
  Saved(Session& s, Node& node, std::string_view logsumexp_field)
      : query(node.saved(s, "query")),
        key(node.saved(s, "key")),
        value(node.saved(s, "value")),
        output(node.saved(s, "output")),
        logsumexp(node.saved(s, logsumexp_field)) {}
  std::int64_t flops() const { return backward_flops(query, key, value); }
};

Tensors flash_backward(Session& s, Node& node, Tensors& gradients, bool causal) {
  const Saved saved(s, node, "logsumexp");
  const Tensor state = node.saved(s, "rng_state");
  const Tensor unused = node.saved(s, "unused");
  const Tensors results{allocate_like(s, saved.query, saved.query.dtype()),
                        allocate_like(s, saved.key, saved.key.dtype()),
                        allocate_like(s, saved.value, saved.value.dtype())};
  dispatched(s, flash_backward_op,
             {&gradients[0], &saved.query, &saved.key, &saved.value, &saved.output,
              &saved.logsumexp, &state, &unused},
             {&results[0], &results[1], &results[2]}, {saved.flops(), causal});
  return results;
}

Tensors cudnn_backward(Session& s, Node& node, Tensors& gradients, bool causal) {
  const Saved saved(s, node, "logsumexp");
  const Tensor seed = node.saved(s, "philox_seed");
  const Tensor offset = node.saved(s, "philox_offset");
  const Tensor bias = node.saved(s, "attn_bias");
  const Tensors results{allocate_like(s, saved.query, saved.query.dtype()),
                        allocate_like(s, saved.key, saved.key.dtype()),
                        allocate_like(s, saved.value, saved.value.dtype())};
  dispatched(s, cudnn_backward_op,
             {&gradients[0], &saved.query, &saved.key, &saved.value, &saved.output,
              &saved.logsumexp, &seed, &offset, &bias},
             {&results[0], &results[1], &results[2]}, {saved.flops(), causal});
  return results;
}

/// Of a mask that is trained: rows padded to multiples of 16. A fake tensor has no storage beyond
/// its last element.
Tensor bias_gradient(Session& s, const Tensor& bias) {
  constexpr std::int64_t alignment = 16;
  Dims padded = bias.sizes();
  padded[-1] = (padded[-1] + alignment - 1) / alignment * alignment;
  const Dims strides = contiguous_strides(padded);
  if (s.settings.fake_tensors) return allocate_strided(s, like(bias), bias.sizes(), strides);
  return alias_of(allocate(s, like(bias), padded), bias.sizes(), strides, 0);
}

Tensors efficient_backward(Session& s, Node& node, Tensors& gradients, bool causal) {
  const Saved saved(s, node, "log_sumexp");
  const Tensor seed = node.saved(s, "philox_seed");
  const Tensor offset = node.saved(s, "philox_offset");
  const Tensor bias = node.saved(s, "attn_bias");
  const Tensors results{allocate_tokens_first(s, saved.query, saved.query.sizes()),
                        allocate_tokens_first(s, saved.key, saved.key.sizes()),
                        allocate_tokens_first(s, saved.value, saved.value.sizes()),
                        node.needs(3) ? bias_gradient(s, bias) : Tensor()};
  dispatched(s, efficient_backward_op,
             {&gradients[0], &saved.query, &saved.key, &saved.value, &bias, &saved.output,
              &saved.logsumexp, &seed, &offset},
             {&results[0], &results[1], &results[2], &results[3]}, {saved.flops(), causal});
  return results;
}

Tensors cpu_backward(Session& s, Node& node, Tensors& gradients, bool causal) {
  const Saved saved(s, node, "logsumexp");
  const Tensor mask = node.saved(s, "attn_mask");
  const Tensors results{allocate_tokens_first(s, saved.query, saved.query.sizes()),
                        allocate_tokens_first(s, saved.key, saved.key.sizes()),
                        allocate_tokens_first(s, saved.value, saved.value.sizes())};
  dispatched(s, cpu_backward_op,
             {&gradients[0], &saved.query, &saved.key, &saved.value, &saved.output,
              &saved.logsumexp, &mask},
             {&results[0], &results[1], &results[2]}, {saved.flops(), causal});
  return results;
}

/// A backward that knows whether its forward was causal.
template <Tensors (*Backward)(Session&, Node&, Tensors&, bool)>
auto with_causal(bool causal) {
  return [causal](Session& s, Node& node, Tensors& gradients) {
    return Backward(s, node, gradients, causal);
  };
}

std::int64_t flops_of(const AttentionArguments& a) {
  return forward_flops(a.query, a.key, a.value);
}

}  // namespace

Tensor flash_attention(Session& s, const AttentionArguments& a, Tensor& debug_mask) {
  const NodeRef node =
      make_node(s, "ScaledDotProductFlashAttentionBackward0", {&a.query, &a.key, &a.value},
                with_causal<flash_backward>(a.causal));
  if (node) save_inputs(s, node, a);
  const Tensor output = allocate_matching(s, a.query, output_sizes(a));
  const Tensor logsumexp = allocate(s, like(a.query, Dtype::float32),
                                    {a.query.size(0), a.query.size(1), a.query.size(2)});
  const Tensor state = allocate(s, like(a.query, Dtype::uint64), {2});
  const Tensor unused = allocate(s, like(a.query, Dtype::uint64), {});
  debug_mask = allocate(s, like(a.query), {0});
  dispatched(s, flash_op, {&a.query, &a.key, &a.value},
             {&output, &logsumexp, &state, &unused, &debug_mask}, {flops_of(a), a.causal});
  set_history(s, output, node);
  if (node) {
    node->save_output(s, "output", output);
    node->save_output(s, "logsumexp", logsumexp);
    node->save_output(s, "rng_state", state);
    node->save_output(s, "unused", unused);
  }
  return output;
}

Tensor cudnn_attention(Session& s, const AttentionArguments& a) {
  const NodeRef node =
      make_node(s, "ScaledDotProductCudnnAttentionBackward0", {&a.query, &a.key, &a.value},
                with_causal<cudnn_backward>(a.causal));
  if (node) {
    save_inputs(s, node, a);
    node->save(s, "attn_bias", a.mask);
  }
  const Tensor output = allocate_matching(s, a.query, output_sizes(a));
  const Tensor logsumexp = allocate(s, like(a.query, Dtype::float32),
                                    {a.query.size(0), a.query.size(1), a.query.size(2), 1});
  const Tensor seed = allocate(s, like(a.query, Dtype::int64), {});
  const Tensor offset = allocate(s, like(a.query, Dtype::int64), {});
  dispatched(s, cudnn_op, {&a.query, &a.key, &a.value, &a.mask},
             {&output, &logsumexp, &seed, &offset}, {flops_of(a), a.causal});
  set_history(s, output, node);
  if (node) {
    node->save_output(s, "output", output);
    node->save_output(s, "logsumexp", logsumexp);
    node->save_output(s, "philox_seed", seed);
    node->save_output(s, "philox_offset", offset);
  }
  return output;
}

Tensor efficient_attention(Session& s, const AttentionArguments& a) {
  const NodeRef node =
      make_node(s, "ScaledDotProductEfficientAttentionBackward0",
                {&a.query, &a.key, &a.value, &a.mask}, with_causal<efficient_backward>(a.causal));
  if (node) {
    save_inputs(s, node, a);
    node->save(s, "attn_bias", a.mask);
  }
  constexpr std::int64_t queries_in_a_block = 32;
  const std::int64_t blocks = (a.query.size(2) + queries_in_a_block - 1) / queries_in_a_block;
  // With dropout the host knows them and they stay there, but for fake tensors.
  const Device kept_on = a.dropout > 0 && !s.settings.fake_tensors ? Device::cpu : a.query.device();
  const Tensor seed = allocate(s, {Dtype::int64, kept_on}, {});
  const Tensor offset = allocate(s, {Dtype::int64, kept_on}, {});
  const Tensor output = allocate_tokens_first(s, a.query, output_sizes(a));
  // Without a gradient there is no log-sum-exp.
  const Tensor logsumexp =
      allocate(s, like(a.query, Dtype::float32),
               {a.query.size(0), a.query.size(1), node ? blocks * queries_in_a_block : 0});
  dispatched(s, efficient_op, {&a.query, &a.key, &a.value, &a.mask},
             {&output, &logsumexp, &seed, &offset}, {flops_of(a), a.causal});
  set_history(s, output, node);
  if (node) {
    node->save_output(s, "output", output);
    node->save_output(s, "log_sumexp", logsumexp);
    node->save_output(s, "philox_seed", seed);
    node->save_output(s, "philox_offset", offset);
  }
  return output;
}

Tensor flash_attention_for_cpu(Session& s, const AttentionArguments& a) {
  const NodeRef node = make_node(s, "ScaledDotProductFlashAttentionForCpuBackward0",
                                 {&a.query, &a.key, &a.value}, with_causal<cpu_backward>(a.causal));
  if (node) {
    save_inputs(s, node, a);
    node->save(s, "attn_mask", a.mask);
  }
  const std::int64_t batch = a.query.size(0), heads = a.query.size(1), tokens = a.query.size(2);
  const Dtype accumulated = a.query.dtype() == Dtype::float64 ? Dtype::float64 : Dtype::float32;
  const Tensor output = allocate_like(s, a.query, a.query.dtype());
  const Tensor logsumexp = allocate_strided(s, like(a.query, accumulated), {batch, heads, tokens},
                                            {tokens * heads, 1, heads});
  dispatched(s, cpu_op, {&a.query, &a.key, &a.value, &a.mask}, {&output, &logsumexp},
             {flops_of(a), a.causal});
  set_history(s, output, node);
  if (node) {
    node->save_output(s, "output", output);
    node->save_output(s, "logsumexp", logsumexp);
  }
  return output;
}

namespace {

FusedAttention flash_alone(Session& s, const AttentionArguments& a) {
  FusedAttention result;
  result.output = allocate_matching(s, a.query, output_sizes(a));
  result.logsumexp = allocate(s, like(a.query, Dtype::float32),
                              {a.query.size(0), a.query.size(1), a.query.size(2)});
  const Tensor state = allocate(s, like(a.query, Dtype::uint64), {2});
  const Tensor unused = allocate(s, like(a.query, Dtype::uint64), {});
  dispatched(s, flash_op, {&a.query, &a.key, &a.value},
             {&result.output, &result.logsumexp, &state, &unused}, {flops_of(a), a.causal});
  result.rest = {state, unused};
  return result;
}

FusedAttention efficient_alone(Session& s, const AttentionArguments& a) {
  constexpr std::int64_t queries_in_a_block = 32;
  const std::int64_t blocks = (a.query.size(2) + queries_in_a_block - 1) / queries_in_a_block;
  FusedAttention result;
  const Tensor seed = allocate(s, like(a.query, Dtype::int64), {});
  const Tensor offset = allocate(s, like(a.query, Dtype::int64), {});
  result.output = allocate_tokens_first(s, a.query, output_sizes(a));
  result.logsumexp = allocate(s, like(a.query, Dtype::float32),
                              {a.query.size(0), a.query.size(1), blocks * queries_in_a_block});
  dispatched(s, efficient_op, {&a.query, &a.key, &a.value},
             {&result.output, &result.logsumexp, &seed, &offset}, {flops_of(a), a.causal});
  result.rest = {seed, offset};
  return result;
}

}  // namespace

FusedAttention fused_attention(Session& s, AttentionKernel kernel, const AttentionArguments& a) {
  return kernel == AttentionKernel::flash ? flash_alone(s, a) : efficient_alone(s, a);
}

Tensors fused_attention_backward(Session& s, AttentionKernel kernel, const Tensor& gradient,
                                 const AttentionArguments& a, const FusedAttention& forward) {
  const bool flash = kernel == AttentionKernel::flash;
  const auto gradient_of = [&](const Tensor& of) {
    return flash ? allocate_like(s, of, of.dtype()) : allocate_tokens_first(s, of, of.sizes());
  };
  const Tensors results{gradient_of(a.query), gradient_of(a.key), gradient_of(a.value)};
  const std::int64_t flops = backward_flops(a.query, a.key, a.value);
  const Tensor none;
  if (flash)
    dispatched(s, flash_backward_op,
               {&gradient, &a.query, &a.key, &a.value, &forward.output, &forward.logsumexp,
                &forward.rest[0], &forward.rest[1]},
               {&results[0], &results[1], &results[2]}, {flops, a.causal});
  else
    dispatched(s, efficient_backward_op,
               {&gradient, &a.query, &a.key, &a.value, &none, &forward.output, &forward.logsumexp,
                &forward.rest[0], &forward.rest[1]},
               {&results[0], &results[1], &results[2], &none}, {flops, a.causal});
  return results;
}

}  // namespace shardscope::eager
