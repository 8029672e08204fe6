#include "core/pytorch/engine/models/cut_cross_entropy.h"

#include <cstdint>

#include "core/base/refusal.h"
#include "core/pytorch/engine/aten/indexing.h"
#include "core/pytorch/engine/aten/selection.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

constexpr std::int64_t ignored_label = -100;
constexpr std::int64_t rows_of_a_lock = 128;    // of the forward
constexpr std::int64_t columns_of_a_lock = 64;  // of the backward

std::int64_t cut_parts(std::int64_t count, std::int64_t by) { return (count + by - 1) / by; }

/// _build_flat_valids: the places of tokens whose next one has a label.
Tensor places_of_targets(Session& s, const Tensor& labels) {
  const Tensor shifted = slice(s, labels, -1, 1);
  const std::int64_t rows = shifted.numel();
  const Tensor places =
      to(s, nonzero(s, compare(s, Comparison::ne, shifted, ignored_label), rows), Dtype::int32);
  for (int dim = 0; dim + 1 < shifted.dim(); ++dim)
    mul_(s, select(s, places, 1, dim), shifted.strides()[dim]);
  return sum(s, places, {1});
}

struct CutInputs {
  Tensor hidden, weight, targets, places;
};

struct CutForward {
  Tensor loss, log_sums, mean_logits;
};

/// cce_lse_forward_kernel and indexed_neg_dot_forward_kernel.
CutForward cut_forward(Session& s, const CutInputs& inputs, bool needs_gradient) {
  static constexpr Operator lse_op{"cut_cross_entropy._cce_lse_forward_kernel",
                                   OperatorKind::matmul};
  static constexpr Operator dot_op{"cut_cross_entropy._indexed_neg_dot_forward_kernel",
                                   OperatorKind::reduction};
  const auto& [hidden, weight, targets, places] = inputs;
  const std::int64_t rows = places.size(0);
  const Like sums = like(hidden, Dtype::float32);
  CutForward result;
  result.log_sums = full(s, {rows}, sums);
  {
    const Tensor locks = full(s, {cut_parts(rows, rows_of_a_lock)}, like(hidden, Dtype::int32));
    if (needs_gradient) result.mean_logits = full(s, {weight.size(0)}, sums);
    dispatched(s, lse_op, {&hidden, &weight, &places},
               {&result.log_sums, &result.mean_logits, &locks},
               2 * rows * weight.size(0) * weight.size(1));
  }
  const Tensor losses = zeros(s, {rows}, sums);
  dispatched(s, dot_op, {&hidden, &weight, &targets, &places}, {&losses});
  result.loss = mean(s, add_(s, losses, result.log_sums));
  return result;
}

/// sort_logit_avg, compiled: argsort of one number a class, and its result as int32.
Tensor vocabulary_order(Session& s, const Tensor& mean_logits) {
  static constexpr Operator op{"inductor.argsort_to", OperatorKind::pointwise};
  const Tensor places = sort(s, mean_logits).second;
  Tensor order = empty(s, places.sizes(), like(places, Dtype::int32));
  dispatched(s, op, {&places}, {&order});
  return order;
}

Tensor cut_zeros(Session& s, const Tensor& like_it, Dtype dtype) {
  return zeros(s, like_it.sizes(), like(like_it, dtype));
}

/// cce_backward_kernel.
Tensors cut_backward(Session& s, Node& node, Tensors& gradients) {
  static constexpr Operator op{"cut_cross_entropy._cce_backward_kernel", OperatorKind::matmul};
  const Tensor hidden = node.saved(s, "e");
  const Tensor weight = node.saved(s, "c");
  const Tensor log_sums = node.saved(s, "lse");
  const Tensor targets = node.saved(s, "targets");
  const Tensor places = node.saved(s, "valids");
  const Tensor mean_logits = node.saved(s, "logit_avg");
  const std::int64_t rows = places.size(0), classes = weight.size(0);
  const std::int64_t wide = cut_parts(weight.size(1), columns_of_a_lock);
  const Tensor order = vocabulary_order(s, mean_logits);
  const Tensor of_hidden = zeros_like(s, hidden);
  Tensor of_weight;
  if (node.needs(1)) of_weight = cut_zeros(s, weight, hidden.dtype());
  const Like number = like(hidden, Dtype::int32);
  const Tensor hidden_locks = zeros(s, {cut_parts(rows, wide), wide}, number);
  const Tensor weight_locks = zeros(s, {cut_parts(classes, wide), wide}, number);
  constexpr std::int64_t products = 3;  // logits again, and a gradient of each factor
  dispatched(s, op, {&gradients[0], &hidden, &weight, &log_sums, &targets, &places, &order},
             {&of_hidden, &of_weight, &hidden_locks, &weight_locks},
             2 * (of_weight ? products : products - 1) * rows * classes * weight.size(1));
  if (of_weight) of_weight = to(s, of_weight, weight.dtype());
  return {of_hidden, of_weight};
}

}  // namespace

Tensor cut_cross_entropy(Session& s, const Tensor& hidden, const Tensor& weight,
                         const Tensor& labels) {
  if (hidden.dtype() != Dtype::bfloat16 && hidden.dtype() != Dtype::float16)
    throw Refusal("AssertionError",
                  "cut-cross-entropy: Backwards requires embeddings to be bf16 or fp16, and the "
                  "hidden states are float32; keep the weights in bfloat16, or leave it out");
  const Tensor places = places_of_targets(s, labels);
  const Tensor rows = view(s, contiguous(s, hidden), {-1, hidden.size(-1)});
  const Tensor targets = view(s, labels, {-1});
  const bool needs_gradient = rows.requires_grad() || weight.requires_grad();
  const auto run = [&](Session& in, const NodeRef& node) -> Tensors {
    CutForward forward = cut_forward(in, {rows, weight, targets, places}, needs_gradient);
    if (node) {
      node->save(in, "e", rows);
      node->save(in, "c", weight);
      node->save(in, "lse", forward.log_sums);
      node->save(in, "targets", targets);
      node->save(in, "valids", places);
      node->save(in, "logit_avg", forward.mean_logits);
    }
    return {std::move(forward.loss)};
  };
  // `ctx.params` has the places as well, which the end of the node's backward does not let go.
  const auto back = [places](Session& in, Node& node, Tensors& gradients) -> Tensors {
    static_cast<void>(places);
    return cut_backward(in, node, gradients);
  };
  return apply_function(s, "LinearCrossEntropyFunctionBackward", {rows, weight}, run, back).front();
}

}  // namespace shardscope::eager
