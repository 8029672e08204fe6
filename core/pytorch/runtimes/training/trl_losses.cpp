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

}  // namespace

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
