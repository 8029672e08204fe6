#include "core/pytorch/engine/models/grouped_experts.h"

#include <algorithm>
#include <utility>

#include "core/pytorch/engine/aten/grouped_mm.h"
#include "core/pytorch/engine/aten/indexing.h"
#include "core/pytorch/engine/aten/selection.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

/// _grouped_linear.
Tensor grouped_linear(Session& s, const Tensor& input, const Tensor& weight, const Tensor& offsets,
                      const Tensor& bias, bool is_transposed) {
  Tensor by_columns = is_transposed ? weight : transpose(s, weight, -2, -1);
  Tensor out = grouped_mm(s, to(s, input, weight.dtype()), std::move(by_columns), offsets);
  return bias ? add_(s, std::move(out), bias) : out;
}

/// self[index] = values: leading dimensions of one element are taken off the values first.
void assign(Session& s, const Tensor& self, const Tensor& places, Tensor values) {
  if (values.size(0) == 1) values = view(s, std::move(values), {});
  index_put_(s, self, {places}, std::move(values));
}

}  // namespace

ExpertShares even_shares(std::int64_t experts, std::int64_t pairs) {
  const std::int64_t hit = std::min(experts, pairs);
  ExpertShares shares;
  for (std::int64_t i = 0; i < hit; ++i)
    shares.push_back({.expert = i, .tokens = pairs / hit + (i < pairs % hit ? 1 : 0)});
  return shares;
}

Tensors run_grouped_experts(Session& s, Module& module, const Arguments& arguments,
                            const ExpertsForm& form) {
  const Tensor& hidden = arguments[0];
  const std::int64_t tokens = hidden.size(0), chosen = arguments[1].size(-1);
  const Tensor weights = reshape(s, arguments[2], {-1});
  const Tensor experts = reshape(s, arguments[1], {-1});
  auto [sorted, order] = sort(s, experts);
  Tensor selected = index(s, hidden, {floor_divide(s, order, chosen)});
  Tensor selected_weights = index(s, weights, {order});
  const bool on_cpu = s.settings.device == Device::cpu;
  Tensor counted = to(s, sorted, on_cpu ? Dtype::float32 : Dtype::int32);
  Tensor counts = histc(s, counted, module.sizes_of("gate_up_proj")[0]);
  Tensor offsets = cumsum(s, counts, 0, Dtype::int32);
  Tensor biases;
  const auto biases_of = [&](const char* name, const Tensor& places) {
    return form.has_bias ? index(s, module.parameter(name), {places}) : Tensor();
  };
  const Tensor& fused_weights = module.parameter("gate_up_proj");
  biases = biases_of("gate_up_proj_bias", sorted);
  Tensor out = grouped_linear(s, selected, fused_weights, offsets, biases, form.is_transposed);
  out = form.gate(s, module, out);
  const Tensor& down_weights = module.parameter("down_proj");
  biases = biases_of("down_proj_bias", sorted);
  out = grouped_linear(s, out, down_weights, offsets, biases, form.is_transposed);
  Tensor weighted = mul(s, out, unsqueeze(s, selected_weights, -1));
  Tensor inverse = empty_like(s, order);
  assign(s, inverse, order, arange(s, order.size(0), like(order)));
  weighted = index(s, weighted, {inverse});
  const Tensor total = sum(s, view(s, weighted, {tokens, chosen, hidden.size(-1)}), {1});
  // As Python leaves the function's frame, the last one first.
  const LetGo results{out, weighted, inverse};
  const LetGo counting{counted, counts, offsets, biases};
  const LetGo choice{sorted, order, selected, selected_weights};
  return {to(s, total, hidden.dtype())};
}

}  // namespace shardscope::eager
