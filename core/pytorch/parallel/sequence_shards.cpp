#include "core/pytorch/parallel/sequence_shards.h"

#include <utility>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/runtimes/common/collectives.h"

namespace shardscope::eager::parallel {
namespace {

constexpr int sequence = 1;

Dims with_rows(const Tensor& tensor, std::int64_t rows) {
  Dims sizes = tensor.sizes();
  sizes[0] = rows;
  return sizes;
}

/// Gathered along dimension 0, and put side by side.
Tensor gathered(Session& s, const ProcessGroup& ranks, Tensor own) {
  own = contiguous(s, std::move(own));
  const Tensor all = allocate(s, like(own), with_rows(own, own.size(0) * ranks.size()));
  all_gather_single(s, ranks, all, own);
  return cat(s, chunk(s, all, ranks.size(), 0), sequence);
}

/// The result's tokens lie as they came: with the sequence outermost.
Tensor scattered(Session& s, const ProcessGroup& ranks, Tensor summand) {
  summand = contiguous(s, transpose(s, std::move(summand), 0, sequence));
  const Tensor own = new_empty(s, summand, with_rows(summand, summand.size(0) / ranks.size()));
  reduce_scatter_single(s, ranks, own, summand, "sum");
  return transpose(s, own, 0, sequence);
}

}  // namespace

Tensor gather_sequence(Session& s, const ProcessGroup& ranks, Tensor own) {
  const LetGo let_go{own};
  return apply_function(
      s, "_AllGatherShardBackward", {own},
      [&](Session& in, const NodeRef&) -> Tensors { return {gathered(in, ranks, own)}; },
      [&ranks](Session& in, Node&, Tensors& gradients) -> Tensors {
        return {scattered(in, ranks, gradients[0])};
      })[0];
}

Tensor scatter_sequence(Session& s, const ProcessGroup& ranks, Tensor summand) {
  const LetGo let_go{summand};
  return apply_function(
      s, "_ReduceScatterShardBackward", {summand},
      [&](Session& in, const NodeRef&) -> Tensors { return {scattered(in, ranks, summand)}; },
      [&ranks](Session& in, Node&, Tensors& gradients) -> Tensors {
        return {gathered(in, ranks, gradients[0])};
      })[0];
}

Tensor with_all_tokens(Session& s, const ProcessGroup* ranks, Tensor own) {
  return ranks == nullptr ? own : gather_sequence(s, *ranks, std::move(own));
}

Module::Forward with_whole_sequence(const ProcessGroup* ranks, Module::Forward forward) {
  if (ranks == nullptr) return forward;
  return [ranks, forward = std::move(forward)](Session& s, Module& me,
                                               const Arguments& arguments) -> Tensors {
    Arguments whole = arguments;
    whole.tensors[0] = gather_sequence(s, *ranks, arguments[0]);
    return forward(s, me, whole);
  };
}

Module::Forward with_scattered_sum(const ProcessGroup* ranks, Module::Forward forward) {
  if (ranks == nullptr) return forward;
  return [ranks, forward = std::move(forward)](Session& s, Module& me,
                                               const Arguments& arguments) -> Tensors {
    const Tensors summands = forward(s, me, arguments);
    return {scatter_sequence(s, *ranks, summands[0])};
  };
}

Module::Forward with_gathered_output(const ProcessGroup* ranks, Module::Forward forward) {
  if (ranks == nullptr) return forward;
  return [ranks, forward = std::move(forward)](Session& s, Module& me,
                                               const Arguments& arguments) -> Tensors {
    const Tensors own = forward(s, me, arguments);
    return {gather_sequence(s, *ranks, own[0])};
  };
}

}  // namespace shardscope::eager::parallel
