#include "core/pytorch/engine/models/liger.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "core/pytorch/engine/aten/indexing.h"
#include "core/pytorch/engine/aten/matmul.h"
#include "core/pytorch/engine/aten/matmul_out.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/kernel_scratch.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

constexpr int fp32_sums_capability = 80;  // of products into an fp32 accumulator

Tensor rows_of(Session& s, const Tensor& tensor) { return view(s, tensor, {-1, tensor.size(-1)}); }

Tensor silu_mul_forward(Session& s, const NodeRef& node, const Tensor& gate, const Tensor& up) {
  static constexpr Operator op{"liger._swiglu_forward", OperatorKind::pointwise};
  const Tensor a = rows_of(s, contiguous(s, gate));
  const Tensor b = rows_of(s, contiguous(s, up));
  const Tensor c = empty_like(s, a);
  dispatched(s, op, {&a, &b}, {&c});
  Tensor result = view(s, c, gate.sizes());
  if (node) {
    node->save(s, "a", a);
    node->save(s, "b", b);
  }
  return result;
}

Tensors silu_mul_backward(Session& s, Node& node, Tensors& gradients) {
  static constexpr Operator op{"liger._swiglu_backward", OperatorKind::pointwise};
  const Dims sizes = gradients[0].sizes();
  const Tensor a = node.saved(s, "a");
  const Tensor b = node.saved(s, "b");
  const Tensor c = rows_of(s, contiguous(s, gradients[0]));
  dispatched(s, op, {&c, &a, &b}, {&a, &b});
  return {view(s, a, sizes), view(s, b, sizes)};
}

/// Both at once, where their storage is: _triton_rope.
std::pair<Tensor, Tensor> turned(Session& s, const Tensor& query, const Tensor& key,
                                 const Tensor& cos, const Tensor& sin) {
  static constexpr Operator op{"liger._triton_rope", OperatorKind::pointwise};
  const Tensor q = contiguous(s, transpose(s, query, 1, 2));
  const Tensor k = contiguous(s, transpose(s, key, 1, 2));
  dispatched(s, op, {&q, &k, &cos, &sin}, {&q, &k});
  return {transpose(s, q, 1, 2), transpose(s, k, 1, 2)};
}

bool is_half(Dtype dtype) { return dtype == Dtype::bfloat16 || dtype == Dtype::float16; }

/// One forward of fused_linear_cross_entropy, which makes the gradients as well.
class FusedLoss {
 public:
  FusedLoss(Session& s, const Tensor& input, const Tensor& weight, const Tensor& target,
            bool weight_needs_gradient)
      : s_(s), input_(input), weight_(weight), target_(target) {
    const std::int64_t tokens = input.size(0), hidden = input.size(1), classes = weight.size(0);
    const std::int64_t parts = (classes + hidden - 1) / hidden;
    const auto even = static_cast<std::uint64_t>((tokens + parts - 1) / parts);
    chunk_ = std::min(static_cast<std::int64_t>(std::bit_ceil(even)), tokens);
    grad_input = zeros_like(s, input);
    if (weight_needs_gradient) grad_weight = zeros_like(s, weight);
    losses_ = zeros(s, {tokens}, like(input, Dtype::float32));
    mask_ = compare(s, Comparison::ne, target, -100);
    item(s, sum(s, mask_));
  }

  Tensor loss() {
    if (products_go_out()) logits_ = empty(s_, {chunk_, weight_.size(0)}, like(input_));
    for (std::int64_t begin = 0; begin < input_.size(0); begin += chunk_)
      one_chunk(begin, std::min(begin + chunk_, input_.size(0)));
    logits_.reset();
    return sum(s_, losses_);
  }

  Tensor grad_input, grad_weight;

 private:
  /// _can_use_mm_out: autocast would change neither factor.
  bool products_go_out() const {
    const bool same = input_.dtype() == weight_.dtype();
    return same && (!s_.autocast.enabled || input_.dtype() == s_.autocast.dtype);
  }

  void one_chunk(std::int64_t begin, std::int64_t end) {
    static constexpr Operator loss_op{"liger.liger_cross_entropy_kernel", OperatorKind::reduction};
    const Tensor input = slice(s_, input_, 0, begin, end);
    Tensor logits;
    if (logits_) {
      logits = slice(s_, logits_, 0, 0, end - begin);
      mm_out(s_, input, t(s_, weight_), logits);
    } else {
      logits = matmul(s_, input, t(s_, weight_));
    }
    const Tensor target = slice(s_, target_, 0, begin, end);
    const Tensor losses = slice(s_, losses_, 0, begin, end);
    dispatched(s_, loss_op, {&logits, &target}, {&logits, &losses});
    copy_(s_, slice(s_, losses_, 0, begin, end), losses);
    const Tensor into = slice(s_, grad_input, 0, begin, end);
    if (logits_)
      mm_out(s_, logits, weight_, into);
    else
      copy_(s_, into, matmul(s_, logits, weight_));
    if (grad_weight) add_weight_gradient(t(s_, logits), input);
  }

  void add_weight_gradient(const Tensor& across, const Tensor& input) {
    const bool in_place =
        s_.settings.compute_capability >= fp32_sums_capability && is_half(across.dtype()) &&
        (grad_weight.dtype() == Dtype::float32 || grad_weight.dtype() == across.dtype());
    if (in_place) return addmm_out(s_, grad_weight, across, to(s_, input, across.dtype()));
    add_(s_, grad_weight, to(s_, matmul(s_, across, input), Dtype::float32));
  }

  Session& s_;
  const Tensor& input_;
  const Tensor& weight_;
  const Tensor& target_;
  std::int64_t chunk_ = 1;
  Tensor losses_, mask_, logits_;
};

/// Scaled only where the loss is: torch.equal(grad_output, torch.tensor(1.0)).
Tensors fused_loss_backward(Session& s, Node& node, Tensors& gradients) {
  const Tensor input = node.saved(s, "grad_input");
  const Tensor weight = node.saved(s, "grad_weight");
  {
    const Tensor one = tensor(s, {}, like(gradients[0]));
    item(s, all(s, compare(s, Comparison::eq, gradients[0], one)));
  }
  return {input, weight};
}

}  // namespace

LigerSupport liger_support(std::string_view model_type) {
  constexpr std::array<std::string_view, 6> known{"llama", "mistral", "phi3",
                                                  "qwen2", "qwen3",   "smollm3"};
  // Of our families, those that MODEL_TYPE_TO_APPLY_LIGER_FN lacks.
  constexpr std::array<std::string_view, 18> none{
      "bert", "bloom",     "cohere",  "cohere2",  "dots1",      "glm4_moe",
      "gpt2", "gpt_neox",  "gptj",    "olmo",     "olmoe",      "opt",
      "phi",  "qwen2_moe", "roberta", "stablelm", "starcoder2", "t5"};
  if (std::ranges::find(known, model_type) != known.end()) return LigerSupport::known;
  return std::ranges::find(none, model_type) == none.end() ? LigerSupport::unknown
                                                           : LigerSupport::none;
}

Tensor liger_rms_norm(Session& s, const Tensor& input, const Tensor& weight) {
  static constexpr Operator forward_op{"liger._rms_norm_forward", OperatorKind::reduction};
  static constexpr Operator backward_op{"liger._rms_norm_backward", OperatorKind::reduction};
  const auto forward = [&](Session& in, const NodeRef& node) -> Tensors {
    const Tensor x = rows_of(in, contiguous(in, input));
    const Tensor y = empty(in, x.sizes(), like(x));
    const Tensor deviation = empty(in, {x.size(0)}, like(x, Dtype::float32));
    dispatched(in, forward_op, {&x, &weight}, {&y, &deviation});
    Tensor result = view(in, y, input.sizes());
    if (node) {
      node->save(in, "x", x);
      node->save(in, "weight", weight);
      node->save(in, "rstd", deviation);
    }
    return {std::move(result)};
  };
  const auto backward = [](Session& in, Node& node, Tensors& gradients) -> Tensors {
    const Dims sizes = gradients[0].sizes();
    const Tensor x = node.saved(in, "x");
    const Tensor w = node.saved(in, "weight");
    const Tensor deviation = node.saved(in, "rstd");
    const Tensor dy = rows_of(in, contiguous(in, gradients[0]));
    if (!node.needs(1)) {
      dispatched(in, backward_op, {&dy, &x, &w, &deviation}, {&dy});
      return {view(in, dy, sizes), Tensor()};
    }
    const int parts = kernel_device(in.settings.compute_capability).multiprocessors;
    const Tensor partial = empty(in, {parts, w.size(0)}, like(w, Dtype::float32));
    dispatched(in, backward_op, {&dy, &x, &w, &deviation}, {&dy, &partial});
    Tensor dx = view(in, dy, sizes);
    Tensor dw = to(in, sum(in, partial, {0}), w.dtype());
    return {std::move(dx), std::move(dw)};
  };
  return apply_function(s, "LigerRMSNormFunctionBackward", {input, weight}, forward, backward)
      .front();
}

Tensor liger_silu_mul(Session& s, const Tensor& gate, const Tensor& up) {
  const auto forward = [&](Session& in, const NodeRef& node) -> Tensors {
    return {silu_mul_forward(in, node, gate, up)};
  };
  return apply_function(s, "LigerSiLUMulFunctionBackward", {gate, up}, forward, silu_mul_backward)
      .front();
}

std::pair<Tensor, Tensor> liger_rotary(Session& s, const Tensor& query, const Tensor& key,
                                       const Tensor& cos, const Tensor& sin) {
  const auto forward = [&](Session& in, const NodeRef& node) -> Tensors {
    const Tensor cosines = contiguous(in, cos);
    const Tensor sines = contiguous(in, sin);
    auto [q, k] = turned(in, query, key, cosines, sines);
    if (node) {
      node->save(in, "cos", cosines);
      node->save(in, "sin", sines);
    }
    return {std::move(q), std::move(k)};
  };
  const auto backward = [](Session& in, Node& node, Tensors& gradients) -> Tensors {
    const Tensor cosines = node.saved(in, "cos");
    const Tensor sines = node.saved(in, "sin");
    auto [q, k] = turned(in, gradients[0], gradients[1], cosines, sines);
    return {std::move(q), std::move(k)};
  };
  Tensors outputs = apply_function(s, "LigerRopeFunctionBackward", {query, key}, forward, backward);
  return {std::move(outputs[0]), std::move(outputs[1])};
}

Tensor liger_fused_linear_cross_entropy(Session& s, const Tensor& hidden, const Tensor& weight,
                                        const Tensor& target) {
  const bool needs_weight = weight.requires_grad() && hidden.requires_grad();
  const auto forward = [&](Session& in, const NodeRef& node) -> Tensors {
    FusedLoss fused(in, hidden, weight, target, needs_weight);
    Tensor loss = fused.loss();
    if (node) {
      node->save(in, "grad_input", fused.grad_input);
      node->save(in, "grad_weight", fused.grad_weight);
    }
    return {std::move(loss)};
  };
  return apply_function(s, "LigerFusedLinearCrossEntropyFunctionBackward", {hidden, weight},
                        forward, fused_loss_backward)
      .front();
}

}  // namespace shardscope::eager
