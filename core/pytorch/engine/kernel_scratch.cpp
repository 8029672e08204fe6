#include "core/pytorch/engine/kernel_scratch.h"

#include <algorithm>
#include <iterator>

namespace shardscope::eager {
namespace {

std::int64_t bytes_of_elements(const TensorImpl& tensor) {
  return tensor.layout.sizes.product() * size_of(tensor.layout.dtype).count;
}

bool contiguous(const TensorImpl& tensor) {
  std::int64_t expected = 1;
  for (int i = tensor.layout.sizes.size() - 1; i >= 0; --i) {
    if (tensor.layout.sizes[i] == 1) continue;
    if (tensor.layout.strides[i] != expected) return false;
    expected *= tensor.layout.sizes[i];
  }
  return true;
}

/// tensor.contiguous() inside a kernel's wrapper.
void copy_if_strided(const TensorImpl& tensor, ScratchPlan& plan) {
  if (!contiguous(tensor)) plan.take(bytes_of_elements(tensor));
}

/// gfx942 and gfx950 of AMD, whose libraries are ROCm's.
bool is_instinct(const KernelDevice& device) {
  return device.compute_capability == 94 || device.compute_capability == 95;
}

/// Workspace of cuBLAS and of products without bias that go through cuBLASLt: around each product.
/// Source: ATen/cuda/CublasHandlePool.cpp, parseChosenWorkspaceSize: ":4096:2:16:8", on sm_90 and
/// later 32 MiB; under ROCm on gfx94 and gfx95 128 MiB.
void product_workspace(const OperatorCall&, const KernelDevice& device, ScratchPlan& plan) {
  constexpr std::int64_t ampere = 2 * 4096 * 1024 + 8 * 16 * 1024;
  constexpr std::int64_t hopper = 33'554'432, instinct = 4 * hopper;
  if (!device.blas_workspaces) return;
  plan.outputs();
  const bool is_new = device.compute_capability >= 90;
  plan.take(is_instinct(device) ? instinct : is_new ? hopper : ampere);
}

/// Matrices whose neither rows nor columns lie dense are copied first. Source:
/// ATen/native/cuda/Blas.cpp, prepare_batch_matrix_for_cublas.
void copy_for_cublas(const TensorImpl& matrices, ScratchPlan& plan) {
  const Dims& sizes = matrices.layout.sizes;
  const Dims& strides = matrices.layout.strides;
  const bool has_rows = strides[2] == 1 && strides[1] >= std::max<std::int64_t>(1, sizes[2]);
  const bool has_columns = strides[1] == 1 && strides[2] >= std::max<std::int64_t>(1, sizes[1]);
  if (!has_rows && !has_columns) copy_if_strided(matrices, plan);
}

/// bmm and baddbmm, whose factors stand last.
void batched_product_scratch(const OperatorCall& call, const KernelDevice& device,
                             ScratchPlan& plan) {
  plan.outputs();
  const std::size_t factors = call.inputs.size() - 2;
  // The result is row-major: cuBLAS has the factors in the other order.
  copy_for_cublas(*call.inputs[factors + 1], plan);
  copy_for_cublas(*call.inputs[factors], plan);
  if (device.blas_workspaces) product_workspace(call, device, plan);
}

/// A bias of one dimension is added by cuBLASLt's epilogue, which has a workspace of its own size
/// (CUBLASLT_WORKSPACE_SIZE: 1024 KiB, under ROCm 76 MiB). Source: ATen/native/cuda/Blas.cpp,
/// addmm_out_cuda_impl; ATen/cuda/CUDABlas.cpp, _parseChosenWorkspaceSize.
void addmm_workspace(const OperatorCall& call, const KernelDevice& device, ScratchPlan& plan) {
  constexpr std::int64_t epilogue = 1'048'576, epilogue_of_rocm = 76 * epilogue;
  const TensorImpl& bias = *call.inputs[0];
  const Dims& columns = call.inputs[2]->layout.sizes;
  const bool in_epilogue = bias.layout.sizes.size() == 1 && contiguous(bias) &&
                           bias.layout.sizes[0] == columns[1] && columns[0] > 1 && columns[1] > 1;
  if (!in_epilogue) return product_workspace(call, device, plan);
  if (!device.blas_workspaces) return;
  plan.outputs();
  plan.take(is_instinct(device) ? epilogue_of_rocm : epilogue);
}

/// Source: ATen/native/cuda/ForeachReduceOp.cu: offsets of the tensors' chunks, one partial result
/// a chunk.
void foreach_norm_scratch(const OperatorCall& call, const KernelDevice&, ScratchPlan& plan) {
  constexpr std::int64_t chunk_elements = 65'536;
  std::int64_t chunks = 0;
  std::int64_t tensors = 0;  // that are not empty
  for (const TensorImpl* tensor : call.inputs) {
    const std::int64_t elements = tensor->layout.sizes.product();
    chunks += (elements + chunk_elements - 1) / chunk_elements;
    tensors += elements > 0 ? 1 : 0;
  }
  const int offsets = plan.take((tensors + 1) * 8);
  const int partial = plan.take(chunks * 4);
  plan.outputs();
  plan.give_back(partial);
  plan.give_back(offsets);
}

std::int64_t round_up(std::int64_t value, std::int64_t step) {
  return (value + step - 1) / step * step;
}

/// Temporary storage of cub::DeviceScan on sm_90: a status and a value for each tile and 32 more,
/// what is scanned first, and room to align both. As seen for 1 to 2^20 elements.
std::int64_t scan_state_bytes(std::int64_t elements, std::int64_t element_bytes) {
  const std::int64_t tile = element_bytes == 8 ? 896 : 1920;
  const std::int64_t tiles = (elements + tile - 1) / tile;
  return round_up((tiles + 32) * 2 * element_bytes, 256) + 256 + 255;
}

/// Source: ATen/native/cuda/ScanKernels.cu. One row is scanned by CUB, whose tiles need their
/// state.
void cumsum_scratch(const OperatorCall& call, const KernelDevice&, ScratchPlan& plan) {
  const TensorImpl& in = *call.inputs[0];
  const TensorImpl& out = *call.outputs[0];
  plan.outputs();
  if (in.layout.dtype != out.layout.dtype) plan.take(bytes_of_elements(out));
  const std::int64_t elements = out.layout.sizes.product();
  if (elements != out.layout.sizes.back()) return;
  plan.take(scan_state_bytes(elements, size_of(out.layout.dtype).count));
}

// Wrappers that make their inputs contiguous, before or after the outputs are allocated.
void copies_before(const OperatorCall& call, const KernelDevice&, ScratchPlan& plan) {
  for (const TensorImpl* tensor : call.inputs) copy_if_strided(*tensor, plan);
  plan.outputs();
}

void copies_after(const OperatorCall& call, const KernelDevice&, ScratchPlan& plan) {
  plan.outputs();
  for (const TensorImpl* tensor : call.inputs) copy_if_strided(*tensor, plan);
}

/// weight.index_select(0, indices.reshape(-1)).
void embedding_scratch(const OperatorCall& call, const KernelDevice&, ScratchPlan& plan) {
  copy_if_strided(*call.inputs[1], plan);
  plan.outputs();
}

/// The indices are made contiguous before the gradient. More of them than 3,072 are sorted, and the
/// rows of one index are summed by tens: sums of a part of them in float32, as many as there could
/// be. Source: ATen/native/cuda/Embedding.cu, EmbeddingBackwardKernel.cu; the sums as seen in a
/// recording of torch 2.15. What sorting takes is given back before.
void embedding_backward_scratch(const OperatorCall& call, const KernelDevice&, ScratchPlan& plan) {
  constexpr std::int64_t most_unsorted = 3072;
  constexpr std::int64_t rows_a_sum = 10;  // NROWS_PER_THREAD
  copy_if_strided(*call.inputs[1], plan);
  copy_if_strided(*call.inputs[0], plan);
  const TensorImpl& indices = *call.inputs[1];
  const std::int64_t count = indices.layout.sizes.product();
  const Dims& weight = call.outputs[0]->layout.sizes;
  if (count <= most_unsorted || weight.size() != 2) return plan.outputs();
  const std::int64_t index = size_of(indices.layout.dtype).count;
  const std::int64_t number =
      std::max(size_of(call.outputs[0]->layout.dtype).count, size_of(Dtype::float32).count);
  const std::int64_t segments = std::min(count, weight[0]);
  const std::int64_t sums = count / rows_a_sum + segments;
  for (int each = 0; each < 2; ++each) plan.take(count * index);  // sorted, original places
  plan.outputs();
  plan.take(count * index);
  for (int each = 0; each < 2; ++each) plan.take(segments * index);
  plan.take(sums * index);
  plan.take(sums * weight[1] * number);
}

/// Bytes of a chunk that one block of the copying kernels below works on.
constexpr std::int64_t bytes_a_block = 2048;

std::int64_t blocks_of(std::int64_t bytes) { return (bytes + bytes_a_block - 1) / bytes_a_block; }

/// Addresses, sizes and offsets of the splits, and which block works on which. Source:
/// ATen/native/cuda/TensorShape.cu, split_with_sizes_copy_out_cuda_contiguous_no_cast. The outputs
/// are (ranks, elements of a shard).
void copy_out_scratch(const OperatorCall& call, const KernelDevice&, ScratchPlan& plan) {
  std::int64_t entries = 1;
  for (const TensorImpl* split : call.outputs)
    if (!split->layout.sizes.empty())
      entries += 4 + blocks_of(split->layout.sizes.back() * size_of(split->layout.dtype).count);
  plan.take(entries * 8);
}

/// The same for copies into the buffer to be reduced: TensorShape.cu, _chunk_cat_out_cuda.
void chunk_cat_scratch(const OperatorCall& call, const KernelDevice&, ScratchPlan& plan) {
  const std::int64_t ranks = call.outputs.empty() ? 0 : call.outputs[0]->layout.sizes[0];
  if (ranks == 0) return;
  std::int64_t entries = 2;
  for (const TensorImpl* gradient : call.inputs) {
    const Dims& sizes = gradient->layout.sizes;
    const std::int64_t rows = (sizes[0] + ranks - 1) / ranks;
    const std::int64_t elements = sizes[0] == 0 ? 0 : rows * (sizes.product() / sizes[0]);
    entries += 6 + blocks_of(elements * size_of(call.outputs[0]->layout.dtype).count);
  }
  plan.take(entries * 8);
}

/// number ** tensor: the number becomes a float64 tensor on the device, once the output is there.
void number_scratch(const OperatorCall&, const KernelDevice&, ScratchPlan& plan) {
  plan.outputs();
  plan.take(size_of(Dtype::float64).count);
}

/// self.abs() == inf. Source: ATen/native/TensorCompare.cpp.
void isinf_scratch(const OperatorCall& call, const KernelDevice&, ScratchPlan& plan) {
  plan.take(bytes_of_elements(*call.inputs[0]));
  plan.outputs();
}

/// Operands of another dtype than the result are converted first. Source:
/// ATen/native/TensorCompare.cpp, where_self_out.
void where_scratch(const OperatorCall& call, const KernelDevice&, ScratchPlan& plan) {
  const Dtype result = call.outputs[0]->layout.dtype;
  for (const TensorImpl* operand : call.inputs.subspan(1))
    if (operand->layout.dtype != result)
      plan.take(operand->layout.sizes.product() * size_of(result).count);
  plan.outputs();
}

/// torch.sort: positions to sort with; of long rows cub's second copies of values and positions,
/// less some 30 KB that it counts with. Source: ATen/native/cuda/Sort.cpp; seen with torch 2.15.
void sort_scratch(const OperatorCall& call, const KernelDevice&, ScratchPlan& plan) {
  constexpr std::int64_t longest_small_sort = 4096;
  constexpr std::int64_t position = 8;
  const auto& values = call.outputs[0]->layout;
  const std::int64_t count = values.sizes.product();
  plan.outputs();
  plan.take(count * position);
  if (!values.sizes.empty() && values.sizes[values.sizes.size() - 1] > longest_small_sort)
    plan.take(count * (size_of(values.dtype).count + position));
}

/// The largest scores of each row, which nobody keeps.
void flex_forward_scratch(const OperatorCall& call, const KernelDevice&, ScratchPlan& plan) {
  plan.outputs();
  plan.take(bytes_of_elements(*call.outputs[1]));
}

/// Of bfloat16: addresses, sizes and strides of each group, and CUTLASS's tensor maps, four of 128
/// bytes a multiprocessor. Others are products one by one. Source: ATen/native/cuda/GroupedBlas.cpp
/// and GroupMM.cu, as seen in recordings of torch 2.15.
void grouped_product_scratch(const OperatorCall& call, const KernelDevice& device,
                             ScratchPlan& plan) {
  constexpr std::int64_t addresses = 3 * 8, strides = 3 * 8, sizes = 3 * 4;
  constexpr std::int64_t bytes_a_group = addresses + strides + sizes;
  constexpr std::int64_t maps = 4, bytes_a_map = 128;
  plan.outputs();
  if (device.compute_capability < 90 || call.inputs[0]->layout.dtype != Dtype::bfloat16) return;
  plan.take(call.inputs[2]->layout.sizes.product() * bytes_a_group);
  plan.take(device.multiprocessors * maps * bytes_a_map);
}

/// The indices are sorted with their places. Source: ATen/native/cuda/Indexing.cu,
/// index_put_with_sort_kernel, as seen in recordings of torch 2.15.
void sorted_scatter_scratch(const OperatorCall& call, const KernelDevice&, ScratchPlan& plan) {
  constexpr int lists = 4;
  constexpr std::int64_t place = 8;
  plan.outputs();
  const std::int64_t rows = call.inputs[2]->layout.sizes[0];
  for (int each = 0; each < lists; ++each) plan.take(rows * place);
}

/// cuBLASLt's workspace of products of 8-bit factors. Source: ATen/cuda/CUDABlas.cpp, scaled_gemm.
void scaled_product_workspace(const OperatorCall&, const KernelDevice& device, ScratchPlan& plan) {
  constexpr std::int64_t bytes = std::int64_t{1} << 20;
  plan.outputs();
  if (device.blas_workspaces) plan.take(bytes);
}

/// The rule where a call has what it reads: an export of a model may say anything of an operator.
template <ScratchRule rule, std::size_t inputs, std::size_t outputs, int dims>
void with_operands(const OperatorCall& call, const KernelDevice& device, ScratchPlan& plan) {
  if (call.inputs.size() < inputs || call.outputs.size() < outputs) return;
  const auto has_dims = [](const TensorImpl* tensor) {
    return tensor->layout.sizes.size() >= dims;
  };
  if (std::ranges::all_of(call.inputs.first(inputs), has_dims)) rule(call, device, plan);
}

struct Row {
  std::string_view name;
  ScratchRule rule;
};

constexpr Row rows[] = {
    {"aten._foreach_norm.Scalar", foreach_norm_scratch},
    {"aten._fused_rms_norm.default", copies_before},
    {"aten._fused_rms_norm_backward.default", copies_before},
    {"aten._grouped_mm.default", with_operands<grouped_product_scratch, 3, 1, 0>},
    {"aten._log_softmax.default", copies_after},
    {"aten._log_softmax_backward_data.default", copies_after},
    {"aten._scaled_dot_product_cudnn_attention_backward.default",
     with_operands<cudnn_backward_scratch, 3, 0, 4>},
    {"aten._scaled_dot_product_efficient_attention.default",
     with_operands<efficient_forward_scratch, 2, 0, 4>},
    {"aten._scaled_dot_product_efficient_attention_backward.default",
     with_operands<efficient_backward_scratch, 3, 0, 4>},
    {"aten._scaled_dot_product_flash_attention.default",
     with_operands<flash_forward_scratch, 2, 0, 4>},
    {"aten._scaled_dot_product_flash_attention_backward.default",
     with_operands<flash_backward_scratch, 3, 0, 4>},
    {"aten._scaled_mm.default", scaled_product_workspace},
    {"aten._softmax.default", copies_after},
    {"aten._softmax_backward_data.default", copies_after},
    {"aten.addmm.default", with_operands<addmm_workspace, 3, 0, 0>},
    {"aten.addmm.out", product_workspace},
    {"aten.all.default", with_operands<reduction_scratch, 1, 1, 0>},
    {"aten.all.dim", with_operands<reduction_scratch, 1, 1, 0>},
    {"aten.amax.default", with_operands<reduction_scratch, 1, 1, 0>},
    {"aten.any.default", with_operands<reduction_scratch, 1, 1, 0>},
    {"aten.any.dim", with_operands<reduction_scratch, 1, 1, 0>},
    {"aten.baddbmm.default", with_operands<batched_product_scratch, 3, 0, 0>},
    {"aten.bmm.default", with_operands<batched_product_scratch, 2, 0, 0>},
    {"aten.cumsum.default", with_operands<cumsum_scratch, 1, 1, 1>},
    {"aten.embedding.default", with_operands<embedding_scratch, 2, 0, 0>},
    {"aten.embedding_dense_backward.default", with_operands<embedding_backward_scratch, 2, 1, 0>},
    {"aten.isinf.default", with_operands<isinf_scratch, 1, 0, 0>},
    {"aten.linalg_vector_norm.default", with_operands<reduction_scratch, 1, 1, 0>},
    {"aten.max.default", with_operands<reduction_scratch, 1, 1, 0>},
    {"aten.mean.default", with_operands<reduction_scratch, 1, 1, 0>},
    {"aten.mean.dim", with_operands<reduction_scratch, 1, 1, 0>},
    {"aten.mm.default", product_workspace},
    {"aten.mm.out", product_workspace},
    {"aten.native_layer_norm.default", copies_before},
    {"aten.native_layer_norm_backward.default", copies_before},
    {"aten.pow.Scalar", number_scratch},
    {"aten.sort.default", with_operands<sort_scratch, 1, 2, 0>},
    {"aten.sum.default", with_operands<reduction_scratch, 1, 1, 0>},
    {"aten.sum.dim_IntList", with_operands<reduction_scratch, 1, 1, 0>},
    {"aten.where.self", with_operands<where_scratch, 1, 1, 0>},
    {"fsdp.chunk_cat_mixed_dtype.default", chunk_cat_scratch},
    {"fsdp.split_with_sizes_copy.default", copy_out_scratch},
    {"higher_order.flex_attention", with_operands<flex_forward_scratch, 2, 2, 0>},
    {"torchtitan.deterministic_scatter_add.default",
     with_operands<sorted_scatter_scratch, 3, 1, 1>},
};
static_assert(std::ranges::is_sorted(rows, {}, &Row::name));

}  // namespace

KernelDevice kernel_device(int compute_capability) {
  constexpr int a100_multiprocessors = 108, h100_multiprocessors = 132;
  return {.compute_capability = compute_capability,
          .multiprocessors = compute_capability < 90 ? a100_multiprocessors : h100_multiprocessors};
}

int ScratchPlan::take(std::int64_t bytes) {
  if (bytes == 0 || pieces_ == most_pieces) return nothing;
  const int piece = pieces_++;
  add({Kind::take, bytes});
  held_ |= 1u << piece;
  return piece;
}

void ScratchPlan::outputs() { add({Kind::outputs, 0}); }

void ScratchPlan::give_back(int piece) {
  if (piece == nothing || (held_ & 1u << piece) == 0) return;
  add({Kind::give_back, piece});
  held_ &= ~(1u << piece);
}

void ScratchPlan::finish() {
  for (int piece = pieces_ - 1; piece >= 0; --piece) give_back(piece);
}

ScratchRule scratch_rule_of(std::string_view operator_name) {
  const auto row = std::lower_bound(std::begin(rows), std::end(rows), operator_name,
                                    [](const Row& r, std::string_view n) { return r.name < n; });
  return row != std::end(rows) && row->name == operator_name ? row->rule : nullptr;
}

}  // namespace shardscope::eager
