// Scratch of the fused attention kernels.
#include <algorithm>
#include <cmath>

#include "core/pytorch/engine/kernel_scratch.h"

namespace shardscope::eager {
namespace {

std::int64_t ceil_div(std::int64_t value, std::int64_t step) { return (value + step - 1) / step; }
std::int64_t round_up(std::int64_t value, std::int64_t step) {
  return ceil_div(value, step) * step;
}

/// Sizes of (B, H, T, K).
struct Attention {
  std::int64_t batch = 0;
  std::int64_t heads = 0;
  std::int64_t queries = 0;
  std::int64_t width = 0;
};
Attention attention_of(const TensorImpl& tensor) {
  const Dims& sizes = tensor.layout.sizes;
  return {sizes[0], sizes[1], sizes[2], sizes[3]};
}

/// Into how many parts the keys are split so that a small problem fills the device.
/// Source: flash_attn/flash_api.cpp, num_splits_heuristic.
std::int64_t splits_of(std::int64_t blocks, std::int64_t processors, std::int64_t key_blocks) {
  constexpr std::int64_t most = 128;
  if (static_cast<double>(blocks) >= 0.8 * static_cast<double>(processors)) return 1;
  const std::int64_t limit = std::min({most, processors, key_blocks});
  const auto eligible = [&](std::int64_t n) {
    return n == 1 || ceil_div(key_blocks, n) != ceil_div(key_blocks, n - 1);
  };
  const auto efficiency = [&](std::int64_t n) {
    const float waves = static_cast<float>(blocks * n) / static_cast<float>(processors);
    return waves / std::ceil(waves);
  };
  float best = 0;
  for (std::int64_t n = 1; n <= limit; ++n)
    if (eligible(n)) best = std::max(best, efficiency(n));
  for (std::int64_t n = 1; n <= limit; ++n)
    if (eligible(n) && efficiency(n) >= 0.85F * best) return n;
  return 1;
}

/// Kernel of the mem-efficient backward: rows and columns of dQ that are summed up at once.
struct EfficientTile {
  std::int64_t rows = 64;
  std::int64_t columns = 64;
};
EfficientTile efficient_tile(std::int64_t width, bool half) {
  if (width <= 64) return {};
  if (half && width <= 128) return {128, 128};
  return {128, 64};
}

bool is_half(Dtype dtype) { return size_of(dtype).count == 2; }

/// Elements of fp32 for each batch and head. Source: mem_eff_attention/kernel_backward.h,
/// workspace_strideBH.
std::int64_t accumulator_elements(const Attention& q, std::int64_t keys, bool half,
                                  const KernelDevice& device) {
  constexpr std::int64_t header = 4;
  constexpr std::int64_t key_block = 64;
  const EfficientTile tile = efficient_tile(q.width, half);
  const std::int64_t dq = ceil_div(q.queries, tile.rows) * ceil_div(q.width, tile.columns) *
                          (header + tile.rows * tile.columns);
  if (!half || q.width <= 128) return dq;
  const std::int64_t splits = std::clamp<std::int64_t>(device.multiprocessors / (q.batch * q.heads),
                                                       1, ceil_div(keys, key_block));
  return dq + 2 * splits * key_block * round_up(q.width, tile.rows);
}

/// grad.contiguous() and so on of (B, T, H, K), seen as (B, H, T, K).
bool contiguous_by_token(const TensorImpl& tensor) {
  const Dims& sizes = tensor.layout.sizes;
  const Dims& strides = tensor.layout.strides;
  std::int64_t expected = 1;
  for (const int dim : {3, 1, 2, 0}) {
    if (sizes[dim] == 1) continue;
    if (strides[dim] != expected) return false;
    expected *= sizes[dim];
  }
  return true;
}

}  // namespace

/// With split keys each part has its own sums. Source: flash_api.cpp, set_params_splitkv.
void flash_forward_scratch(const OperatorCall& call, const KernelDevice& device,
                           ScratchPlan& plan) {
  const Attention q = attention_of(*call.inputs[0]);
  const std::int64_t keys = call.inputs[1]->layout.sizes[2];
  const std::int64_t key_block = q.width <= 64 ? 256 : q.width <= 128 ? 128 : 64;
  const std::int64_t splits = splits_of(q.batch * q.heads * ceil_div(q.queries, 64),
                                        2 * device.multiprocessors, ceil_div(keys, key_block));
  if (splits == 1) return;
  const std::int64_t rows = splits * q.batch * q.heads * q.queries;
  plan.outputs();
  const int sums = plan.take(rows * 4);
  plan.take(rows * round_up(q.width, 32) * 4);
  plan.give_back(sums);
}

/// Source: attention_backward.cu, _flash_attention_backward: gradient and output contiguous by
/// token; flash_api.cpp, mha_bwd: softmax_d, dq_accum; with fewer key heads dk and dv for each
/// query head.
void flash_backward_scratch(const OperatorCall& call, const KernelDevice&, ScratchPlan& plan) {
  const Attention q = attention_of(*call.inputs[1]);
  constexpr int output = 4;
  for (const int input : {0, output})
    if (!contiguous_by_token(*call.inputs[static_cast<std::size_t>(input)]))
      plan.take(q.batch * q.heads * q.queries * q.width * 2);
  const std::int64_t key_heads = call.inputs[2]->layout.sizes[1];
  const std::int64_t keys = call.inputs[2]->layout.sizes[2];
  const std::int64_t rows = q.batch * q.heads * round_up(q.queries, 128);
  plan.outputs();
  plan.take(rows * 4);
  plan.take(rows * round_up(q.width, 32) * 4);
  if (key_heads == q.heads) return;
  const std::int64_t expanded = q.batch * keys * q.heads * q.width * 2;
  plan.take(expanded);
  plan.take(expanded);
}

/// One workspace: of cudnn-frontend's graph dq in fp32 and a sum for each row; of cuDNN's plan 256
/// B, and with fewer key heads dk and dv for each query head. As PyTorch 2.11 allocated on an H200,
/// for heads of 64 (docs/measured/2026-11-26_h200.md); other widths were not measured.
void cudnn_backward_scratch(const OperatorCall& call, const KernelDevice&, ScratchPlan& plan) {
  constexpr std::int64_t of_plan = 256;
  const Attention q = attention_of(*call.inputs[1]);
  const std::int64_t key_heads = call.inputs[2]->layout.sizes[1];
  const std::int64_t keys = call.inputs[2]->layout.sizes[2];
  const std::int64_t rows = q.batch * q.heads * q.queries;
  const std::int64_t expanded =
      key_heads == q.heads ? 0 : 2 * q.batch * q.heads * keys * q.width * 2;
  plan.outputs();
  plan.take(rows * q.width * 4 + rows * 4 + of_plan + expanded);
}

/// Wide heads in half precision are summed up in fp32. Source: attention.cu,
/// _efficient_attention_forward.
void efficient_forward_scratch(const OperatorCall& call, const KernelDevice&, ScratchPlan& plan) {
  const Attention q = attention_of(*call.inputs[0]);
  if (!is_half(call.inputs[0]->layout.dtype) || q.width <= 128) return;
  plan.outputs();
  plan.take(q.batch * q.heads * q.queries * q.width * 4);
}

/// Source: attention_backward.cu, _efficient_attention_backward: in fp32 the row sums of dO * O are
/// made by plain operators, in half precision by the kernel. With fewer key heads dk and dv are
/// made for each query head.
void efficient_backward_scratch(const OperatorCall& call, const KernelDevice& device,
                                ScratchPlan& plan) {
  const TensorImpl& gradient = *call.inputs[0];
  const Attention q = attention_of(*call.inputs[1]);
  const bool half = is_half(gradient.layout.dtype);
  const std::int64_t keys = call.inputs[2]->layout.sizes[2];
  const std::int64_t rows = q.batch * q.heads * q.queries;
  if (!contiguous_by_token(gradient))
    plan.take(rows * q.width * size_of(gradient.layout.dtype).count);
  plan.outputs();
  if (call.inputs[2]->layout.sizes[1] != q.heads) {
    const std::int64_t expanded =
        q.batch * keys * q.heads * q.width * size_of(gradient.layout.dtype).count;
    plan.take(expanded);
    plan.take(expanded);
  }
  if (half) {
    const int sums = plan.take(rows * 4);
    const int accumulator =
        plan.take(q.batch * q.heads * accumulator_elements(q, keys, half, device) * 4);
    plan.give_back(sums);
    return plan.give_back(accumulator);
  }
  const int product = plan.take(rows * q.width * 4);
  int sums = plan.take(rows * 4);
  if (q.heads > 1 && q.queries > 1) {
    const int by_token = sums;
    sums = plan.take(rows * 4);
    plan.give_back(by_token);
  }
  plan.give_back(product);
  const int accumulator =
      plan.take(q.batch * q.heads * accumulator_elements(q, keys, half, device) * 4);
  plan.give_back(sums);
  plan.give_back(accumulator);
}

}  // namespace shardscope::eager
