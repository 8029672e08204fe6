#include "core/pytorch/runtimes/common/float8.h"

#include <algorithm>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/pytorch/engine/aten/foreach.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/selective.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager::parallel {
namespace {

constexpr Dtype eight_bits = Dtype::uint8;
constexpr double any_factor = 0.5;

Tensor pointwise(Session& s, const Operator& op, const Tensor& self) {
  Tensor result = allocate_like(s, self, self.dtype());
  dispatched(s, op, {&self}, {&result});
  return result;
}

/// The largest of all, or of each row along `axis`.
Tensor largest(Session& s, const Tensor& self, std::optional<int> axis) {
  static constexpr Operator all_op{"aten.max.default", OperatorKind::reduction};
  static constexpr Operator rows_op{"aten.amax.default", OperatorKind::reduction};
  if (axis) {
    Dims sizes = self.sizes();
    sizes[*axis] = 1;
    Tensor result = allocate(s, like(self), sizes);
    dispatched(s, rows_op, {&self}, {&result});
    return result;
  }
  Tensor result = allocate(s, like(self), {});
  const Tensor in_order = contiguous(s, self);
  dispatched(s, all_op, {&in_order}, {&result});
  return result;
}

/// _round_scale_down_to_power_of_2.
Tensor rounded(Session& s, const Tensor& scale) {
  static constexpr Operator log2_op{"aten.log2.default", OperatorKind::pointwise};
  static constexpr Operator floor_op{"aten.floor.default", OperatorKind::pointwise};
  static constexpr Operator exp2_op{"aten.exp2.default", OperatorKind::pointwise};
  Tensor result = pointwise(s, log2_op, scale);
  result = pointwise(s, floor_op, result);
  return pointwise(s, exp2_op, result);
}

/// DTensor's clamp() of a largest value that each of `ranks` has of its own part.
Tensor clamped_over(Session& s, const MeshAxisContext& ranks, const Tensor& own) {
  const Tensor most = all_reduce(s, *ranks.pending, *ranks.group, own, "max");
  ranks.pending->wait(s, most);
  return clamp(s, most);
}

/// amax_to_scale: 448 / largest in float64, then float32. `ranks`: those whose parts count, too.
Tensor scale_of(Session& s, const Tensor& most, bool by_rows, const MeshAxisContext* ranks) {
  const Tensor wide = to(s, most, Dtype::float64);
  Tensor quotient;
  {
    const Tensor clamped = ranks ? clamped_over(s, *ranks, wide) : clamp(s, wide);
    const Tensor inverse = reciprocal(s, clamped);
    quotient = mul(s, inverse, any_factor);
  }
  quotient = to(s, quotient, Dtype::float32);
  if (by_rows) quotient = rounded(s, quotient);
  return quotient;
}

/// hp_tensor_and_scale_to_float8: multiplied in float32, cut at the ends, cast.
Tensor cast_with(Session& s, const Tensor& self, const Tensor& scale) {
  static constexpr Operator cast_op{"aten._to_copy.default", OperatorKind::copy};
  Tensor scaled;
  {
    const Tensor wide = to(s, self, Dtype::float32);
    scaled = mul(s, wide, scale);
  }
  const Tensor cut = clamp(s, scaled);
  Tensor result = allocate_like(s, cut, eight_bits);
  dispatched(s, cast_op, {&cut}, {&result});
  return result;
}

/// hp_tensor_to_float8_dynamic; `axis` of one scale for each row.
Float8Tensor cast(Session& s, const Tensor& self, std::optional<int> axis,
                  const MeshAxisContext* ranks) {
  Tensor most;
  {
    const Tensor magnitudes = abs(s, self);
    most = largest(s, magnitudes, axis ? std::optional(wrap_dim(*axis, self.dim())) : std::nullopt);
  }
  Tensor scale = scale_of(s, most, axis.has_value(), ranks);
  most.reset();
  Tensor data = cast_with(s, self, scale);
  return {.data = std::move(data), .scale = std::move(scale), .by_rows = axis.has_value()};
}

bool is_row_major(const Tensor& matrix) {
  return matrix.strides()[0] > matrix.strides()[1] && matrix.strides()[1] == 1;
}

Float8Tensor turned(Session& s, const Float8Tensor& self) {
  return {.data = t(s, self.data),
          .scale = self.by_rows ? t(s, self.scale) : self.scale,
          .by_rows = self.by_rows};
}

/// pad_tensor_for_matmul: torch.nn.functional.pad copies even where there is nothing to fill.
Tensor padded(Session& s, const Tensor& data, int dim) {
  static constexpr Operator op{"aten.constant_pad_nd.default", OperatorKind::copy};
  constexpr std::int64_t alignment = 16;
  Dims sizes = data.sizes();
  sizes[dim] = (sizes[dim] + alignment - 1) / alignment * alignment;
  if (sizes[dim] == data.size(dim)) return clone(s, data);
  Tensor result = allocate(s, like(data), sizes);
  dispatched(s, op, {&data}, {&result});
  return result;
}

/// A layer's recipe, how its products are made, how its weight comes in and how it is split.
struct Layer {
  Float8Recipe recipe;
  bool pads;
  const Float8Shard* shard;
  const Float8Split* split;
};

/// As matrices: input (tokens, in), transpose of the weight (in, out), gradient (tokens, out).
enum class Operand : std::uint8_t { input, transpose, gradient };

/// The dimension along which ranks have parts of an operand; none: each has all of it.
std::optional<int> split_dim(Float8Style style, Operand operand) {
  constexpr int of_rows = 0, of_columns = 1;
  if (style == Float8Style::columns && operand != Operand::input) return of_columns;
  if (style == Float8Style::rows && operand == Operand::input) return of_columns;
  if (style == Float8Style::rows && operand == Operand::transpose) return of_rows;
  return std::nullopt;
}

/// `axis`: 0, or -1 for the last; none by tensorwise.
std::optional<int> axis_of(Float8Recipe recipe, int axis) {
  return recipe == Float8Recipe::rowwise ? std::optional(axis) : std::nullopt;
}

/// A cast of one that is not cast already, with a scale for each row along `axis` by rowwise.
Float8Tensor cast_operand(Session& s, const Layer& layer, Operand operand, const Tensor& self,
                          int axis) {
  if (const auto& known = self->float8())
    return {.data = self, .scale = known->scale, .by_rows = false};
  const std::optional<int> along = axis_of(layer.recipe, axis);
  const std::optional<int> split = split_dim(layer.split->style, operand);
  const bool in_parts = split && (!along || (*split == 0) == (*along == 0));
  return cast(s, self, along, in_parts ? &layer.split->axis : nullptr);
}

/// What is computed in where the result is to be `dtype`: by rows there is no other kernel.
Dtype dtype_of_product(const Layer& layer, Dtype dtype) {
  const bool by_rows = layer.recipe == Float8Recipe::rowwise;
  return by_rows && (dtype == Dtype::float16 || dtype == Dtype::float32) ? Dtype::bfloat16 : dtype;
}

/// As torch._scaled_mm checks. Source: torch 2.15 _meta_registrations.py, _check_scaled_mm_sizes.
void check_sizes(const Tensor& a, const Tensor& b) {
  constexpr std::int64_t divisor = 16;
  if (a.size(1) % divisor == 0 && b.size(0) % divisor == 0 && b.size(1) % divisor == 0) return;
  throw Error(
      {.where = "float8",
       .what = fmt::format("PyTorch multiplies in 8 bits where 16 divides the inner size and the "
                           "columns, and a rank has a product of {} x {} by {} x {}",
                           a.size(0), a.size(1), b.size(0), b.size(1)),
       .way_out = "give another --mesh, --batch or --seq, or leave float8 out"});
}

/// float8_mm: row-major by column-major, as the tensor cores take them.
Tensor scaled_product(Session& s, const Layer& layer, const Float8Tensor& a, const Float8Tensor& b,
                      Dtype dtype, bool fast_accumulation) {
  static constexpr Operator op{"aten._scaled_mm.default", OperatorKind::matmul};
  Tensor a_data = a.data, b_data = b.data;
  if (Pending* pending = layer.split->axis.pending) pending->wait(s, a_data);
  if (layer.pads) {
    a_data = padded(s, a_data, 1);
    b_data = padded(s, b_data, 0);
  }
  check_sizes(a_data, b_data);
  if (!is_row_major(a_data)) a_data = contiguous(s, a_data);
  if (is_row_major(b_data)) b_data = t(s, contiguous(s, t(s, b_data)));
  Tensor a_inverse = reciprocal(s, a.scale);
  Tensor b_inverse = reciprocal(s, b.scale);
  Tensor afterwards;
  if (a.by_rows && b.by_rows && !fast_accumulation) {
    afterwards = mul(s, a_inverse, b_inverse);
    a_inverse = new_ones(s, a_inverse, {});
    b_inverse = new_ones(s, a_inverse, {});
  }
  Tensor result = allocate(s, {dtype_of_product(layer, dtype), a_data.device()},
                           {a_data.size(0), b_data.size(1)});
  dispatched(s, op, {&a_data, &b_data, &a_inverse, &b_inverse}, {&result},
             2 * a_data.size(0) * a_data.size(1) * b_data.size(1));
  if (afterwards.defined()) mul_(s, result, afterwards);
  const LetGo let_go{a_inverse, b_inverse, afterwards, a_data, b_data};  // as frames are left
  return to(s, std::move(result), dtype);
}

/// torch.mm of two Float8TrainingTensors. Source: torchao/float8/float8_linear.py,
/// matmul_with_hp_or_float8_args; float8_ops.py, float8_mm.
Tensor product(Session& s, const Layer& layer, const Float8Tensor& a, const Float8Tensor& b,
               Dtype dtype, bool fast_accumulation) {
  static constexpr Operator op{"aten.mm.default", OperatorKind::matmul};
  return as_one_operator(s, op,
                         [&] { return scaled_product(s, layer, a, b, dtype, fast_accumulation); });
}

Float8Tensor as_rows(Session& s, const Float8Tensor& self) {
  const std::int64_t columns = self.data.size(-1);
  return {.data = reshape(s, self.data, {-1, columns}),
          .scale = self.by_rows ? reshape(s, self.scale, {-1, 1}) : self.scale,
          .by_rows = self.by_rows};
}

/// A weight's transpose in 8 bits, with scales along `axis`; one that was gathered in 8 bits as it
/// is.
Float8Tensor cast_transposed(Session& s, const Tensor& transpose, const Layer& layer, int axis) {
  if (transpose.dtype() == eight_bits)
    return {.data = transpose, .scale = layer.shard->scale(), .by_rows = false};
  return cast_operand(s, layer, Operand::transpose, transpose, axis);
}

/// matmul_with_hp_or_float8_args.backward. Names live as long as Python's do.
Tensors linear_backward(Session& s, const Layer& layer, const Tensor& gradient, const Tensor& input,
                        const Tensor& transpose) {
  const Dtype dtype = gradient.shown_dtype();
  const Tensor rows = reshape(s, gradient, {-1, gradient.size(-1)});
  Float8Tensor rows_by_rows = cast_operand(s, layer, Operand::gradient, rows, -1);
  Float8Tensor across = cast_transposed(s, transpose, layer, -1);
  Tensor of_input = product(s, layer, rows_by_rows, turned(s, across), dtype, false);
  of_input = reshape(s, of_input, input.sizes());
  const Tensor input_rows = reshape(s, input, {-1, input.size(-1)});
  Float8Tensor rows_by_columns = cast_operand(s, layer, Operand::gradient, rows, 0);
  Float8Tensor input_by_columns = cast_operand(s, layer, Operand::input, input_rows, 0);
  Tensor of_weight = product(s, layer, turned(s, rows_by_columns), input_by_columns, dtype, false);
  const LetGo of_weights{rows_by_columns.data, rows_by_columns.scale, input_by_columns.data,
                         input_by_columns.scale};
  const LetGo of_inputs{rows_by_rows.data, rows_by_rows.scale, across.data, across.scale};
  return {std::move(of_input), t(s, of_weight)};
}

bool has_parameter(const Module& module, std::string_view name) {
  return std::ranges::any_of(module.parameters, [&](const Module::NamedTensor& own) {
    return own.name == name && own.tensor.defined();
  });
}

Tensor linear_forward(Session& s, const Layer& layer, const Tensor& input,
                      const Tensor& transpose) {
  Float8Tensor left = cast_operand(s, layer, Operand::input, input, -1);
  Float8Tensor right = cast_transposed(s, transpose, layer, 0);
  const LetGo let_go{left.data, left.scale, right.data, right.scale};
  const Tensor result = product(s, layer, as_rows(s, left), right, input.shown_dtype(), true);
  Dims sizes = input.sizes();
  sizes[-1] = transpose.size(1);
  return reshape(s, result, sizes);
}

}  // namespace

void convert_to_float8(Module& linear, const Float8Settings& settings, const Float8Shard* shard,
                       const Float8Split& split) {
  linear.class_name = "Float8Linear";
  const Layer layer{settings.recipe, settings.pad_inner_dim, shard, &split};
  const bool has_bias = has_parameter(linear, "bias");
  linear.forward = [layer, has_bias](Session& s, Module& me,
                                     const Arguments& arguments) -> Tensors {
    const Tensor input = s.autocast.enabled ? to(s, arguments[0], s.autocast.dtype) : arguments[0];
    const Tensor transpose = t(s, me.parameter("weight"));
    Tensors outputs = apply_function(
        s, "matmul_with_hp_or_float8_argsBackward", {input, transpose},
        [&](Session& in, const NodeRef& node) -> Tensors {
          Tensor result = linear_forward(in, layer, input, transpose);
          // ctx.save_for_backward saves when forward returns: a recomputation that stops at what
          // is saved last has made the product.
          if (node) {
            node->save(in, "input", input);
            node->save(in, "transpose", transpose);
          }
          return {std::move(result)};
        },
        [layer](Session& in, Node& node, Tensors& gradients) -> Tensors {
          return linear_backward(in, layer, gradients[0], node.saved(in, "input"),
                                 node.saved(in, "transpose"));
        });
    if (!has_bias) return outputs;
    return {add(s, outputs[0], to(s, me.parameter("bias"), outputs[0].dtype()))};
  };
}

namespace {

/// The data of a cast, with its facts.
Tensor in_float8(Session& s, const Tensor& self, const MeshAxisContext* splits,
                 std::string_view format) {
  Float8Tensor made = cast(s, self, std::nullopt, splits);
  made.data->with_extras().float8 = std::make_shared<Float8Facts>(
      Float8Facts{.scale = made.scale, .original = self.dtype(), .format = format});
  return made.data;
}

}  // namespace

Tensor cast_input(Session& s, const Tensor& input, const MeshAxisContext* splits) {
  return apply_function(
      s, "_ToFloat8ConstrFuncBackward", {input},
      [&](Session& in, const NodeRef&) -> Tensors {
        return {in_float8(in, input, splits, "float8_e4m3fn")};
      },
      [](Session&, Node&, Tensors& gradients) -> Tensors { return {std::move(gradients[0])}; })[0];
}

Tensor cast_gradient(Session& s, const Tensor& output, const MeshAxisContext* splits) {
  return apply_function(
      s, "NoopFwToFloat8BwDynamicBackward", {output},
      [&](Session&, const NodeRef&) -> Tensors { return {output}; },
      [ranks = splits ? std::optional(*splits) : std::nullopt](Session& in, Node&,
                                                               Tensors& gradients) -> Tensors {
        return {in_float8(in, gradients[0], ranks ? &*ranks : nullptr, "float8_e5m2")};
      })[0];
}

Tensor Float8Shard::cast(Session& s, const Tensor& shard) {
  const NoGrad no_grad(s);
  if (precomputed_.defined()) {
    next_scale_ = precomputed_;
    return cast_with(s, shard, next_scale_);
  }
  Tensor most;
  {
    const Tensor magnitudes = abs(s, shard);
    most = largest(s, magnitudes, std::nullopt);
  }
  most = all_reduce(s, *axis_.pending, *axis_.group, most, "max");
  axis_.pending->wait(s, most);
  next_scale_ = scale_of(s, most, false, nullptr);
  most.reset();
  return cast_with(s, shard, next_scale_);
}

void precompute_scales(Session& s, const std::vector<MeshAxisContext>& axes, const Tensors& shards,
                       const std::vector<Float8Shard*>& targets) {
  const NoGrad no_grad(s);
  if (shards.empty()) return;
  Tensor all;
  {
    const Tensors norms = foreach_norm(s, shards);
    all = stack(s, norms);
    for (const MeshAxisContext& axis : axes) {
      all = all_reduce(s, *axis.pending, *axis.group, all, "max");
      axis.pending->wait(s, all);
    }
  }
  all = clamp(s, all);
  all = to(s, all, Dtype::float64);
  all = mul(s, reciprocal(s, all), any_factor);
  all = to(s, all, Dtype::float32);
  for (std::size_t i = 0; i < targets.size(); ++i)
    targets[i]->set_precomputed_scale(select(s, all, 0, static_cast<std::int64_t>(i)));
}

}  // namespace shardscope::eager::parallel
