#include "core/pytorch/engine/aten/norm.h"

#include "core/pytorch/engine/autocast.h"
#include "core/pytorch/engine/dispatch.h"

namespace shardscope::eager {
namespace {

constexpr Operator native_layer_norm_op{"aten.native_layer_norm.default", OperatorKind::reduction};
constexpr Operator backward_op{"aten.native_layer_norm_backward.default", OperatorKind::reduction};

/// Of mean and 1/deviation. Source: ATen/native/layer_norm.cpp (cpu: the input's, float32 where
/// the weight's differs) and cuda/layer_norm_kernel.cu (the accumulation type).
Dtype statistics_dtype(const Tensor& input, const Tensor& weight) {
  if (input.dtype() == Dtype::float64) return Dtype::float64;
  const bool mixed = weight && weight.dtype() != input.dtype();
  return input.device() == Device::cpu && !mixed ? input.dtype() : Dtype::float32;
}

/// Without a weight the last dimension is normalised.
Dims statistics_sizes(const Tensor& input, const Tensor& weight) {
  Dims sizes = input.sizes();
  const int normalised = weight ? weight.dim() : 1;
  for (int i = 1; i <= normalised; ++i) sizes[-i] = 1;
  return sizes;
}

Tensors backward(Session& s, Node& node, Tensors& gradients) {
  const Tensor input = node.saved(s, "input");
  const Tensor mean = node.saved(s, "result1");
  const Tensor deviation = node.saved(s, "result2");
  const Tensor weight = node.saved(s, "weight");
  const Tensor bias = node.saved(s, "bias");
  const auto wanted = [&](std::size_t i, const Tensor& of) {
    return node.needs(i) ? allocate(s, like(of), of.sizes()) : Tensor();
  };
  const Tensors results{wanted(0, input), wanted(1, weight), wanted(2, bias)};
  dispatched(s, backward_op, {&gradients[0], &input, &mean, &deviation, &weight, &bias},
             {&results[0], &results[1], &results[2]});
  return results;
}

Tensor native_layer_norm(Session& s, Tensor input, Tensor weight, Tensor bias) {
  const LetGo let_go{input, weight, bias};
  const NodeRef node = make_node(s, "NativeLayerNormBackward0", {&input, &weight, &bias}, backward);
  if (node) {
    node->save(s, "input", input);
    node->save(s, "weight", weight);
    node->save(s, "bias", bias);
  }
  const Tensor output = allocate(s, like(input), input.sizes());
  const Like statistics = like(input, statistics_dtype(input, weight));
  Tensor mean = allocate(s, statistics, statistics_sizes(input, weight));
  Tensor deviation = allocate(s, statistics, statistics_sizes(input, weight));
  const LetGo in_order{mean, deviation};
  dispatched(s, native_layer_norm_op, {&input, &weight, &bias}, {&output, &mean, &deviation});
  set_history(s, output, node);
  if (node) {
    node->save_output(s, "result1", mean);
    node->save_output(s, "result2", deviation);
  }
  return output;
}

constexpr Operator rms_norm_op{"aten._fused_rms_norm.default", OperatorKind::reduction};
constexpr Operator rms_norm_backward_op{"aten._fused_rms_norm_backward.default",
                                        OperatorKind::reduction};

Tensors rms_norm_backward(Session& s, Node& node, Tensors& gradients) {
  const Tensor input = node.saved(s, "input");
  const Tensor deviation = node.saved(s, "result1");
  const Tensor weight = node.saved(s, "weight");
  const auto wanted = [&](std::size_t i, const Tensor& of) {
    return node.needs(i) ? allocate(s, like(of), of.sizes()) : Tensor();
  };
  const Tensors results{wanted(0, input), wanted(1, weight)};
  dispatched(s, rms_norm_backward_op, {&gradients[0], &input, &deviation, &weight},
             {&results[0], &results[1]});
  return results;
}

}  // namespace

Tensor rms_norm(Session& s, Tensor input, Tensor weight) {
  const LetGo let_go{input, weight};
  const NodeRef node = make_node(s, "FusedRmsNormBackward0", {&input, &weight}, rms_norm_backward);
  if (node) {
    node->save(s, "input", input);
    node->save(s, "weight", weight);
  }
  const Tensor output = allocate(s, like(input), input.sizes());
  Tensor deviation =
      allocate(s, like(input, statistics_dtype(input, weight)), statistics_sizes(input, weight));
  const LetGo in_order{deviation};
  dispatched(s, rms_norm_op, {&input, &weight}, {&output, &deviation});
  set_history(s, output, node);
  if (node) node->save_output(s, "result1", deviation);
  return output;
}

Tensor layer_norm(Session& s, Tensor input, Tensor weight, Tensor bias) {
  const LetGo let_go{input, weight, bias};
  // C++ evaluates the casts from the last argument to the first.
  Tensor bias_cast = s.settings.device == Device::cuda ? to_float32(s, bias) : bias;
  Tensor weight_cast = s.settings.device == Device::cuda ? to_float32(s, weight) : weight;
  Tensor input_cast = s.settings.device == Device::cuda ? to_float32(s, input) : input;
  return native_layer_norm(s, std::move(input_cast), std::move(weight_cast), std::move(bias_cast));
}

}  // namespace shardscope::eager
