#include "core/pytorch/runtimes/tensor/distributed_tensor.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager::parallel {
namespace {

using Kind = Placement::Kind;

/// torch.nn.functional.pad behind one dimension; itself where there is nothing to add.
Tensor pad_dim(Session& s, Tensor self, int dim, std::int64_t count) {
  static constexpr Operator op{"aten.constant_pad_nd.default", OperatorKind::copy};
  if (count == 0) return self;
  Dims sizes = self.sizes();
  sizes[dim] += count;
  Tensor result = allocate(s, like(self), sizes);
  dispatched(s, op, {&self}, {&result});
  return result;
}

/// Shard._maybe_pad_tensor and _maybe_unpad_tensor around the all-gather.
Tensor gathered(Session& s, const MeshAxisContext& axis, Tensor local, const Change& change) {
  const int dim = wrap_dim(change.from.dim, local.dim());
  const int ranks = axis.group->size();
  const std::int64_t whole = change.whole > 0 ? change.whole : local.size(dim) * ranks;
  const std::int64_t most = (whole + ranks - 1) / ranks;
  const std::int64_t missing = most - local.size(dim);
  if (missing != 0) local = pad_dim(s, std::move(local), dim, missing);
  local = contiguous(s, std::move(local));
  Tensor result = all_gather(s, *axis.pending, *axis.group, local, dim);
  local.reset();
  if (most * ranks == whole) return result;
  axis.pending->wait(s, result);
  return contiguous(s, narrow(s, std::move(result), dim, 0, whole));
}

/// Shard._replicate_to_shard: a copy of the rank's own part.
Tensor own_part(Session& s, const MeshAxisContext& axis, const Tensor& local, int dim) {
  axis.pending->wait(s, local);
  const Tensors parts = chunk(s, local, axis.group->size(), dim);
  const auto own = static_cast<std::size_t>(axis.group->rank);
  if (own >= parts.size()) return narrow(s, local, dim, 0, 0);
  return clone(s, parts[own]);
}

/// Shard._reduce_shard_tensor: of uneven parts each is padded to the largest.
Tensor reduced_part(Session& s, const MeshAxisContext& axis, Tensor local, int dim) {
  dim = wrap_dim(dim, local.dim());
  const int ranks = axis.group->size();
  const std::int64_t whole = local.size(dim);
  if (whole % ranks == 0)
    return reduce_scatter(s, *axis.pending, *axis.group, contiguous(s, std::move(local)), dim);
  const std::int64_t most = (whole + ranks - 1) / ranks;
  Tensors parts;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::int64_t own = shard_size(whole, ranks, rank);
    const Tensor part = narrow(s, local, dim, std::min(whole, most * rank), own);
    parts.push_back(pad_dim(s, contiguous(s, part), dim, most - own));
  }
  Tensor result = reduce_scatter(s, *axis.pending, *axis.group, cat(s, std::move(parts), dim), dim);
  const std::int64_t own = shard_size(whole, ranks, axis.group->rank);
  return own == most ? result : narrow(s, std::move(result), dim, 0, own);
}

/// What a gradient becomes on the way back: nothing is made partial again.
Placement normalized(Placement gradient, Placement target) {
  return target.kind == Kind::partial && gradient.kind != Kind::partial ? replicated : target;
}

[[noreturn]] void refuse(std::string_view what) {
  throw Error({.where = "DTensor", .what = std::string(what), .way_out = {}});
}

}  // namespace

std::int64_t shard_size(std::int64_t size, int ranks, int rank) {
  const std::int64_t most = (size + ranks - 1) / ranks;
  return std::clamp<std::int64_t>(size - most * rank, 0, most);
}

namespace {

Tensor moved(Session& s, const MeshAxisContext& axis, const Tensor& local, const Change& change) {
  switch (change.to.kind) {
    case Kind::replicate:
      return change.from.kind == Kind::partial
                 ? all_reduce(s, *axis.pending, *axis.group, contiguous(s, local))
                 : gathered(s, axis, local, change);
    case Kind::shard:
      if (change.from.kind == Kind::partial) return reduced_part(s, axis, local, change.to.dim);
      if (change.from.kind == Kind::replicate) return own_part(s, axis, local, change.to.dim);
      return shard_dim_all_to_all(s, *axis.group, contiguous(s, local),
                                  wrap_dim(change.from.dim, local.dim()),
                                  wrap_dim(change.to.dim, local.dim()));
    case Kind::partial:
      break;
  }
  refuse("nothing is redistributed to partial sums");
}

}  // namespace

Tensor redistribute_local(Session& s, const MeshAxisContext& axis, const Tensor& local,
                          const Change& change) {
  if (change.from == change.to || axis.group->size() == 1) return local;
  Tensor result = moved(s, axis, local, change);
  if (local->float8()) result->with_extras().float8 = local->float8();
  return result;
}

void wait_unless_float8(Session& s, const MeshAxisContext& axis, const Tensor& tensor) {
  if (!tensor->float8()) axis.pending->wait(s, tensor);
}

Tensor from_local(Session& s, const MeshAxisContext& axis, const Tensor& local, Placement placement,
                  Placement gradient) {
  Tensor result = apply_function(
      s, "_FromTorchTensorBackward", {local},
      [&](Session& in, const NodeRef&) -> Tensors { return {view_as(in, local, local)}; },
      [axis, placement, gradient](Session& in, Node&, Tensors& gradients) -> Tensors {
        const Placement target = normalized(gradient, placement);
        if (gradient == target) return {std::move(gradients[0])};
        const Tensor whole =
            redistribute_local(in, axis, gradients[0], {.from = gradient, .to = target});
        axis.pending->wait(in, whole);
        return {whole};
      })[0];
  return result;
}

Tensor redistribute(Session& s, const MeshAxisContext& axis, const Tensor& local,
                    const Change& change, Placement gradient) {
  Tensor result = apply_function(
      s, "RedistributeBackward", {local},
      [&](Session& in, const NodeRef&) -> Tensors {
        return {redistribute_local(in, axis, local, change)};
      },
      [axis, change, gradient](Session& in, Node&, Tensors& gradients) -> Tensors {
        const Placement target = normalized(gradient, change.from);
        Tensor back = redistribute_local(in, axis, gradients[0],
                                         {.from = gradient, .to = target, .whole = 0});
        if (!(target == replicated))
          axis.pending->wait(in, back);
        else if (!back->float8())
          axis.pending->wait_later(back);
        return {std::move(back)};
      })[0];
  return result;
}

Tensor to_local(Session& s, const Tensor& local) {
  return apply_function(
      s, "_ToTorchTensorBackward", {local},
      [&](Session& in, const NodeRef&) -> Tensors { return {view_as(in, local, local)}; },
      [](Session&, Node&, Tensors& gradients) -> Tensors { return {std::move(gradients[0])}; })[0];
}

}  // namespace shardscope::eager::parallel
