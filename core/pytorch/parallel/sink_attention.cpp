#include "core/pytorch/parallel/sink_attention.h"

#include <utility>

#include "core/pytorch/engine/aten/flex_attention.h"
#include "core/pytorch/engine/aten/grouped_mm.h"
#include "core/pytorch/engine/aten/indexing.h"
#include "core/pytorch/engine/aten/matmul.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/models/context.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/parallel/sequence_shards.h"

namespace shardscope::eager::parallel {
namespace {

/// apply_attention_sink_rescale: (B, T, H, D) and (B, T, H).
Tensor rescaled(Session& s, const Tensor& output, const Tensor& sums, const Tensor& sinks) {
  const Tensor of_heads = view(s, sinks, {1, 1, -1});
  Tensor scale = sub(s, sums, of_heads);
  scale = unsqueeze(s, sigmoid(s, std::move(scale)), -1);
  return mul(s, output, to(s, scale, output.dtype()));
}

Module::Forward attention_forward(const ProcessGroup* context, std::int64_t window) {
  return [context, window](Session& s, Module& me, const Arguments& arguments) -> Tensors {
    const std::int64_t batch = arguments[0].size(0), length = arguments[0].size(1);
    const auto [query, key, value] = rotated_heads(s, me, arguments);
    Tensor out;
    {
      const Tensor all_keys = with_all_tokens(s, context, key),
                   all_values = with_all_tokens(s, context, value);
      const AttentionWithSums attended =
          flex_attention_with_sums(s, transpose(s, query, 1, 2), transpose(s, all_keys, 1, 2),
                                   transpose(s, all_values, 1, 2), window);
      out = rescaled(s, transpose(s, attended.output, 1, 2), transpose(s, attended.sums, 1, 2),
                     me.parameter("sinks"));
    }
    out = contiguous(s, reshape(s, out, {batch, length, -1}));
    return {call_one(s, me.child("wo"), {out})};
  };
}

/// ScaledBiasRowwiseLinear: each of the ranks adds its part of the bias.
Module::Forward scaled_bias_forward(int ranks) {
  return [ranks](Session& s, Module& me, const Arguments& arguments) -> Tensors {
    const Tensor bias = div(s, me.parameter("bias"), Number(ranks));
    return {linear(s, arguments[0], me.parameter("weight"), bias)};
  };
}

/// swiglu: every second column is a gate.
Tensor clamped_swiglu(Session& s, const Tensor& x) {
  constexpr double alpha = 1.702;
  Tensor gate = slice(s, x, -1, 0, to_the_end, 2);
  Tensor linear_part = slice(s, x, -1, 1, to_the_end, 2);
  gate = clamp_max(s, gate);
  linear_part = clamp(s, linear_part);
  const Tensor glu = mul(s, gate, sigmoid(s, mul(s, gate, Number(alpha))));
  return addcmul(s, glu, glu, linear_part);
}

/// A bias of each expert, and zeros behind them, for each of the rows.
Tensor bias_of_rows(Session& s, const Tensor& bias, const Tensor& counts, std::int64_t rows) {
  const Tensor none = new_zeros(s, bias, {1, bias.size(1)});
  const Tensor all = cat(s, {bias, none}, 0);
  return repeat_interleave(s, all, counts, rows);
}

/// ScaleBiasForward.
Tensor scaled_in_forward(Session& s, const Tensor& bias, int ranks) {
  return apply_function(
      s, "ScaleBiasForwardBackward", {bias},
      [&](Session& in, const NodeRef&) -> Tensors {
        return {ranks > 1 ? div(in, bias, Number(ranks)) : bias};
      },
      [](Session&, Node&, Tensors& gradients) -> Tensors { return {gradients[0]}; })[0];
}

Module::Forward experts_forward(int ranks) {
  return [ranks](Session& s, Module& me, const Arguments& arguments) -> Tensors {
    const Tensor& x = arguments[0];
    const std::int64_t rows = x.size(0);
    const Tensor offsets = cumsum(s, arguments[1], 0, Dtype::int32);
    Tensor counts;
    {
      const Tensor slack =
          to(s, unsqueeze(s, rsub(s, select(s, offsets, 0, -1), 1), 0), arguments[1].dtype());
      counts = to(s, cat(s, {arguments[1], slack}, 0), Dtype::int64);
    }
    const auto product = [&](const Tensor& of, const char* name) {
      const Tensor weight = transpose(s, me.parameter(name), -2, -1);
      return grouped_mm(s, to(s, of, Dtype::bfloat16), to(s, weight, Dtype::bfloat16), offsets);
    };
    Tensor hidden = product(x, "mlp1_weight_EGD");
    const Tensor first = bias_of_rows(s, me.parameter("mlp1_bias_EG"), counts, rows);
    hidden = add(s, std::move(hidden), to(s, first, hidden.dtype()));
    const Tensor gated = clamped_swiglu(s, hidden);
    const Tensor out = product(gated, "mlp2_weight_EDF");
    Tensor second = bias_of_rows(s, me.parameter("mlp2_bias_ED"), counts, rows);
    second = scaled_in_forward(s, second, ranks);
    return {add(s, out, second)};
  };
}

}  // namespace

void add_sink_attention(Session& s, Module& block, const MixtureOptions& o, std::int64_t window) {
  const MixtureShape& shape = o.shape;
  const int parts = tensor_ranks(o);
  Module& attention = add_module(block, "attention", "Attention");
  add_parameter(s, attention, "sinks", o.dtype, {shape.heads / parts});
  add_fused_projection(s, attention, o, true);
  Module& out =
      add_biased_linear(s, attention, "wo", o, {shape.dim, shape.heads * shape.head_dim / parts});
  out.forward = with_scattered_sum(o.tensor, scaled_bias_forward(parts));
  add_half_rotary(s, attention, o);
  attention.forward = with_whole_sequence(o.tensor, attention_forward(o.context, window));
}

void set_clamped_experts(Session& s, Module& experts, const MixtureOptions& o,
                         const OwnExperts& own) {
  const std::int64_t dim = o.shape.dim, count = own.experts, both = 2 * own.hidden;
  add_parameter(s, experts, "mlp1_weight_EGD", o.dtype, {count, both, dim});
  add_parameter(s, experts, "mlp1_bias_EG", o.dtype, {count, both});
  add_parameter(s, experts, "mlp2_weight_EDF", o.dtype, {count, dim, own.hidden});
  add_parameter(s, experts, "mlp2_bias_ED", o.dtype, {count, dim});
  experts.forward = experts_forward(o.ranks ? 1 : tensor_ranks(o));
}

}  // namespace shardscope::eager::parallel
