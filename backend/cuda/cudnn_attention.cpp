#include "backend/cuda/cudnn_attention.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "backend/cuda/cuda_workspace.h"
#include "backend/cuda/cudnn_graph.h"
#include "backend/cuda/cudnn_library.h"

namespace shardscope::cuda {
namespace {

/// Ids of a graph's tensors: the place of the operand in the call, or one of these.
constexpr std::int64_t scale_id = 100, lowest_id = 101, one_id = 102;

/// A score that is masked; its exponential is 0.
constexpr float lowest = std::numeric_limits<float>::lowest();

/// The tensors of a kernel as cuDNN is shown them: batch, head, row, column.
class AttentionTensors {
 public:
  AttentionTensors(CudnnGraph& graph, const AttentionKernel& kernel) : graph_(graph), k_(kernel) {}

  CudnnTensor queries(std::int64_t id) const { return rows(id, k_.heads, k_.q_stride); }
  CudnnTensor keys(std::int64_t id) const { return rows(id, k_.kv_heads, k_.kv_stride); }
  CudnnTensor outputs(std::int64_t id) const { return rows(id, k_.heads, k_.heads * k_.head_dim); }
  CudnnTensor transposed_keys(std::int64_t id) const {
    return graph_.tensor(id, {.dimensions = {k_.batch, k_.kv_heads, k_.head_dim, k_.length},
                              .strides = {k_.length * k_.kv_stride, k_.head_dim, 1, k_.kv_stride}});
  }
  /// A number a query.
  CudnnTensor row_values(std::int64_t id) const {
    return graph_.tensor(id, {.dimensions = row_shape(),
                              .strides = {k_.heads * k_.length, k_.length, 1, 1},
                              .type = CUDNN_DATA_FLOAT});
  }
  CudnnShape row_shape() const { return {k_.batch, k_.heads, k_.length, 1}; }
  CudnnTensor scores() const { return graph_.between({k_.batch, k_.heads, k_.length, k_.length}); }

 private:
  CudnnTensor rows(std::int64_t id, std::int64_t heads, std::int64_t stride) const {
    return graph_.tensor(id, {.dimensions = {k_.batch, heads, k_.length, k_.head_dim},
                              .strides = {k_.length * stride, k_.head_dim, stride, 1}});
  }

  CudnnGraph& graph_;
  const AttentionKernel& k_;
};

/// scale q k^T, where the key comes after the query the lowest number.
CudnnTensor masked_scores(CudnnGraph& graph, const AttentionTensors& tensors, CudnnTensor q,
                          CudnnTensor keys, CudnnTensor scale) {
  const CudnnTensor product = graph.matmul(q, keys, tensors.scores());
  const CudnnTensor scores = graph.pointwise(CUDNN_POINTWISE_MUL, product, scale);
  const CudnnTensor query = graph.index_along(scores, 2), key = graph.index_along(scores, 3);
  return graph.select(graph.greater_or_equal(query, key), scores, graph.scalar(lowest_id));
}

/// Operands 0 .. 4: q, k, v, y, lse.
CudnnGraph forward_graph(const AttentionForwardKernel& kernel) {
  CudnnGraph graph;
  const AttentionTensors tensors(graph, kernel);
  const CudnnTensor q = tensors.queries(0), keys = tensors.transposed_keys(1);
  const CudnnTensor v = tensors.keys(2);
  const CudnnTensor scores = masked_scores(graph, tensors, q, keys, graph.scalar(scale_id));
  const CudnnTensor largest =
      graph.reduce(CUDNN_REDUCE_TENSOR_MAX, scores, graph.between(tensors.row_shape()));
  const CudnnTensor weights =
      graph.pointwise(CUDNN_POINTWISE_EXP, graph.pointwise(CUDNN_POINTWISE_SUB, scores, largest));
  const CudnnTensor total =
      graph.reduce(CUDNN_REDUCE_TENSOR_ADD, weights, graph.between(tensors.row_shape()));
  graph.pointwise(CUDNN_POINTWISE_ADD, largest, graph.pointwise(CUDNN_POINTWISE_LOG, total),
                  tensors.row_values(4));
  const CudnnTensor probabilities = graph.between(
      {kernel.batch, kernel.heads, kernel.length, kernel.length}, CUDNN_DATA_BFLOAT16);
  graph.pointwise(CUDNN_POINTWISE_DIV, weights, total, probabilities);
  graph.matmul(probabilities, v, tensors.outputs(3));
  return graph;
}

/// p^T rows, summed over the heads that share them.
void add_key_gradient(CudnnGraph& graph, const AttentionKernel& kernel, CudnnTensor p,
                      CudnnTensor rows, CudnnTensor out) {
  const CudnnTensor transposed = graph.transpose(p, CUDNN_DATA_BFLOAT16);
  if (kernel.heads == kernel.kv_heads) {
    graph.matmul(transposed, rows, out);
    return;
  }
  const CudnnTensor by_head =
      graph.matmul(transposed, rows,
                   graph.between({kernel.batch, kernel.heads, kernel.length, kernel.head_dim},
                                 CUDNN_DATA_BFLOAT16));
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, by_head, out);
}

/// Operands 0 .. 8: dy, q, k, v, y, lse, dq, dk, dv.
CudnnGraph backward_graph(const AttentionBackwardKernel& kernel) {
  CudnnGraph graph;
  const AttentionTensors tensors(graph, kernel);
  const CudnnTensor dy = tensors.outputs(0), q = tensors.queries(1), y = tensors.outputs(4);
  const CudnnTensor keys = tensors.transposed_keys(2), values = tensors.transposed_keys(3);
  const CudnnTensor scale = graph.scalar(scale_id), one = graph.scalar(one_id);

  // The engine is recognized by the whole pattern, with its products by 1.
  const CudnnTensor products = graph.pointwise(CUDNN_POINTWISE_MUL, dy, y);
  const CudnnTensor sums =
      graph.reduce(CUDNN_REDUCE_TENSOR_ADD, products, graph.between(tensors.row_shape()));
  const CudnnTensor delta = graph.pointwise(CUDNN_POINTWISE_MUL, sums, one);

  const CudnnTensor scores = masked_scores(graph, tensors, q, keys, scale);
  const CudnnTensor p = graph.pointwise(
      CUDNN_POINTWISE_EXP, graph.pointwise(CUDNN_POINTWISE_SUB, scores, tensors.row_values(5)));
  add_key_gradient(graph, kernel, p, dy, tensors.keys(8));

  const CudnnTensor dp =
      graph.pointwise(CUDNN_POINTWISE_MUL, graph.matmul(dy, values, tensors.scores()), one);
  const CudnnTensor weighted =
      graph.pointwise(CUDNN_POINTWISE_MUL, graph.pointwise(CUDNN_POINTWISE_SUB, dp, delta), p);
  const CudnnTensor gradient = graph.pointwise(CUDNN_POINTWISE_MUL, weighted, scale);
  add_key_gradient(graph, kernel, gradient, q, tensors.keys(7));
  graph.matmul(gradient, graph.transpose(keys, CUDNN_DATA_BFLOAT16), tensors.queries(6));
  return graph;
}

}  // namespace

std::optional<CudnnPlan> plan_attention(const Kernel& kernel, const CudnnDescriptor& device) {
  const auto* forward = kernel.get_if<AttentionForwardKernel>();
  const CudnnGraph graph =
      forward ? forward_graph(*forward) : backward_graph(kernel.get<AttentionBackwardKernel>());
  return graph.plan(device, cudnn_attention_workspace(kernel));
}

struct CudnnAttention::Library {
  struct Planned {
    Kernel kernel;
    std::optional<CudnnPlan> plan;
  };
  explicit Library(int index) : device(cudnn_device(index)) {
    cudnn_check(cudnn().create(&handle), "cudnnCreate");
  }
  ~Library() { cudnn().destroy(handle); }
  const Planned* find(const Kernel& kernel) const {
    const auto found = std::ranges::find(plans, kernel, &Planned::kernel);
    return found == plans.end() ? nullptr : &*found;
  }

  CudnnDescriptor device;
  cudnnHandle_t handle = nullptr;
  std::vector<Planned> plans;
};

CudnnAttention::CudnnAttention(int index) : library_(std::make_unique<Library>(index)) {}
CudnnAttention::~CudnnAttention() = default;

bool CudnnAttention::prepare(const Kernel& kernel) {
  if (!fits_cudnn_attention(kernel)) return false;
  if (!library_->find(kernel)) {
    library_->plans.push_back({kernel, plan_attention(kernel, library_->device)});
  }
  return has(kernel);
}

bool CudnnAttention::has(const Kernel& kernel) const {
  const Library::Planned* planned = library_->find(kernel);
  return planned && planned->plan;
}

void CudnnAttention::run(const Kernel& kernel, const KernelCall& call, cudaStream_t stream) {
  const CudnnPlan& plan = *library_->find(kernel)->plan;
  auto scale = static_cast<float>(attention_of(kernel)->scale);
  float least = lowest, one = 1;
  std::vector<CudnnArgument> arguments{{scale_id, &scale}, {lowest_id, &least}};
  if (kernel.kind() == KernelKind::attention_backward) arguments.push_back({one_id, &one});
  const std::size_t operands = kernel.kind() == KernelKind::attention_forward ? 5 : 9;
  for (std::size_t i = 0; i < operands; ++i)
    arguments.push_back({static_cast<std::int64_t>(i), call.operands[i]});
  cudnn_check(cudnn().set_stream(library_->handle, stream), "cudnnSetStream");
  run_plan(plan, library_->handle, arguments, call.operands.back());
}

}  // namespace shardscope::cuda
