#include "core/pytorch/runtimes/training/trl_losses.h"

#include <algorithm>
#include <utility>

#include "core/pytorch/engine/aten/indexing.h"
#include "core/pytorch/engine/aten/softmax.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

constexpr std::size_t log_probabilities = 1;  // among the outputs of a fused head
constexpr double any_beta = 0.5;

std::pair<Tensor, Tensor> halves(Session& s, const Tensor& tensor) {
  const std::int64_t half = tensor.size(0) / 2;
  return {slice(s, tensor, 0, 0, half), slice(s, tensor, 0, half, 2 * half)};
}

/// torch.logsumexp over the last dimension. The greatest elements are taken as a sum's result.
/// Source: ATen/native/ReduceOps.cpp, logsumexp_out_impl; FunctionsManual.cpp, logsumexp_backward.
Tensor logsumexp(Session& s, const Tensor& self) {
  const auto backward = [](Session& in, Node& node, Tensors& gradients) -> Tensors {
    const Tensor shifted =
        sub(in, node.saved(in, "self"), unsqueeze(in, node.saved(in, "result"), -1));
    const Tensor shares = exp(in, shifted);
    return {mul(in, unsqueeze(in, gradients[0], -1), shares)};
  };
  const NodeRef node = make_node(s, "LogsumexpBackward0", {&self}, backward);
  Tensor result;
  {
    const NoGrad no_grad(s);
    const Tensor greatest = sum(s, self, {-1}, true);
    const Tensor shifted = sub(s, self, greatest);
    mul_(s, shifted, any_beta);
    result = sum(s, shifted, {-1});
    add_(s, mul_(s, result, any_beta), squeeze(s, greatest, -1));
  }
  set_history(s, result, node);
  if (node) {
    node->save(s, "self", self);
    node->save_output(s, "result", result);
  }
  return result;
}

Tensor selective_log_softmax(Session& s, const Tensor& logits, const Tensor& labels) {
  Tensors rows;
  if (logits.dtype() == Dtype::float32) {
    constexpr int classes = 2;
    const Tensor selected =
        squeeze(s, gather(s, logits, classes, unsqueeze(s, labels, classes)), classes);
    for (const Tensor& row : unbind(s, logits, 0)) rows.push_back(logsumexp(s, row));
    return sub(s, selected, stack(s, std::move(rows)));
  }
  const Tensors all = unbind(s, logits, 0);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Tensor target = unsqueeze(s, select(s, labels, 0, static_cast<std::int64_t>(i)), 1);
    rows.push_back(squeeze(s, gather(s, log_softmax(s, all[i], -1), 1, target), 1));
  }
  return stack(s, std::move(rows));
}

}  // namespace

Tensors outputs_of_kept_logits(Session& s, const Tensor& logits, const Tensor& labels) {
  const std::int64_t first = labels.size(1) - logits.size(1);
  const Tensor rolled = clone(s, slice(s, labels, 1, first));
  const Tensor mask = compare(s, Comparison::ne, rolled, 0);
  const Tensor targets = clone(s, rolled);
  const Tensor means = mean(s, logits, {-1});
  return {Tensor(), selective_log_softmax(s, logits, targets), means};
}

Tensors outputs_of_logits(Session& s, Tensor logits, const Tensor& labels) {
  constexpr int classes = 2;
  logits = to(s, std::move(logits), Dtype::float32);
  const Tensor targets = clone(s, slice(s, labels, 1, 1));
  const Tensor before_last = slice(s, logits, 1, 0, logits.size(1) - 1);
  const Tensor chosen =
      gather(s, log_softmax(s, before_last, -1), classes, unsqueeze(s, targets, classes));
  return {Tensor(), squeeze(s, chosen, classes), std::move(logits)};
}

Tensor supervised_loss(Session& s, const Tensors& outputs) {
  const Tensor losses = neg(s, outputs[log_probabilities]);
  const Tensor tokens = tensor(s, {}, {Dtype::int64, losses.device()});
  return div(s, sum(s, losses), clamp(s, tokens));
}

Tensor preference_loss(Session& s, const Tensors& outputs, const Tensors& reference) {
  const auto [chosen, rejected] = halves(s, sum(s, outputs[log_probabilities], {1}));
  std::pair<Tensor, Tensor> before;
  if (reference.empty()) {
    const Like number = like(chosen);
    before = {empty(s, chosen.sizes(), number), empty(s, rejected.sizes(), number)};
  } else {
    before = halves(s, sum(s, reference[log_probabilities], {1}));
  }
  const Tensor margin = sub(s, sub(s, chosen, before.first), sub(s, rejected, before.second));
  const Tensor losses = neg(s, log(s, sigmoid(s, mul(s, margin, any_beta))));
  return mul(s, mean(s, losses), any_beta);
}

Tensor policy_loss(Session& s, const Tensors& outputs, std::int64_t prompt,
                   const Tensors& reference) {
  const auto of_completions = [&](const Tensors& of) {
    return slice(s, of[log_probabilities], 1, std::max<std::int64_t>(prompt, 1) - 1);
  };
  const Tensor now = of_completions(outputs);
  const Tensor mask = ones(s, now.sizes(), like(now, Dtype::int64));
  const Tensor advantages = empty(s, {now.size(0), 1}, like(now));
  Tensor old;
  {
    const NoGrad no_grad(s);
    old = alias(s, now);
  }
  const Tensor ratio = exp(s, sub(s, now, old));
  const Tensor clipped = clamp(s, ratio);
  Tensor losses = neg(s, minimum(s, mul(s, ratio, advantages), mul(s, clipped, advantages)));
  Tensor divergence;
  if (!reference.empty()) {
    const Tensor apart = sub(s, of_completions(reference), now);
    divergence = sub(s, sub(s, exp(s, apart), apart), 1);
    losses = add(s, losses, mul(s, divergence, any_beta));
  }
  return div(s, sum(s, mul(s, losses, mask)), any_beta);
}

WithoutAdapters::WithoutAdapters(Module& root) {
  for (Module* module : modules_of(root)) {
    const bool adapted = module->class_name.starts_with("lora.");
    if (!adapted && module->class_name != "ModulesToSaveWrapper") continue;
    const char* const kept = adapted ? "base_layer" : "original_module";
    before_.emplace_back(module, std::move(module->forward));
    module->forward = [kept](Session& s, Module& me, const Arguments& arguments) {
      return call(s, me.child(kept), arguments);
    };
  }
}

WithoutAdapters::~WithoutAdapters() {
  for (auto& [module, forward] : before_) module->forward = std::move(forward);
}

}  // namespace shardscope::eager
