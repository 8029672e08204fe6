// Attention written out in other operators: _scaled_dot_product_attention_math.
#include "core/pytorch/engine/aten/attention.h"
#include "core/pytorch/engine/aten/indexing.h"
#include "core/pytorch/engine/aten/matmul.h"
#include "core/pytorch/engine/aten/random.h"
#include "core/pytorch/engine/aten/softmax.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

constexpr Operator tril_op{"aten.tril.default", OperatorKind::pointwise};

/// A factor: the square root of the scale.
constexpr double any_factor = 0.5;

Tensor tril(Session& s, Tensor self) {
  const LetGo let_go{self};
  const Tensor result = allocate(s, like(self), self.sizes());
  dispatched(s, tril_op, {&self}, {&result});
  return result;
}

Tensor in_float32(Session& s, const Tensor& tensor) {
  const bool low = tensor.dtype() == Dtype::float16 || tensor.dtype() == Dtype::bfloat16;
  return low ? to(s, tensor, Dtype::float32) : tensor;
}

Tensor causal_mask(Session& s, const Tensor& query, const Tensor& key) {
  const Tensor allowed =
      tril(s, ones(s, {query.size(-2), key.size(-2)}, like(query, Dtype::boolean)));
  return additive_mask(s, allowed, query.dtype());
}

/// pre_process_group_query_attention_input.
Tensor repeated_heads(Session& s, const Tensor& tensor, const Tensor& query) {
  const std::int64_t times = query.size(-3) / tensor.size(-3);
  return times == 1 ? tensor : repeat_interleave(s, tensor, times, -3);
}

}  // namespace

Tensor math_attention(Session& s, const AttentionArguments& a) {
  const Dtype given = a.query.dtype();
  const Tensor query_float = in_float32(s, a.query);
  const Tensor key_float = in_float32(s, a.key);
  const Tensor value_float = in_float32(s, a.value);
  const Tensor query = mul_scalar(s, query_float, any_factor);
  const Tensor mask = a.causal ? causal_mask(s, query, key_float) : a.mask;
  const Tensor key = repeated_heads(s, key_float, query);
  const Tensor value = repeated_heads(s, value_float, query);
  Tensor scores = matmul(s, query, mul_scalar(s, transpose(s, key, -2, -1), any_factor));
  // Where something watches PyTorch does not add in place.
  if (mask) scores = s.settings.watched ? add(s, scores, mask) : add_(s, scores, mask);
  scores = safe_softmax(s, scores);
  if (a.dropout > 0) scores = dropout(s, scores, a.dropout, true);
  // Both results are converted, the scores first, although only the output is returned.
  const Tensor returned_scores = to(s, scores, given);
  return to(s, matmul(s, scores, value), given);
}

}  // namespace shardscope::eager
