#include "core/pytorch/engine/operator_kind.h"

#include <algorithm>
#include <initializer_list>

namespace shardscope::eager {
namespace {

bool has_any(std::string_view name, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
    return name.find(word) != std::string_view::npos;
  });
}

bool begins_with_any(std::string_view name, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return name.starts_with(word); });
}

}  // namespace

OperatorKind kind_of_operator(std::string_view name) {
  using Kind = OperatorKind;
  if (begins_with_any(
          name, {"aten.mm.", "aten.addmm.", "aten.bmm.", "aten.baddbmm.", "aten.mv.", "aten.addmv.",
                 "aten._grouped_mm.", "aten._scaled_grouped_mm.", "aten._scaled_mm."}))
    return Kind::matmul;
  if (begins_with_any(name, {"aten.empty", "aten.new_empty"})) return Kind::allocation;
  if (begins_with_any(name, {"aten._local_scalar_dense.", "aten.is_pinned.", "aten.lift_fresh."}))
    return Kind::host;
  if (has_any(name, {"aten.copy_", "aten._to_copy", "aten.clone", "aten.cat", "aten.contiguous",
                     "aten.stack", "aten.repeat.", "aten.select_backward", "aten.slice_backward",
                     "aten.constant_pad_nd"}))
    return Kind::copy;
  if (has_any(name, {"dropout_backward"})) return Kind::pointwise;
  if (has_any(name,
              {"dropout", "bernoulli", "normal_", "uniform_", "random_", "rand", "multinomial"}))
    return Kind::random;
  if (has_any(name, {"index", "gather", "embedding", "scatter", "take", "nll_loss_backward"}))
    return Kind::indexing;
  if (has_any(name, {"aten.sum", "aten.mean", "aten.any", "aten.all.", "aten.max.", "aten.min.",
                     "aten.amax", "aten.amin", "argmax", "norm", "cumsum", "topk", "sort", "var",
                     "nll_loss_forward", "_loss.default", "with_logits", "softmax"}))
    return Kind::reduction;
  return Kind::pointwise;
}

}  // namespace shardscope::eager
