#include "core/pytorch/runtimes/common/functional.h"

#include <array>
#include <utility>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager::parallel {
namespace {

constexpr Operator all_reduce_op{"_c10d_functional.all_reduce.default", OperatorKind::other};
constexpr Operator all_gather_op{"_c10d_functional.all_gather_into_tensor.default",
                                 OperatorKind::other};
constexpr Operator reduce_scatter_op{"_c10d_functional.reduce_scatter_tensor.default",
                                     OperatorKind::other};
constexpr Operator all_to_all_op{"_c10d_functional.all_to_all_single.default", OperatorKind::other};
constexpr Operator shard_dim_op{"_dtensor.shard_dim_alltoall.default", OperatorKind::other};

struct Issue {
  OperationKind kind;
  const Operator& op;
  std::string_view reduction = {};
};

WorkId issue(Session& s, const ProcessGroup& group, const Issue& issue, const Tensor& input,
             const Tensor& output) {
  const std::array<const TensorImpl*, 1> in{input.impl()}, out{output.impl()};
  const WorkId work = s.collective({.kind = issue.kind,
                                    .name = issue.op.name,
                                    .group = GroupId::of(static_cast<std::size_t>(group.id)),
                                    .elements_in = input.numel(),
                                    .elements_out = output.numel(),
                                    .dtype = output.dtype(),
                                    .reduction = issue.reduction,
                                    .stream = s.stream,
                                    .asynchronous = true,
                                    .inputs = in,
                                    .outputs = out});
  dispatched(s, issue.op, {&input}, {&output});
  return work;
}

/// _chunk_or_narrow_cat.
Tensor rearranged(Session& s, const Tensor& tensor, int parts, int split_dim, int cat_dim) {
  return cat(s, chunk(s, tensor, parts, split_dim), cat_dim);
}

Tensor with_rows(Session& s, const Tensor& input, std::int64_t rows) {
  Dims sizes = input.sizes();
  sizes[0] = rows;
  return allocate(s, like(input), sizes);
}

/// _maybe_view_chunk_cat: whether the parts, one after the other, already are in order.
bool is_view_of_parts(const Tensor& gathered, int parts, int dim) {
  std::int64_t between = 1;
  for (int i = 1; i < dim; ++i) between *= gathered.size(i);
  return gathered.size(0) == parts && between == 1;
}

}  // namespace

void Pending::add(const Tensor& result, WorkId work, Tensor input) {
  open_[result.storage()->id()] = {.work = work, .input = std::move(input)};
}

void Pending::wait(Session& s, const Tensor& tensor) {
  if (tensor.defined()) wait_for(s, tensor.storage()->id());
}

void Pending::wait_later(const Tensor& tensor) { later_ = tensor.storage()->id(); }

void Pending::wait_for(Session& s, std::uint64_t storage) {
  auto found = open_.extract(storage);
  if (!found.empty()) s.wait_work(found.mapped().work);
}

void Pending::on_storage_allocated(Session& s, StorageImpl&) {
  if (!later_ || s.recomputing) return;
  wait_for(s, *std::exchange(later_, std::nullopt));
}

Tensor all_reduce(Session& s, Pending& pending, const ProcessGroup& group, const Tensor& input,
                  std::string_view reduction) {
  pending.wait(s, input);
  Tensor result = allocate(s, like(input), input.sizes());
  const WorkId work =
      issue(s, group, {OperationKind::all_reduce, all_reduce_op, reduction}, input, result);
  pending.add(result, work, {});
  return result;
}

Tensor all_gather(Session& s, Pending& pending, const ProcessGroup& group, const Tensor& input,
                  int dim) {
  pending.wait(s, input);
  dim = wrap_dim(dim, input.dim());
  Tensor gathered = with_rows(s, input, input.size(0) * group.size());
  const WorkId work = issue(s, group, {OperationKind::all_gather, all_gather_op}, input, gathered);
  pending.add(gathered, work, input);
  if (dim == 0) return gathered;
  if (is_view_of_parts(gathered, group.size(), dim)) {
    Dims sizes = gathered.sizes();
    sizes[0] = 1;
    sizes[dim] *= group.size();
    return view(s, gathered, sizes);
  }
  pending.wait(s, gathered);
  return rearranged(s, gathered, group.size(), 0, dim);
}

Tensor reduce_scatter(Session& s, Pending& pending, const ProcessGroup& group, const Tensor& input,
                      int dim) {
  pending.wait(s, input);
  dim = wrap_dim(dim, input.dim());
  const Tensor rows = dim == 0 ? input : rearranged(s, input, group.size(), dim, 0);
  Tensor result = with_rows(s, rows, rows.size(0) / group.size());
  const WorkId work =
      issue(s, group, {OperationKind::reduce_scatter, reduce_scatter_op, "sum"}, rows, result);
  pending.add(result, work, rows);
  return result;
}

Tensor all_to_all(Session& s, Pending& pending, const ProcessGroup& group, const Tensor& input) {
  pending.wait(s, input);
  Tensor result = allocate(s, like(input), input.sizes());
  const WorkId work = issue(s, group, {OperationKind::all_to_all, all_to_all_op}, input, result);
  pending.add(result, work, input);
  return result;
}

/// torch/csrc/distributed/c10d/Functional.cpp, shard_dim_alltoall: the parts stacked in front, an
/// exchange, and the parts side by side.
Tensor shard_dim_all_to_all(Session& s, const ProcessGroup& group, const Tensor& input, int from,
                            int to) {
  const int ranks = group.size();
  Dims split = input.sizes();
  split[to] /= ranks;
  Tensor sent = stack(s, chunk(s, input, ranks, to), 0);
  Tensor received = allocate(s, like(input), sent.sizes());
  const std::array<const TensorImpl*, 1> in{sent.impl()}, out{received.impl()};
  s.collective({.kind = OperationKind::all_to_all,
                .name = shard_dim_op.name,
                .group = GroupId::of(static_cast<std::size_t>(group.id)),
                .elements_in = input.numel(),
                .elements_out = input.numel(),
                .dtype = input.dtype(),
                .stream = s.stream,
                .inputs = in,
                .outputs = out});
  dispatched(s, shard_dim_op, {&sent}, {&received});
  sent.reset();
  Tensors parts;
  for (int i = 0; i < ranks; ++i) parts.push_back(select(s, received, 0, i));
  return cat(s, std::move(parts), from);
}

}  // namespace shardscope::eager::parallel
