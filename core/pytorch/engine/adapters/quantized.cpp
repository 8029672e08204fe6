#include "core/pytorch/engine/adapters/quantized.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/pytorch/engine/aten/matmul.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

constexpr std::int64_t block_elements = 64;          // of 4-bit weights
constexpr std::int64_t second_block_elements = 256;  // of their absmax
constexpr double any_factor = 0.5;

std::int64_t blocks_of(std::int64_t elements, std::int64_t block) {
  return (elements + block - 1) / block;
}

/// get_4bit_type: 16 numbers, divided by their greatest.
Tensor code_of_4bit(Session& s, Device device) {
  Tensor code = tensor(s, {16}, {Dtype::float32, device});
  Tensor absolute = abs(s, code);
  const Tensor greatest = max(s, absolute);
  div_(s, code, greatest);
  absolute.reset();
  return code;
}

/// A tensor's storage cloned, and the empty one that takes it over: torch/_tensor.py,
/// __deepcopy__.
Tensor deep_copied(Session& s, const Tensor& tensor) {
  const NoGrad no_grad(s);
  Tensor storage = clone(s, tensor);
  new_empty(s, tensor, {});
  return storage;
}

/// backends/cuda/ops.py, int8_vectorwise_quant: scales of the rows, and the rows.
std::pair<Tensor, Tensor> quantized_rows(Session& s, const Tensor& rows) {
  static constexpr Operator op{"bitsandbytes.int8_vectorwise_quant.default",
                               OperatorKind::pointwise};
  const std::int64_t count = rows.numel() / rows.size(-1);
  Tensor scales = empty(s, {count}, {Dtype::float32, rows.device()});
  Tensor packed = empty(s, rows.sizes(), {Dtype::int8, rows.device()});
  dispatched(s, op, {&rows}, {&packed, &scales});
  return {std::move(scales), std::move(packed)};
}

}  // namespace

std::shared_ptr<const QuantizedLayer> QuantizedLayers::find(const Module* module) const {
  for (const Entry& entry : entries_)
    if (entry.module == module) return entry.layer;
  return nullptr;
}

std::vector<std::pair<std::string, Tensor>> QuantizedLayer::state() const {
  std::vector<std::pair<std::string, Tensor>> tensors;
  const auto add = [&](const char* name, const Tensor& tensor) {
    if (tensor) tensors.emplace_back(name, tensor);
  };
  add("absmax", absmax_);
  add("code", code_);
  add("offset", offset_);
  add("state2.absmax", second_absmax_);
  add("state2.code", second_code_);
  add(is_packed() ? "scales" : "SCB", scales_);
  add("qzeros", zeros_);
  add("g_idx", order_);
  return tensors;
}

/// bitsandbytes' quant_type.
static std::string_view name_of_kind(QuantizationKind kind) {
  return kind == QuantizationKind::nf4 ? "nf4" : "fp4";
}

/// pack_dict_to_tensor of what is no tensor: JSON in bytes. The offset's digits are those of zero.
Tensor QuantizedLayer::packed_description(Session& s) const {
  std::string text = fmt::format(
      R"({{"quant_type": "{}", "blocksize": {}, "dtype": "{}", "shape": [{}, {}])",
      name_of_kind(settings_.kind), block_elements, name_of(dtype_), shape_[0], shape_[1]);
  if (offset_)
    text +=
        fmt::format(R"(, "nested_blocksize": {}, "nested_dtype": "float32", "nested_offset": 0.0)",
                    second_block_elements);
  return empty(s, {static_cast<std::int64_t>(text.size()) + 1}, {Dtype::uint8, Device::cpu});
}

std::vector<std::pair<std::string, Tensor>> QuantizedLayer::saved_state(Session& s) const {
  std::vector<std::pair<std::string, Tensor>> saved;
  if (is_packed()) return saved;
  if (!is_4bit()) {
    saved.emplace_back("SCB", scales_);
    saved.emplace_back("weight_format", empty(s, {}, {Dtype::uint8, Device::cpu}));
    return saved;
  }
  saved.emplace_back("weight.absmax", absmax_);
  saved.emplace_back("weight.quant_map", code_);
  if (offset_) {
    saved.emplace_back("weight.nested_absmax", second_absmax_);
    saved.emplace_back("weight.nested_quant_map", clone(s, second_code_));
  }
  saved.emplace_back(
      fmt::format("weight.quant_state.bitsandbytes__{}", name_of_kind(settings_.kind)),
      packed_description(s));
  return saved;
}

Tensor QuantizedLayer::quantize(Session& s, const Tensor& weight, Tensor& codes) {
  if (is_packed()) return load_packed(s, weight.device());
  if (!is_4bit()) return quantize_int8(s, weight);
  Tensor packed = quantize_4bit(s, weight, codes);
  codes_ = codes;
  return packed;
}

Tensor QuantizedLayer::requantize(Session& s, const Tensor& weight) {
  dtype_ = weight.dtype();
  return quantize(s, weight, codes_);
}

void QuantizedLayer::let_go() {
  for (Tensor* tensor :
       {&absmax_, &code_, &offset_, &second_absmax_, &second_code_, &scales_, &zeros_, &order_})
    tensor->reset();
}

/// functional.py, quantize_4bit and quantize_blockwise.
Tensor QuantizedLayer::quantize_4bit(Session& s, const Tensor& weight, Tensor& codes) {
  static constexpr Operator first{"bitsandbytes.quantize_4bit.default", OperatorKind::pointwise};
  static constexpr Operator second{"bitsandbytes.quantize_blockwise.default",
                                   OperatorKind::pointwise};
  const Tensor whole =
      to(s, contiguous(s, weight), settings_.quantized_from.value_or(weight.dtype()));
  const std::int64_t elements = whole.numel();
  const Device device = whole.device();
  Tensor absmax = empty(s, {blocks_of(elements, block_elements)}, {Dtype::float32, device});
  const Tensor packed = empty(s, {(elements + 1) / (2 * size_of(settings_.storage_dtype).count), 1},
                              {settings_.storage_dtype, device});
  dispatched(s, first, {&whole}, {&absmax, &packed});
  code_ = code_of_4bit(s, device);
  if (!settings_.double_quantization) {
    absmax_ = absmax;
    return packed;
  }
  offset_ = mean(s, absmax);
  Tensor centred = sub(s, absmax, offset_);
  if (!codes) codes = tensor(s, {256}, {Dtype::float32, device});
  second_absmax_ =
      empty(s, {blocks_of(centred.numel(), second_block_elements)}, {Dtype::float32, device});
  absmax_ = empty_like(s, centred, Dtype::uint8);
  dispatched(s, second, {&centred, &codes}, {&absmax_, &second_absmax_});
  second_code_ = clone(s, codes);
  centred.reset();
  absmax.reset();
  return packed;
}

Tensor QuantizedLayer::quantize_int8(Session& s, const Tensor& weight) {
  // Int8Params(value.to("cpu")).to(device): the weight comes back in float16.
  const Tensor half = empty(s, shape_, {Dtype::float16, weight.device()});
  auto [scales, packed] = quantized_rows(s, half);
  scales_ = std::move(scales);
  return std::move(packed);
}

/// functional.py, dequantize_4bit.
Tensor QuantizedLayer::dequantize_4bit(Session& s, const Tensor& packed) const {
  static constexpr Operator first{"bitsandbytes.dequantize_4bit.default", OperatorKind::pointwise};
  static constexpr Operator second{"bitsandbytes.dequantize_blockwise.default",
                                   OperatorKind::pointwise};
  Tensor absmax = absmax_;
  if (settings_.double_quantization) {
    absmax = empty_like(s, absmax_, Dtype::float32);
    dispatched(s, second, {&absmax_, &second_absmax_, &second_code_}, {&absmax});
    add_(s, absmax, offset_);
  }
  Tensor result = empty(s, shape_, like(packed, dtype_));
  dispatched(s, first, {&packed, &absmax}, {&result});
  return result;
}

Tensor QuantizedLayer::dequantized(Session& s, const Tensor& packed) const {
  if (is_4bit()) return dequantize_4bit(s, packed);
  if (settings_.kind == QuantizationKind::gptq) return t(s, dequantize_gptq(s, packed));
  if (settings_.kind == QuantizationKind::awq) return t(s, dequantize_awq(s, packed));
  // int8_vectorwise_dequant: weight * scales.view(-1, 1) * (1 / 127).
  return mul(s, mul(s, packed, view(s, scales_, {-1, 1})), any_factor);
}

Tensor QuantizedLayer::dequantized_in(Session& s, const Tensor& packed,
                                      DequantizeBuffers& buffers) const {
  static constexpr Operator first{"bitsandbytes.dequantize_4bit.out", OperatorKind::pointwise};
  static constexpr Operator second{"bitsandbytes.dequantize_blockwise.out",
                                   OperatorKind::pointwise};
  const std::int64_t elements = shape_[0] * shape_[1], scales = absmax_.numel();
  if (!buffers.weight || buffers.weight.dtype() != dtype_)
    buffers = {empty(s, {elements}, like(packed, dtype_)),
               empty(s, {scales}, like(packed, Dtype::float32))};
  // resize_: the larger memory is there before the smaller one goes.
  if (buffers.weight.numel() < elements)
    buffers.weight = empty(s, {elements}, like(buffers.weight));
  if (buffers.absmax.numel() < scales) buffers.absmax = empty(s, {scales}, like(buffers.absmax));
  const NoGrad no_grad(s);
  Tensor weight = view(s, slice(s, buffers.weight, 0, 0, elements), shape_);
  Tensor absmax = absmax_;
  if (settings_.double_quantization) {
    absmax = slice(s, buffers.absmax, 0, 0, scales);
    dispatched(s, second, {&absmax_, &second_absmax_, &second_code_}, {&absmax});
    add_(s, absmax, offset_);
  }
  dispatched(s, first, {&packed, &absmax}, {&weight});
  return weight;
}

QuantizedLayer::Copy QuantizedLayer::copied(Session& s, const Module& module) const {
  Copy copy;
  const auto copy_state = [&] {
    for (const auto& [name, tensor] : state()) copy.tensors.push_back(deep_copied(s, tensor));
  };
  // Of the weight, then of the module, which keeps the state, too.
  copy_state();
  copy.packed = deep_copied(s, module.parameters[0].tensor);
  for (std::size_t i = 1; i < module.parameters.size(); ++i)
    if (module.parameters[i].tensor) copy.tensors.push_back(clone(s, module.parameters[i].tensor));
  copy_state();
  return copy;
}

/// backends/cuda/ops.py, gemm_4bit: a kernel of its own, or the weight dequantised and F.linear.
Tensor QuantizedLayer::gemm_4bit(Session& s, const Tensor& x, const Tensor& packed,
                                 const Tensor& bias) const {
  static constexpr Operator own{"bitsandbytes.gemm_4bit.default", OperatorKind::matmul};
  static constexpr Operator first{"bitsandbytes.dequantize_4bit.out", OperatorKind::pointwise};
  static constexpr Operator second{"bitsandbytes.dequantize_blockwise.out",
                                   OperatorKind::pointwise};
  if (settings_.quantized_from) {
    // Before release 0.50: no kernel of its own, and the weight in two dtypes for a moment.
    const Tensor cast = to(s, dequantize_4bit(s, packed), x.dtype());
    return linear(s, x, cast, bias);
  }
  const std::int64_t in = x.size(-1);
  const Gemm4bit product{.compute_capability = s.settings.compute_capability,
                         .dtype = x.dtype(),
                         .rows = x.numel() / in,
                         .out = shape_[0],
                         .in = in};
  if (uses_own_kernel(product)) {
    const Tensor rows = contiguous(s, x);
    Dims sizes = x.sizes();
    sizes[-1] = shape_[0];
    Tensor result = empty(s, sizes, like(x));
    dispatched(s, own, {&rows, &packed, &absmax_, &bias}, {&result},
               2 * product.rows * product.out * product.in);
    return result;
  }
  Tensor absmax = absmax_, unscaled;
  if (settings_.double_quantization) {
    unscaled = empty_like(s, absmax_, Dtype::float32);
    dispatched(s, second, {&absmax_, &second_absmax_, &second_code_}, {&unscaled});
    absmax = add(s, unscaled, offset_);
  }
  Tensor weight = empty(s, shape_, like(x));
  dispatched(s, first, {&packed, &absmax}, {&weight});
  Tensor result = linear(s, x, weight, bias);
  const LetGo let_go{absmax, unscaled, weight};
  return result;
}

/// autograd/_functions.py, matmul_4bit and MatMul4Bit. Before 0.43.2 `ctx.tensors` kept x: an
/// attribute of the node, which the end of its backward does not let go.
Tensor QuantizedLayer::matmul_4bit(Session& s, Tensor x, const Tensor& packed,
                                   const Tensor& bias) const {
  const LetGo let_go{x};
  const Tensor column = view(s, packed, {-1, 1});
  const bool needs_grad = s.grad_enabled && (x.requires_grad() || (bias && bias.requires_grad()));
  if (!needs_grad) return gemm_4bit(s, x, column, bias);
  const Tensor kept = settings_.keeps_inputs ? x : Tensor();
  return apply_function(
             s, "MatMul4BitBackward", {x, column, bias},
             [&](Session& in, const NodeRef&) -> Tensors {
               return {gemm_4bit(in, x, column, bias)};
             },
             [this, column, kept](Session& in, Node& node, Tensors& gradients) -> Tensors {
               static_cast<void>(kept);
               Tensors results(3);
               const Tensor& gradient = gradients[0];
               // Over the first dimension alone: autograd sums the others.
               if (node.needs(2)) results[2] = sum(in, gradient, {0});
               if (node.needs(0)) {
                 Tensor weight = dequantize_4bit(in, column);
                 weight = to(in, std::move(weight), gradient.dtype());
                 results[0] = matmul(in, gradient, std::move(weight));
               }
               return results;
             })
      .front();
}

namespace {

Tensor float_product(Session& s, const Tensor& rows, const Tensor& packed) {
  const Tensor wide_rows = to(s, rows, Dtype::float32);
  const Tensor wide_weight = to(s, packed, Dtype::float32);
  return matmul(s, wide_rows, t(s, wide_weight));
}

}  // namespace

/// The forward of autograd/_functions.py, MatMul8bitLt, for inputs without outlier columns.
Tensor QuantizedLayer::int8_product(Session& s, Tensor x, const Tensor& packed,
                                    const Tensor& bias) const {
  static constexpr Operator product{"bitsandbytes.int8_linear_matmul.default",
                                    OperatorKind::matmul};
  static constexpr Operator dequantize{"bitsandbytes.int8_mm_dequant.default",
                                       OperatorKind::pointwise};
  Tensor scales, rows, columns, outliers;
  {
    const Tensor half = to(s, x, Dtype::float16);
    std::tie(scales, rows) = quantized_rows(s, half);
    if (settings_.outlier_threshold > 0) {
      outliers = compare(s, Comparison::ge, abs(s, half), settings_.outlier_threshold);
      item(s, any(s, outliers));
      columns = empty(s, {0}, {Dtype::int64, x.device()});
      outliers.reset();
    }
  }
  const Tensor wide = empty(s, {x.size(0), shape_[0]}, like(x, Dtype::int32));
  // cuBLASLt multiplies no integers whose inner dimension is no multiple of 4.
  constexpr std::int64_t inner_multiple = 4;
  if (x.size(1) % inner_multiple == 0)
    dispatched(s, product, {&rows, &packed}, {&wide}, 2 * x.numel() * shape_[0]);
  else
    copy_(s, wide, to(s, float_product(s, rows, packed), Dtype::int32));
  Tensor narrow = empty_like(s, wide, Dtype::float16);
  dispatched(s, dequantize, {&wide, &scales, &scales_}, {&narrow});
  if (bias && bias.dtype() != Dtype::float16) add_(s, narrow, bias);
  Tensor result = to(s, std::move(narrow), x.dtype());
  const LetGo let_go{rows, scales};
  return result;
}

/// MatMul8bitLt keeps x with its context, past the backward, until the graph goes.
Tensor QuantizedLayer::matmul_int8(Session& s, const Tensor& x, const Tensor& packed,
                                   const Tensor& bias) const {
  const Dims sizes = x.sizes();
  Tensor kept;
  if (any_requires_grad(s, std::array{&x})) {
    const NoGrad no_grad(s);
    kept = reshape(s, x, {-1, x.size(-1)});
  }
  return apply_function(
             s, "MatMul8bitLtBackward", {x, packed, bias},
             [&](Session& in, const NodeRef&) -> Tensors {
               const Tensor rows = kept ? kept : reshape(in, x, {-1, x.size(-1)});
               Tensor output = int8_product(in, rows, packed, bias);
               Dims wanted = sizes;
               wanted[-1] = shape_[0];
               return {reshape(in, std::move(output), wanted)};
             },
             [this, kept, packed, sizes](Session& in, Node& node, Tensors& gradients) -> Tensors {
               Tensors results(3);
               Tensor gradient = gradients[0];
               if (node.needs(2)) results[2] = sum(in, gradient, {0});
               gradient =
                   contiguous(in, reshape(in, std::move(gradient), {-1, gradients[0].size(-1)}));
               if (node.needs(0)) {
                 const Dtype dtype = kept.dtype();
                 Tensor weight = to(in, packed, {.dtype = dtype, .copy = true});
                 mul_(in, weight, mul(in, unsqueeze(in, scales_, 1), any_factor));
                 results[0] = view(in, matmul(in, to(in, gradient, dtype), weight), sizes);
               }
               return results;
             })
      .front();
}

Tensor QuantizedLayer::forward(Session& s, Module& module, Tensor x) const {
  const LetGo let_go{x};
  if (is_packed()) return forward_packed(s, module, x);
  const Dtype given = x.dtype();
  const Tensor packed = module.parameters[0].tensor;
  Tensor bias = module.parameters.size() > 1 ? module.parameters[1].tensor : Tensor();
  const auto cast_bias = [&](Dtype dtype) {
    if (!bias || bias.dtype() == dtype) return;
    const NoGrad no_grad(s);
    bias.set_data(to(s, bias, dtype));
  };
  if (!is_4bit()) {
    cast_bias(given);
    return matmul_int8(s, x, packed, bias);
  }
  x = to(s, std::move(x), settings_.compute_dtype);
  cast_bias(settings_.compute_dtype);
  Tensor result = matmul_4bit(s, x, packed, bias);
  return to(s, std::move(result), given);
}

}  // namespace shardscope::eager
