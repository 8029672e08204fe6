#include "core/pytorch/runtimes/common/collectives.h"

#include <array>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

constexpr Operator all_gather_op{"c10d._allgather_base_.default", OperatorKind::other};
constexpr Operator all_gather_list_op{"c10d.allgather_.default", OperatorKind::other};
constexpr Operator reduce_scatter_op{"c10d._reduce_scatter_base_.default", OperatorKind::other};
constexpr Operator all_reduce_op{"c10d.allreduce_.default", OperatorKind::other};
constexpr Operator broadcast_op{"c10d.broadcast_.default", OperatorKind::other};
constexpr Operator reduce_op{"c10d.reduce_.default", OperatorKind::other};
constexpr Operator barrier_op{"c10d.barrier.default", OperatorKind::other};
constexpr Operator scatter_op{"c10d.scatter_.default", OperatorKind::other};

constexpr Operator functional_all_gather_op{"_c10d_functional.all_gather_into_tensor.default",
                                            OperatorKind::other};
constexpr Operator functional_all_reduce_op{"_c10d_functional.all_reduce.default",
                                            OperatorKind::other};
constexpr Operator wrap_tensor_op{"_c10d_functional._wrap_tensor_autograd.default",
                                  OperatorKind::host};

/// Tells of the collective, then of its operator.
WorkId issue(Session& s, CollectiveCall call, const ProcessGroup& group, const Operator& op,
             const Tensor& input, const Tensor& output) {
  const std::array<const TensorImpl*, 1> in{input.impl()}, out{output.impl()};
  call.name = op.name;
  call.group = GroupId::of(static_cast<std::size_t>(group.id));
  call.dtype = output.dtype();
  call.stream = s.stream;
  call.inputs = in;
  call.outputs = out;
  const WorkId work = s.collective(call);
  dispatched(s, op, {&output, &input}, {&output});
  return work;
}

}  // namespace

WorkId all_gather_single(Session& s, const ProcessGroup& group, const Tensor& output,
                         const Tensor& input, bool asynchronous) {
  return issue(s,
               {.kind = OperationKind::all_gather,
                .elements_in = input.numel(),
                .elements_out = output.numel(),
                .asynchronous = asynchronous},
               group, all_gather_op, input, output);
}

WorkId all_gather_list(Session& s, const ProcessGroup& group, const std::vector<Tensor>& outputs,
                       const Tensor& input, bool asynchronous) {
  return issue(s,
               {.kind = OperationKind::all_gather,
                .elements_in = input.numel(),
                .elements_out = input.numel() * group.size(),
                .asynchronous = asynchronous},
               group, all_gather_list_op, input, outputs.front());
}

WorkId reduce_scatter_single(Session& s, const ProcessGroup& group, const Tensor& output,
                             const Tensor& input, std::string_view reduction, bool asynchronous) {
  return issue(s,
               {.kind = OperationKind::reduce_scatter,
                .elements_in = input.numel(),
                .elements_out = output.numel(),
                .reduction = reduction,
                .asynchronous = asynchronous},
               group, reduce_scatter_op, input, output);
}

WorkId all_reduce(Session& s, const ProcessGroup& group, const Tensor& tensor,
                  std::string_view reduction, bool asynchronous) {
  return issue(s,
               {.kind = OperationKind::all_reduce,
                .elements_in = tensor.numel(),
                .elements_out = tensor.numel(),
                .reduction = reduction,
                .asynchronous = asynchronous},
               group, all_reduce_op, tensor, tensor);
}

WorkId broadcast(Session& s, const ProcessGroup& group, const Tensor& tensor, int source,
                 bool asynchronous) {
  return issue(s,
               {.kind = OperationKind::broadcast,
                .elements_in = tensor.numel(),
                .elements_out = tensor.numel(),
                .root = source,
                .asynchronous = asynchronous},
               group, broadcast_op, tensor, tensor);
}

void broadcast_bytes(Session& s, const ProcessGroup& group, const Tensor& tensor, int source) {
  TensorImpl::Layout layout = tensor->layout;
  const std::int64_t width = size_of(layout.dtype).count;
  layout.dtype = Dtype::uint8;
  layout.sizes[-1] *= width;
  layout.strides = contiguous_strides(layout.sizes);
  layout.offset *= width;
  broadcast(s, group, Tensor(Ref<TensorImpl>(new TensorImpl(tensor.storage(), layout))), source);
}

void reduce(Session& s, const ProcessGroup& group, const Tensor& tensor, int destination,
            std::string_view reduction) {
  issue(s,
        {.kind = OperationKind::reduce,
         .elements_in = tensor.numel(),
         .elements_out = tensor.numel(),
         .reduction = reduction,
         .root = destination},
        group, reduce_op, tensor, tensor);
}

void barrier(Session& s, const ProcessGroup& group) {
  const Tensor one = allocate(s, {.dtype = Dtype::uint8, .device = s.settings.device}, {1});
  issue(s, {.kind = OperationKind::barrier, .elements_in = 1, .elements_out = 1}, group, barrier_op,
        one, one);
}

void scatter(Session& s, const ProcessGroup& group, const Tensor& output,
             std::int64_t input_elements, int source) {
  issue(s,
        {.kind = OperationKind::scatter,
         .elements_in = input_elements,
         .elements_out = output.numel(),
         .root = source},
        group, scatter_op, output, output);
}

Tensor functional_all_gather(Session& s, const ProcessGroup& group, const Tensor& input) {
  Dims sizes = input.sizes();
  sizes[0] *= group.size();
  const Tensor output = allocate(s, like(input), sizes);
  issue(s,
        {.kind = OperationKind::all_gather,
         .elements_in = input.numel(),
         .elements_out = output.numel()},
        group, functional_all_gather_op, input, output);
  dispatched(s, wrap_tensor_op, {&output}, {&output});
  return output;
}

Tensor functional_all_reduce(Session& s, const ProcessGroup& group, const Tensor& input,
                             std::string_view reduction) {
  const Tensor output = allocate(s, like(input), input.sizes());
  issue(s,
        {.kind = OperationKind::all_reduce,
         .elements_in = input.numel(),
         .elements_out = input.numel(),
         .reduction = reduction},
        group, functional_all_reduce_op, input, output);
  dispatched(s, wrap_tensor_op, {&output}, {&output});
  return output;
}

void wait_tensor(Session& s, const Tensor& tensor) {
  s.mark({.what = "wait_tensor", .number = tensor.numel()});
}

}  // namespace shardscope::eager
