#include "core/pytorch/runtimes/record/operator_work.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>

namespace shardscope::eager {
namespace {

using Trait = OperatorTrait;

constexpr Trait attention(WorkKind kind, AttentionLibrary library) {
  return {.kind = kind, .library = library};
}

constexpr Trait list(int lists, int written) {
  return {.kind = WorkKind::multi_tensor, .lists = lists, .written = written};
}

constexpr Trait overwriting(Trait trait) {
  trait.overwrites = true;
  return trait;
}

using enum WorkKind;

/// Operators that are more than their OperatorKind says.
const std::unordered_map<std::string_view, Trait>& traits() {
  static const std::unordered_map<std::string_view, Trait> all{
      {"aten.zero_.default", {.kind = fill}},
      {"aten.fill_.Scalar", {.kind = fill}},
      {"aten.copy_.default", overwriting({.kind = copy})},
      {"aten.zeros_like.default", {.kind = fill}},
      {"aten.ones_like.default", {.kind = fill}},
      {"aten.full_like.default", {.kind = fill}},
      {"aten.new_zeros.default", {.kind = fill}},
      {"aten.new_ones.default", {.kind = fill}},
      {"aten.native_layer_norm.default", {.kind = norm_forward}},
      {"aten.native_layer_norm_backward.default", {.kind = norm_backward, .launches = 2}},
      {"aten._fused_rms_norm.default", {.kind = norm_forward}},
      {"aten._fused_rms_norm_backward.default", {.kind = norm_backward, .launches = 2}},
      {"aten._softmax.default", {.kind = softmax}},
      {"aten._safe_softmax.default", {.kind = softmax}},
      {"aten._log_softmax.default", {.kind = softmax}},
      {"aten._softmax_backward_data.default", {.kind = softmax}},
      {"aten._log_softmax_backward_data.default", {.kind = softmax}},
      {"aten.embedding_dense_backward.default", {.kind = scatter, .launches = 8}},
      {"aten.index_add_.default", {.kind = scatter}},
      {"aten.scatter_add_.default", {.kind = scatter}},
      {"aten._scaled_dot_product_flash_attention.default",
       attention(attention_forward, AttentionLibrary::flash)},
      {"aten._scaled_dot_product_flash_attention_backward.default",
       attention(attention_backward, AttentionLibrary::flash)},
      {"aten._scaled_dot_product_cudnn_attention.default",
       attention(attention_forward, AttentionLibrary::cudnn)},
      {"aten._scaled_dot_product_cudnn_attention_backward.default",
       attention(attention_backward, AttentionLibrary::cudnn)},
      {"aten._scaled_dot_product_efficient_attention.default",
       attention(attention_forward, AttentionLibrary::efficient)},
      {"aten._scaled_dot_product_efficient_attention_backward.default",
       attention(attention_backward, AttentionLibrary::efficient)},
      {"aten._scaled_dot_product_flash_attention_for_cpu.default",
       attention(attention_forward, AttentionLibrary::flash)},
      {"aten._scaled_dot_product_flash_attention_for_cpu_backward.default",
       attention(attention_backward, AttentionLibrary::flash)},
      {"higher_order.flex_attention", attention(attention_forward, AttentionLibrary::flash)},
      {"higher_order.flex_attention_backward",
       attention(attention_backward, AttentionLibrary::flash)},
      {"torchtitan.deterministic_scatter_add.default", {.kind = scatter, .launches = 8}},
      {"aten._foreach_add_.Scalar", list(1, 1)},
      {"aten._foreach_add_.Tensor", list(1, 1)},
      {"aten._foreach_add_.List", list(2, 1)},
      {"aten._foreach_add.List", list(2, 0)},
      {"aten._foreach_sub_.Scalar", list(1, 1)},
      {"aten._foreach_sub_.List", list(2, 1)},
      {"aten._foreach_mul_.Scalar", list(1, 1)},
      {"aten._foreach_mul_.Tensor", list(1, 1)},
      {"aten._foreach_div_.Scalar", list(1, 1)},
      {"aten._foreach_div_.List", list(2, 1)},
      {"aten._foreach_div_.ScalarList", list(1, 1)},
      {"aten._foreach_lerp_.Scalar", list(2, 1)},
      {"aten._foreach_addcmul_.Scalar", list(3, 1)},
      {"aten._foreach_addcdiv_.ScalarList", list(3, 1)},
      {"aten._foreach_maximum_.List", list(2, 1)},
      {"aten._foreach_copy_.default", overwriting(list(2, 1))},
      {"aten._foreach_sqrt.default", list(1, 0)},
      {"aten._foreach_sqrt_.default", list(1, 1)},
      {"aten._foreach_neg_.default", list(1, 1)},
      {"aten._foreach_zero_.default", overwriting(list(1, 1))},
      {"aten._foreach_norm.Scalar", list(1, 0)},
      {"aten._fused_adam_.default", list(4, 3)},
      {"aten._fused_adamw_.default", list(4, 3)},
      {"aten._fused_sgd_.default", list(3, 2)},
  };
  return all;
}

/// Tensors of the first list: others of a call are one for all.
std::size_t list_length(const OperatorCall& call, const Trait& trait) {
  return trait.lists == 0 ? 0 : call.inputs.size() / static_cast<std::size_t>(trait.lists);
}

/// Inputs, from the first, that are written and not read.
std::size_t overwritten_inputs(const OperatorCall& call, const Trait& trait) {
  if (!trait.overwrites) return 0;
  return trait.lists == 0 ? 1 : list_length(call, trait);
}

Bytes bytes_of(const OperatorCall& call, const Trait& trait) {
  std::int64_t written = 0, read = 0;
  const std::size_t overwritten = overwritten_inputs(call, trait);
  std::size_t input = 0;
  for (const TensorImpl* tensor : call.outputs) written += bytes_touched(*tensor);
  for (std::size_t i = 0; i < changed_inputs(call, trait); ++i)
    written += bytes_touched(*call.inputs[i]);
  if (trait.kind == fill) return {written};
  for_each_input(call, [&](const TensorImpl& tensor, std::uint32_t times) {
    if (input++ < overwritten) return;
    const std::int64_t all = bytes_touched(tensor) * times;
    read += call.op.kind == OperatorKind::indexing ? std::min(all, written) : all;
  });
  return {read + written};
}

/// Kernels that multi_tensor_apply launches: each takes so many tensors, by the number of lists,
/// and so many chunks of 65,536 elements. Source: ATen/native/cuda/MultiTensorApply.cuh.
std::int32_t multi_tensor_launches(const OperatorCall& call, const Trait& trait) {
  constexpr std::array<std::int64_t, 5> most_tensors{110, 64, 48, 36, 30};
  constexpr std::int64_t most_chunks = 320, chunk = 65536;
  const auto length = static_cast<std::int64_t>(list_length(call, trait));
  std::int64_t chunks = 0;
  for (std::int64_t i = 0; i < length; ++i)
    chunks +=
        (call.inputs[static_cast<std::size_t>(i)]->layout.sizes.product() + chunk - 1) / chunk;
  const std::int64_t depth = trait.lists + (trait.written == 0 ? 1 : 0);
  const std::int64_t tensors =
      most_tensors[static_cast<std::size_t>(std::min<std::int64_t>(depth, 5) - 1)];
  const std::int64_t by_tensors = (length + tensors - 1) / tensors;
  const std::int64_t by_chunks = (chunks + most_chunks - 1) / most_chunks;
  return static_cast<std::int32_t>(std::max<std::int64_t>({1, by_tensors, by_chunks}));
}

/// Of each expert on average, as whole rows of a tile's fragments: the mean of uneven numbers says
/// nothing of how rows are aligned, by which products are timed.
std::int64_t mean_rows(std::int64_t rows, std::int64_t experts) {
  constexpr std::int64_t aligned = 8;
  const std::int64_t parts = aligned * std::max<std::int64_t>(experts, 1);
  return (rows + parts - 1) / parts * aligned;
}

/// Rows [tokens, k] by [experts, k, n], or the gradient [experts, k, n] of two factors whose tokens
/// are the depth.
MatmulShape grouped_matmul_shape(const Dims& first, const Dims& second, const Dims& out) {
  if (out.size() == 3)
    return {.batch = out[0], .m = out[1], .n = out[2], .k = mean_rows(first[-1], out[0])};
  return {.batch = second[0], .m = mean_rows(out[0], second[0]), .n = out[1], .k = first[-1]};
}

bool is_grouped(std::string_view name) {
  return name.starts_with("aten._grouped_mm.") || name.starts_with("aten._scaled_grouped_mm.");
}

MatmulShape matmul_of(const OperatorCall& call) {
  if (call.outputs.empty() || call.inputs.size() < 2) return {};
  const std::size_t first = first_factor(call.op.name, call.inputs.size());
  return matmul_shape(call.op.name, call.inputs[first]->layout.sizes,
                      call.inputs[first + 1]->layout.sizes, call.outputs.front()->layout.sizes);
}

/// Queries, keys and values begin a forward's arguments and follow a backward's gradient.
AttentionShape attention_of(const OperatorCall& call, const Trait& trait) {
  const std::size_t first = trait.kind == attention_backward ? 1 : 0;
  if (call.inputs.size() < first + 2) return {};
  const Dims& q = call.inputs[first]->layout.sizes;
  const Dims& k = call.inputs[first + 1]->layout.sizes;
  if (q.size() != 4 || k.size() != 4) return {};
  return {.batch = q[0],
          .heads = q[1],
          .kv_heads = k[1],
          .queries = q[2],
          .keys = k[2],
          .head_dim = q[3],
          .library = trait.library,
          .causal = call.causal,
          .pairs = call.pairs};
}

bool makes_only(const OperatorCall& call) {
  return call.op.kind == OperatorKind::pointwise && call.inputs.empty();
}

}  // namespace

OperatorTrait trait_of(const Operator& op) {
  if (const auto found = traits().find(op.name); found != traits().end()) return found->second;
  switch (op.kind) {
    case OperatorKind::reduction:
      return {.kind = reduction};
    case OperatorKind::copy:
      return {.kind = copy};
    case OperatorKind::matmul:
      return {.kind = matmul};
    case OperatorKind::indexing:
      return {.kind = gather};
    case OperatorKind::random:
      return {.kind = WorkKind::random};
    default:
      return {};
  }
}

/// Factors of 8 bits, whose product has 16: the rate is that of the factors.
bool has_scaled_factors(std::string_view name) {
  return name.starts_with("aten._scaled_mm.") || name.starts_with("aten._scaled_grouped_mm.");
}

std::size_t first_factor(std::string_view name, std::size_t inputs) {
  return is_grouped(name) || has_scaled_factors(name) || inputs < 2 ? 0 : inputs - 2;
}

MatmulShape matmul_shape(std::string_view name, const Dims& first, const Dims& second,
                         const Dims& out) {
  if (is_grouped(name) && first.size() >= 2 && !second.empty() &&
      (out.size() == 2 || out.size() == 3))
    return grouped_matmul_shape(first, second, out);
  if (first.empty() || out.empty() || out.size() > 3) return {};
  const std::int64_t depth = first[-1];
  if (out.size() == 3) return {.batch = out[0], .m = out[1], .n = out[2], .k = depth};
  return {.batch = 1, .m = out[0], .n = out.size() == 2 ? out[1] : 1, .k = depth};
}

std::int64_t bytes_touched(const TensorImpl& tensor) {
  return std::min(tensor.layout.sizes.product() * size_of(tensor.layout.dtype).count,
                  tensor.storage->bytes().count);
}

std::size_t changed_inputs(const OperatorCall& call, const OperatorTrait& trait) {
  if (!call.outputs.empty()) return 0;
  if (trait.kind == fill) return std::min<std::size_t>(1, call.inputs.size());
  return list_length(call, trait) * static_cast<std::size_t>(trait.written);
}

DeviceWork work_of(const OperatorCall& call, const OperatorTrait& trait) {
  DeviceWork work{.kind = makes_only(call) ? fill : trait.kind,
                  .launches = trait.launches,
                  .bytes = bytes_of(call, trait),
                  .flops = {std::max<std::int64_t>(call.flops, 0)}};
  if (!call.outputs.empty()) work.dtype = call.outputs.front()->layout.dtype;
  if (work.kind == matmul) {
    if (has_scaled_factors(call.op.name)) work.dtype = call.inputs.front()->layout.dtype;
    work.matmul = matmul_of(call);
    work.flops = {2 * work.matmul.batch * work.matmul.m * work.matmul.n * work.matmul.k};
  } else if (work.kind == attention_forward || work.kind == attention_backward) {
    work.attention = attention_of(call, trait);
    work.flops = attention_flops(work.attention, work.kind == attention_backward);
  } else if (work.kind == multi_tensor) {
    work.tensors = static_cast<std::int32_t>(list_length(call, trait));
    work.launches = multi_tensor_launches(call, trait);
    if (!call.inputs.empty()) work.dtype = call.inputs.front()->layout.dtype;
  }
  return work;
}

}  // namespace shardscope::eager
