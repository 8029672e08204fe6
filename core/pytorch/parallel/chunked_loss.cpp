#include "core/pytorch/parallel/chunked_loss.h"

#include <fmt/format.h>

#include <utility>

#include "core/base/error.h"
#include "core/pytorch/engine/aten/loss.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/engine.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/parallel/loss_parallel.h"

namespace shardscope::eager::parallel {
namespace {

/// _chunk.
Tensors parts_of(Session& s, const Tensor& whole, int chunks) {
  Tensors parts;
  for (const Tensor& part : split(s, whole, whole.size(1) / chunks, 1))
    parts.push_back(contiguous(s, part));
  return parts;
}

Tensors leaves_of(Session& s, const Tensor& hidden, int chunks) {
  Tensors leaves;
  for (const Tensor& part : parts_of(s, hidden, chunks)) {
    leaves.push_back(detach(s, part));
    leaves.back().set_requires_grad(true);
  }
  return leaves;
}

/// The head's parameters stay gathered, and its gradients are reduced once.
void begin(const ChunkedLoss& loss) {
  if (!loss.sharded) return;
  loss.sharded->set_reshard_after_forward(loss.head, false);
  loss.sharded->set(loss.head, [](auto& switches) { switches.reshard_after_backward = false; });
  loss.sharded->set_requires_gradient_sync(loss.head, false);
  loss.sharded->unshard(loss.head);
}

void end(const ChunkedLoss& loss) {
  if (!loss.sharded) return;
  loss.sharded->set_reshard_after_forward(loss.head, true);
  loss.sharded->set(loss.head, [](auto& switches) { switches.reshard_after_backward = true; });
  loss.sharded->set_requires_gradient_sync(loss.head, true);
  loss.sharded->reshard(loss.head);
}

Tensor summed_loss(Session& s, const ProcessGroup* tensor, const Tensor& logits,
                   const Tensor& labels) {
  const Tensor rows = to(s, flatten(s, logits, 0, 1), Dtype::float32);
  const Tensor targets = flatten(s, labels, 0, 1);
  if (tensor == nullptr) return cross_entropy(s, rows, targets);
  Pending pending;
  return split_cross_entropy(s, {.group = tensor, .pending = &pending}, rows, targets);
}

Tensor loss_of(Session& s, const ProcessGroup* tensor, const Tensor& logits, const Tensor& labels,
               const Tensor& labels_of_all) {
  const Tensor sums = summed_loss(s, tensor, logits, labels);
  return div(s, sums, labels_of_all);
}

/// GradAccumulator.add.
void add_gradient(Session& s, const Tensor& sum, const Tensor& leaf, std::int64_t begin) {
  const Tensor wide = to(s, leaf.grad(), sum.dtype());
  copy_(s, slice(s, sum, 1, begin, begin + leaf.size(1)), wide);
  leaf.set_grad({});
}

/// _DecoderOutputGradientBackProp.
Tensor with_gradient(Session& s, const Tensor& hidden, const Tensor& gradient, const Tensor& loss) {
  return apply_function(
      s, "_DecoderOutputGradientBackPropBackward", {hidden},
      [&](Session& in, const NodeRef& node) -> Tensors {
        if (node) node->save(in, "accumulated_grad", gradient);
        return {detach(in, loss)};
      },
      [](Session& in, Node& me, Tensors&) -> Tensors {
        return {me.saved(in, "accumulated_grad")};
      })[0];
}

/// What the loop over the parts leaves.
struct Summed {
  Tensor loss, gradient;
};

Summed run_parts(Session& s, const ChunkedLoss& loss, const Tensor& hidden,
                 const LossInputs& inputs) {
  const Tensors leaves = leaves_of(s, hidden, loss.chunks);
  const Tensors labels = parts_of(s, inputs.labels, loss.chunks);
  const Tensors positions =
      inputs.positions.defined() ? parts_of(s, inputs.positions, loss.chunks) : Tensors{};
  const Tensor gradient = zeros(s, hidden.sizes(), like(hidden, Dtype::float32));
  Tensor total = zeros(s, {}, like(hidden, Dtype::float32));
  begin(loss);
  Tensor logits, of_part;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (loss.sharded && i + 1 == leaves.size())
      loss.sharded->set_requires_gradient_sync(loss.head, true);
    logits = call_one(s, loss.head, {leaves[i]});
    of_part = loss_of(s, loss.tensor, logits, labels[i], inputs.labels_of_all);
    total = add(s, total, detach(s, of_part));
    backward(s, of_part);
    add_gradient(s, gradient, leaves[i], static_cast<std::int64_t>(i) * leaves[i].size(1));
  }
  end(loss);
  return {.loss = total, .gradient = to(s, gradient, hidden.dtype())};
}

}  // namespace

Tensor chunked_loss(Session& s, const ChunkedLoss& loss, Tensor hidden, const LossInputs& inputs) {
  const LetGo let_go{hidden};
  if (hidden.size(1) % loss.chunks != 0)
    throw Error(
        {.where = "--seq",
         .what = fmt::format("torchtitan computes the loss in {} equal parts of a sequence, "
                             "and {} tokens are not a multiple of {}",
                             loss.chunks, hidden.size(1), loss.chunks),
         .way_out = fmt::format("give a multiple of {}", loss.chunks)});
  const Summed summed = run_parts(s, loss, hidden, inputs);
  return with_gradient(s, hidden, summed.gradient, summed.loss);
}

}  // namespace shardscope::eager::parallel
