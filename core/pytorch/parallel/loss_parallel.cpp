#include "core/pytorch/parallel/loss_parallel.h"

#include "core/pytorch/engine/aten/indexing.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/runtimes/tensor/styles.h"

namespace shardscope::eager::parallel {
namespace {

constexpr int ignore_index = -100;

/// torch.amax(self, 1, keepdim=True).
Tensor largest(Session& s, const Tensor& self) {
  static constexpr Operator op{"aten.amax.default", OperatorKind::reduction};
  Tensor result = allocate(s, like(self), {self.size(0), 1});
  dispatched(s, op, {&self}, {&result});
  return result;
}

Tensor reduced(Session& s, const MeshAxisContext& axis, const Tensor& tensor,
               std::string_view reduction) {
  Tensor result = all_reduce(s, *axis.pending, *axis.group, tensor, reduction);
  axis.pending->wait(s, result);
  return result;
}

/// _log_softmax.
Tensor log_softmax(Session& s, const MeshAxisContext& axis, const Tensor& logits) {
  const Tensor x = to(s, logits, Dtype::float32);
  const Tensor most = reduced(s, axis, largest(s, x), "max");
  const Tensor shifted = sub(s, x, most);
  Tensor sums = sum(s, exp(s, shifted), {1}, true);
  sums = reduced(s, axis, sums, "sum");
  const Tensor logarithms = log(s, sums);
  return sub(s, shifted, logarithms);
}

Tensor int64_zero(Session& s, const Tensor& beside) {
  return scalar_tensor(s, like(beside, Dtype::int64));
}

Tensor float_zero(Session& s, const Tensor& beside) {
  return scalar_tensor(s, like(beside, Dtype::float32));
}

/// torch.where(target != ignore_index, values, 0).
Tensor where_valid(Session& s, const Tensor& target, const Tensor& values) {
  const Tensor valid = compare(s, Comparison::ne, target, ignore_index);
  const Tensor zero = values.is_floating_point() ? float_zero(s, values) : int64_zero(s, values);
  return where(s, valid, values, zero);
}

struct Loss {
  Tensor mean, total_weight;
};

/// _nll_loss_forward with reduction "mean".
Loss nll_loss(Session& s, const MeshAxisContext& axis, const Tensor& x, const Tensor& target) {
  const Tensor safe = unsqueeze(s, where_valid(s, target, target), 1);
  Tensor mask;
  const Tensor own = masked_ids(s, safe, mask);
  const Tensor picked = gather(s, x, 1, own);
  masked_fill_(s, picked, mask, 0);
  mask.reset();
  const Tensor all = reduced(s, axis, picked, "sum");
  Tensor result = neg(s, squeeze(s, all, 1));
  result = where_valid(s, target, result);
  const Tensor valid = compare(s, Comparison::ne, target, ignore_index);
  const Tensor total = to(s, sum(s, to(s, valid, Dtype::int64)), x.dtype());
  return {.mean = div(s, sum(s, result), total), .total_weight = total};
}

/// Assignment by two index tensors: grad_input[rows, columns] = update.
void assign(Session& s, const Tensor& self, const Tensor& rows, const Tensor& columns,
            const Tensor& values) {
  index_put_(s, self, {rows, columns}, values);
}

/// _nll_loss_and_log_softmax_backward: the gradient of the logits at once.
Tensor backward(Session& s, const Tensor& gradient, const Tensor& x, const Tensor& given_target,
                const Tensor& total_weight) {
  Tensor scale = div(s, gradient, total_weight);
  const Tensor target = unsqueeze(s, given_target, 1);
  Tensor safe = where_valid(s, target, target);
  const Tensor result = zeros_like(s, x);
  safe = flatten(s, squeeze(s, safe, 1));
  Tensor mask;
  const Tensor own = masked_ids(s, safe, mask);
  const Tensor update = sub(s, to(s, mask, x.dtype()), 1.0);
  const Tensor rows = arange(s, own.size(0), like(own));
  assign(s, result, rows, own, update);
  scale = where_valid(s, target, scale);
  Tensor powers = exp(s, x);
  Tensor sums = add(s, result, std::move(powers));
  return mul(s, std::move(sums), scale);
}

/// Of labels: those of other ranks, and their places in this rank's part. Whoever asks keeps
/// all three until its function ends, as PyTorch does.
struct OwnLabels {
  Tensor safe, out_of_range, own;
};
OwnLabels own_labels(Session& s, const Tensor& labels) {
  constexpr int any_bound = 1;
  OwnLabels result{.safe = where_valid(s, labels, labels), .out_of_range = {}, .own = {}};
  {
    const Tensor below = compare(s, Comparison::lt, result.safe, any_bound);
    const Tensor above = compare(s, Comparison::ge, result.safe, any_bound);
    result.out_of_range = bitwise_or(s, below, above);
  }
  result.own = sub(s, result.safe, any_bound);
  masked_fill_(s, result.own, result.out_of_range, 0);
  return result;
}

/// _LossParallelCrossEntropy.forward; the rank's logarithms go to `log_probs`.
Tensor split_loss(Session& s, const MeshAxisContext& axis, const Tensor& logits,
                  const Tensor& labels, Tensor& log_probs) {
  const Tensor most = reduced(s, axis, largest(s, logits), "max");
  const Tensor shifted = sub(s, logits, most);
  Tensor sums = sum(s, exp(s, shifted), {-1}, true);
  sums = reduced(s, axis, sums, "sum");
  log_probs = sub(s, shifted, log(s, sums));
  const OwnLabels places = own_labels(s, labels);
  Tensor picked = gather(s, log_probs, -1, unsqueeze(s, places.own, -1));
  masked_fill_(s, picked, unsqueeze(s, places.out_of_range, -1), 0);
  picked = reduced(s, axis, picked, "sum");
  Tensor result = neg(s, squeeze(s, picked, -1));
  result = where_valid(s, labels, result);
  return sum(s, result);
}

/// _LossParallelCrossEntropy.backward.
Tensor split_loss_backward(Session& s, const Tensor& gradient, const Tensor& log_probs,
                           const Tensor& labels) {
  const OwnLabels places = own_labels(s, labels);
  const Tensor result = zeros_like(s, log_probs);
  const Tensor rows = arange(s, places.own.size(0), like(places.own));
  const Tensor update = sub(s, to(s, places.out_of_range, result.dtype()), 1.0);
  assign(s, result, rows, places.own, update);
  Tensor scale;
  {
    const Tensor valid = unsqueeze(s, compare(s, Comparison::ne, labels, ignore_index), -1);
    scale = where(s, valid, gradient, float_zero(s, gradient));
  }
  Tensor sums;
  {
    const Tensor powers = exp(s, log_probs);
    sums = add(s, result, powers);
  }
  return mul(s, std::move(sums), scale);
}

}  // namespace

Tensor split_cross_entropy(Session& s, const MeshAxisContext& axis, const Tensor& logits,
                           const Tensor& labels) {
  return apply_function(
      s, "_LossParallelCrossEntropyBackward", {logits},
      [&](Session& in, const NodeRef& node) -> Tensors {
        Tensor log_probs;
        Tensor loss = split_loss(in, axis, logits, labels, log_probs);
        if (node) {
          node->save(in, "log_probs", log_probs);
          node->save(in, "labels_1d", labels);
        }
        return {std::move(loss)};
      },
      [](Session& in, Node& node, Tensors& gradients) -> Tensors {
        return {split_loss_backward(in, gradients[0], node.saved(in, "log_probs"),
                                    node.saved(in, "labels_1d"))};
      })[0];
}

Tensor parallel_cross_entropy(Session& s, const MeshAxisContext& axis, const Tensor& logits,
                              const Tensor& target) {
  const Tensor logarithms = apply_function(
      s, "LogSoftmaxBackward0", {logits},
      [&](Session& in, const NodeRef&) -> Tensors { return {log_softmax(in, axis, logits)}; },
      [dtype = logits.dtype()](Session& in, Node&, Tensors& gradients) -> Tensors {
        return {to(in, std::move(gradients[0]), dtype)};
      })[0];
  return apply_function(
      s, "NllLossBackward0", {logarithms},
      [&](Session& in, const NodeRef& node) -> Tensors {
        const Loss loss = nll_loss(in, axis, logarithms, target);
        if (node) {
          node->save(in, "self", logarithms);
          node->save(in, "target", target);
          node->save(in, "total_weight", loss.total_weight);
        }
        return {loss.mean};
      },
      [](Session& in, Node& node, Tensors& gradients) -> Tensors {
        return {backward(in, gradients[0], node.saved(in, "self"), node.saved(in, "target"),
                         node.saved(in, "total_weight"))};
      })[0];
}

}  // namespace shardscope::eager::parallel
