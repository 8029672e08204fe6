// GPTQ's and AWQ's linear layers: weights of 4 bits, eight in an int32, scales and zeros of each
// group of inputs. Sources: AutoGPTQ 0.5.1, nn_modules/qlinear/qlinear_cuda_old.py (forward without
// its kernel, which is for few rows); AutoAWQ 0.2.9, awq/modules/linear/gemm.py.
#include "core/pytorch/engine/adapters/quantized.h"
#include "core/pytorch/engine/aten/matmul.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

constexpr std::int64_t weights_of_int = 8;
constexpr std::int64_t rows_of_whole_product = 1024;  // AutoAWQ: fewer go to a kernel of its own

Tensor made_by(Session& s, const Operator& op, const Tensors& inputs, const Dims& sizes,
               Dtype dtype) {
  Tensor result = empty(s, sizes, like(inputs.front(), dtype));
  dispatched(s, op, inputs, {result});
  return result;
}

}  // namespace

/// What a file brings: packed weights, zeros and scales; GPTQ's groups by input beside.
Tensor QuantizedLayer::load_packed(Session& s, Device device) {
  const std::int64_t out = shape_[0], in = shape_[1];
  const std::int64_t groups = (in + settings_.group_size - 1) / settings_.group_size;
  const std::int64_t packed_out = (out + weights_of_int - 1) / weights_of_int;
  const bool by_output = settings_.kind == QuantizationKind::awq;
  const Dims packed =
      by_output ? Dims{in, packed_out} : Dims{(in + weights_of_int - 1) / weights_of_int, out};
  Tensor weight = empty(s, packed, {Dtype::int32, device});
  zeros_ = empty(s, {groups, packed_out}, {Dtype::int32, device});
  scales_ = empty(s, {groups, out}, {Dtype::float16, device});
  if (!by_output) order_ = empty(s, {in}, {Dtype::int32, device});
  return weight;
}

/// Shifted in int32, cut to int8, masked in place, less the zeros, times the scales.
/// Source: AutoGPTQ at 179776b, qlinear_cuda_old.py.
Tensor QuantizedLayer::dequantize_gptq(Session& s, const Tensor& packed) const {
  static constexpr Operator shift{"aten.bitwise_right_shift.Tensor", OperatorKind::pointwise};
  static constexpr Operator mask{"aten.bitwise_and.Scalar", OperatorKind::pointwise};
  static constexpr Operator less{"aten.sub.Tensor", OperatorKind::pointwise};
  static constexpr Operator times{"aten.mul.Tensor", OperatorKind::pointwise};
  const Dims sizes{shape_[1], shape_[0]};
  Tensor values = to(s, made_by(s, shift, {packed}, sizes, Dtype::int32), Dtype::int8);
  dispatched(s, mask, {&values}, {&values});
  values = made_by(s, less, {values, zeros_}, sizes, Dtype::int8);
  return made_by(s, times, {values, scales_}, sizes, Dtype::float16);
}

Tensor QuantizedLayer::dequantize_awq(Session& s, const Tensor& packed) const {
  static constexpr Operator op{"awq.dequantize_weights_cuda", OperatorKind::pointwise};
  return made_by(s, op, {packed, zeros_, scales_}, {shape_[1], shape_[0]}, Dtype::float16);
}

/// The product is one of autograd's own: it keeps the whole weight for the input's gradient.
Tensor QuantizedLayer::matmul_gptq(Session& s, const Tensor& x, const Tensor& packed) const {
  Tensor weight;
  {
    const NoGrad no_grad(s);
    weight = dequantize_gptq(s, packed);
  }
  return matmul(s, to(s, x, Dtype::float16), std::move(weight));
}

/// WQLinearMMFunction, which keeps x.
Tensor QuantizedLayer::matmul_awq(Session& s, const Tensor& given, const Tensor& packed) const {
  static constexpr Operator own{"awq.gemm_forward_cuda", OperatorKind::matmul};
  const Tensor x = to(s, given, Dtype::float16);
  const auto forward = [this, packed](Session& in, const Tensor& rows) -> Tensor {
    const std::int64_t count = rows.numel() / rows.size(-1);
    if (count >= rows_of_whole_product) return matmul(in, rows, dequantize_awq(in, packed));
    Dims sizes = rows.sizes();
    sizes[-1] = shape_[0];
    Tensor result = empty(in, sizes, like(rows));
    dispatched(in, own, {&rows, &packed, &zeros_, &scales_}, {&result},
               2 * count * shape_[0] * shape_[1]);
    return result;
  };
  return apply_function(
             s, "WQLinearMMFunctionBackward", {x},
             [&](Session& in, const NodeRef& node) -> Tensors {
               if (node) node->save(in, "x", x);
               return {forward(in, x)};
             },
             [this, packed](Session& in, Node&, Tensors& gradients) -> Tensors {
               const Tensor weight = dequantize_awq(in, packed);
               const Tensor turned = unsqueeze(in, transpose(in, weight, 0, 1), 0);
               const Tensor each = repeat(in, turned, {gradients[0].size(0), 1, 1});
               return {bmm(in, gradients[0], each)};
             })
      .front();
}

Tensor QuantizedLayer::forward_packed(Session& s, Module& module, const Tensor& x) const {
  const Tensor& packed = module.parameters[0].tensor;
  const bool awq = settings_.kind == QuantizationKind::awq;
  Tensor result = awq ? matmul_awq(s, x, packed) : matmul_gptq(s, x, packed);
  if (module.parameters.size() > 1 && module.parameters[1].tensor)
    result = add(s, result, to(s, module.parameters[1].tensor, result.dtype()));
  return to(s, std::move(result), x.dtype());
}

}  // namespace shardscope::eager
