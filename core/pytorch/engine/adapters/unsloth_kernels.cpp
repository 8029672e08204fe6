#include "core/pytorch/engine/adapters/unsloth_kernels.h"

#include <algorithm>
#include <cmath>

#include "core/pytorch/engine/aten/matmul_out.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

Tensors unsloth_norm_backward(Session& s, Node& node, Tensors& gradients) {
  static constexpr Operator op{"unsloth._rms_layernorm_backward", OperatorKind::reduction};
  const Dims sizes = gradients[0].sizes();
  const Tensor dy = as_rows(s, gradients[0]);
  const Tensor x = node.saved(s, "X");
  const Tensor weight = node.saved(s, "W");
  const Tensor deviations = node.saved(s, "r");
  dispatched(s, op, {&dy, &x, &weight, &deviations}, {&dy});
  return {view(s, dy, sizes), Tensor()};
}

/// Fast_RoPE_Embedding turns where the states lie.
Tensor turned_states(Session& s, const Tensor& states, const Tensor& cos, const Tensor& sin) {
  static constexpr Operator op{"unsloth._rope_embedding", OperatorKind::pointwise};
  const Dims sizes = states.sizes();
  const Tensor rows = reshape(s, states, {sizes[0] * sizes[1], sizes[2] * sizes[3]});
  dispatched(s, op, {&rows, &cos, &sin}, {&rows});
  return reshape(s, rows, sizes);
}

/// One forward of UnslothFusedLoss.
class FusedLoss {
 public:
  FusedLoss(Session& s, const Tensor& hidden, const Tensor& weight, const Tensor& labels,
            bool weight_needs_gradient)
      : s_(s), weight_(weight), labels_(shifted(s, labels)) {
    divisor_ = to(s, sum(s, compare(s, Comparison::ne, labels_, -100)), Dtype::float32);
    grad_hidden = empty_like(s, hidden);
    if (weight_needs_gradient) grad_weight = zeros_like(s, weight);
    loss_ = select(s, zeros(s, {1}, like(hidden, Dtype::float32)), 0, 0);
    hidden_ = as_rows(s, hidden);
  }

  Tensor loss(Bytes target) {
    const std::int64_t tokens = hidden_.size(0);
    const std::int64_t parts = unsloth_loss_parts(tokens, weight_.size(0), target);
    const std::int64_t size = (tokens + parts - 1) / parts;  // torch.chunk
    const Tensor into = as_rows(s_, grad_hidden);
    for (std::int64_t begin = 0; begin < tokens; begin += size)
      one_part(into, begin, std::min(begin + size, tokens));
    return loss_;
  }

  Tensor grad_hidden, grad_weight;

 private:
  static Tensor shifted(Session& s, const Tensor& labels) {
    const Tensor next = empty_like(s, labels);
    copy_(s, slice(s, next, -1, 0, labels.size(-1) - 1), slice(s, labels, -1, 1));
    fill_(s, select(s, next, -1, labels.size(-1) - 1));
    return view(s, next, {-1});
  }

  /// accumulate_chunk as inductor compiles it: what it does to logits is two kernels.
  void one_part(const Tensor& into, std::int64_t begin, std::int64_t end) {
    static constexpr Operator gradient_op{"inductor.log_softmax_backward", OperatorKind::reduction};
    static constexpr Operator loss_op{"inductor.nll_loss_forward", OperatorKind::reduction};
    const Tensor labels = slice(s_, labels_, 0, begin, end);
    Tensor hidden = slice(s_, hidden_, 0, begin, end);
    hidden = to(s_, std::move(hidden), weight_.dtype());
    const std::int64_t rows = end - begin;
    Tensor logits = empty(s_, {rows, weight_.size(0)}, like(weight_));
    mm_out(s_, hidden, t(s_, weight_), logits);
    const Tensor greatest = empty(s_, {rows, 1}, like(weight_, Dtype::float32));
    const Tensor sums = empty(s_, {rows, 1}, like(weight_, Dtype::float32));
    const Tensor gradient = empty(s_, logits.sizes(), like(logits));
    dispatched(s_, gradient_op, {&logits, &labels, &divisor_}, {&greatest, &sums, &gradient});
    dispatched(s_, loss_op, {&logits, &labels, &greatest, &sums, &divisor_}, {&loss_});
    logits.reset();
    if (grad_weight) {
      const Tensor of_part = empty(s_, weight_.sizes(), like(weight_));
      mm_out(s_, t(s_, gradient), hidden, of_part);
      add_(s_, grad_weight, of_part);
    }
    const Tensor of_hidden = empty(s_, hidden.sizes(), like(hidden));
    mm_out(s_, gradient, weight_, of_hidden);
    copy_(s_, slice(s_, into, 0, begin, end), of_hidden);
  }

  Session& s_;
  const Tensor& weight_;
  Tensor labels_, divisor_, loss_, hidden_;
};

Tensors unsloth_loss_backward(Session& s, Node& node, Tensors& gradients) {
  const Tensor hidden = node.saved(s, "grad_inputs");
  const Tensor weight = node.saved(s, "grad_lm_head");
  const Tensor scale = div(s, mean(s, gradients[0]), 1.0);
  const auto scaled = [&](const Tensor& gradient) {
    return gradient ? mul(s, gradient, scale) : Tensor();
  };
  Tensor of_hidden = scaled(hidden);
  return {std::move(of_hidden), scaled(weight)};
}

Tensors unsloth_whole_backward(Session& s, Node& node, Tensors& gradients) {
  static constexpr Operator op{"unsloth._cross_entropy_backward", OperatorKind::reduction};
  const Tensor logits = node.saved(s, "logits");
  const Tensor sums = node.saved(s, "logsumexp");
  const Tensor labels = node.saved(s, "labels");
  dispatched(s, op, {&logits, &gradients[0], &sums, &labels}, {&logits});
  return {logits};
}

/// hstack((labels[..., 1:], ignored)).
Tensor next_labels(Session& s, const Tensor& labels) {
  const Tensor ignored = full(s, {labels.size(0), 1}, like(labels));
  return cat(s, {slice(s, labels, -1, 1), ignored}, 1);
}

}  // namespace

Tensor as_rows(Session& s, const Tensor& tensor) {
  return reshape(s, tensor, {-1, tensor.size(-1)});
}

Tensor unsloth_rms_norm(Session& s, const Tensor& input, const Tensor& weight) {
  static constexpr Operator op{"unsloth._rms_layernorm_forward", OperatorKind::reduction};
  const auto forward = [&](Session& in, const NodeRef& node) -> Tensors {
    const Tensor x = as_rows(in, input);
    const Tensor y = empty(in, x.sizes(), like(x));
    const Tensor deviations = empty(in, {x.size(0)}, like(x, Dtype::float32));
    dispatched(in, op, {&x, &weight}, {&y, &deviations});
    if (node) {
      node->save(in, "X", x);
      node->save(in, "W", weight);
      node->save(in, "r", deviations);
    }
    return {view(in, y, input.sizes())};
  };
  return apply_function(s, "Fast_RMS_LayernormBackward", {input, weight}, forward,
                        unsloth_norm_backward)
      .front();
}

Tensor unsloth_rotary(Session& s, const Tensor& states, const Tensor& cos, const Tensor& sin) {
  const auto forward = [&](Session& in, const NodeRef&) -> Tensors {
    return {turned_states(in, states, cos, sin)};
  };
  // ctx.cos and ctx.sin are attributes, which the end of the node's backward does not let go.
  const auto backward = [cos, sin](Session& in, Node&, Tensors& gradients) -> Tensors {
    return {turned_states(in, gradients[0], cos, sin)};
  };
  return apply_function(s, "Fast_RoPE_EmbeddingBackward", {states}, forward, backward).front();
}

Tensor unsloth_swiglu(Session& s, const Tensor& gate, const Tensor& up) {
  static constexpr Operator op{"unsloth._fg_kernel", OperatorKind::pointwise};
  Tensor product = empty(s, gate.sizes(), like(gate));
  dispatched(s, op, {&gate, &up}, {&product});
  return product;
}

void unsloth_swiglu_backward(Session& s, const Tensor& gradient, const Tensor& gate,
                             const Tensor& up) {
  static constexpr Operator op{"unsloth._DWf_DW_dfg_kernel", OperatorKind::pointwise};
  dispatched(s, op, {&gradient, &gate, &up}, {&gradient, &gate, &up});
}

std::int64_t unsloth_loss_parts(std::int64_t tokens, std::int64_t classes, Bytes target) {
  constexpr double float_bytes = 4, tolerance = 1e-9;
  const double exact = static_cast<double>(tokens) * static_cast<double>(classes) * float_bytes /
                       static_cast<double>(std::max<std::int64_t>(target.count, 1));
  if (exact <= 1 + tolerance) return 1;
  const auto parts = static_cast<std::int64_t>(std::ceil(exact / 4 - tolerance)) * 4;
  return std::min(parts, tokens);
}

Tensor unsloth_fused_loss(Session& s, const Tensor& hidden, const Tensor& weight,
                          const Tensor& labels, Bytes target) {
  const auto forward = [&](Session& in, const NodeRef& node) -> Tensors {
    FusedLoss fused(in, hidden, weight, labels, weight.requires_grad());
    Tensor loss = fused.loss(target);
    if (node) {
      node->save(in, "grad_inputs", fused.grad_hidden);
      node->save(in, "grad_lm_head", fused.grad_weight);
    }
    return {std::move(loss)};
  };
  return apply_function(s, "UnslothFusedLossBackward", {hidden, weight}, forward,
                        unsloth_loss_backward)
      .front();
}

Tensor unsloth_whole_loss(Session& s, const Tensor& logits, const Tensor& labels) {
  static constexpr Operator op{"unsloth._cross_entropy_forward", OperatorKind::reduction};
  constexpr std::int64_t widest = 65536;  // MAX_FUSED_SIZE
  const Tensor targets = next_labels(s, labels);
  const Tensor rows = view(s, logits, {-1, logits.size(-1)});
  const auto forward = [&](Session& in, const NodeRef& node) -> Tensors {
    const Tensor flat = view(in, targets, {-1});
    Tensor losses = empty(in, {rows.size(0)}, like(rows, Dtype::float32));
    const std::int64_t chunks = (rows.size(1) + widest - 1) / widest;
    Tensor sums = chunks == 1 ? empty(in, {rows.size(0)}, like(losses))
                              : empty(in, {rows.size(0), chunks}, like(losses));
    dispatched(in, op, {&rows, &flat}, {&losses, &sums});
    if (chunks > 1) {
      sums = sum(in, sums, {1});
      add_(in, losses, sums);
    }
    if (node) {
      node->save(in, "logits", rows);
      node->save(in, "logsumexp", sums);
      node->save(in, "labels", flat);
    }
    return {std::move(losses)};
  };
  const Tensor losses =
      apply_function(s, "Fast_CrossEntropyLossBackward", {rows}, forward, unsloth_whole_backward)
          .front();
  const Tensor labelled = sum(s, compare(s, Comparison::ne, targets, -100));
  return div(s, sum(s, losses), labelled);
}

}  // namespace shardscope::eager
