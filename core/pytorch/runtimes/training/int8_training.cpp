#include "core/pytorch/runtimes/training/int8_training.h"

#include <utility>

#include "core/base/error.h"
#include "core/pytorch/engine/aten/matmul.h"
#include "core/pytorch/engine/aten/selection.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

constexpr Operator int8_product{"torchao.scaled_int8_mm.default", OperatorKind::matmul};

/// Integers of a weight, and a scale for each row.
struct Int8Rows {
  Tensor data, scales;
};

/// quantize_int8_rowwise of a matrix; amax of rows allocates as their maximum alone.
Int8Rows quantized_rows(Session& s, const Tensor& matrix) {
  const NoGrad no_grad(s);
  Int8Rows rows;
  rows.scales = squeeze(s, max_of_rows(s, abs(s, matrix)).first, 1);
  rows.scales = div(s, std::move(rows.scales), 127);
  const Tensor inverse =
      div(s, ones_like(s, rows.scales), clamp(s, to(s, rows.scales, Dtype::float32)));
  Tensor scaled = mul(s, to(s, matrix, Dtype::float32), unsqueeze(s, inverse, 1));
  scaled = floor(s, scaled);  // round
  rows.data = to(s, clamp(s, scaled), Dtype::int8);
  return rows;
}

/// Int8QuantizedTrainingLinearWeight: the integers' memory under the weight's own dtype.
Tensor shown_as(const Tensor& data, Dtype dtype) {
  Tensor shown = alias_of(data, data.sizes(), data.strides(), 0);
  shown->layout.dtype = dtype;
  return shown;
}

Tensor flat_rows(Session& s, const Tensor& states) {
  return view(s, states, {-1, states.size(-1)});
}

/// _Int8WeightOnlyLinear.
Module::Forward weight_only_linear(const Int8Rows& kept) {
  return [kept](Session& s, Module& me, const Arguments& arguments) -> Tensors {
    const Tensor& weight = me.parameter("weight");
    return apply_function(
        s, "_Int8WeightOnlyLinearBackward", {arguments[0], weight},
        [&](Session& in, const NodeRef& node) -> Tensors {
          Tensor product = matmul(in, arguments[0], to(in, t(in, kept.data), arguments[0].dtype()));
          if (node) node->save(in, "input", arguments[0]);
          return {mul(in, std::move(product), kept.scales)};
        },
        [kept](Session& in, Node& node, Tensors& gradients) -> Tensors {
          const Tensor input = node.saved(in, "input");
          const Tensor& gradient = gradients[0];
          Tensor of_input;
          {
            Tensor scaled = mul(in, gradient, kept.scales);
            of_input = matmul(in, std::move(scaled), to(in, kept.data, gradient.dtype()));
          }
          Tensor of_weight = mm(in, t(in, flat_rows(in, gradient)), flat_rows(in, input));
          return {std::move(of_input), std::move(of_weight)};
        });
  };
}

/// _dynamic_int8_mm: a (..., k) by b (k, n), whose columns get the scales.
Tensor dynamic_product(Session& s, const Tensor& a, const Tensor& b) {
  const Int8Rows left = quantized_rows(s, flat_rows(s, a));
  const Int8Rows right = quantized_rows(s, t(s, b));
  const Tensor left_data = contiguous(s, left.data), right_data = contiguous(s, right.data);
  const Tensor out = allocate(s, like(a), {left_data.size(0), right_data.size(0)});
  dispatched(s, int8_product, {&left_data, &right_data, &left.scales, &right.scales}, {&out},
             2 * left_data.numel() * right_data.size(0));
  Dims sizes = a.sizes();
  sizes[-1] = out.size(1);
  return view(s, out, sizes);
}

/// _Int8MixedPrecisionTrainingLinearFunction.
Tensors int8_products_linear(Session& s, Module& me, const Arguments& arguments) {
  const Tensor& weight = me.parameter("weight");
  return apply_function(
      s, "_Int8MixedPrecisionTrainingLinearFunctionBackward", {arguments[0], weight},
      [&](Session& in, const NodeRef& node) -> Tensors {
        Tensor product = dynamic_product(in, arguments[0], t(in, weight));
        // Saved when forward returns: a recomputation that stops at what is saved last has made the
        // product.
        if (node) {
          node->save(in, "input", arguments[0]);
          node->save(in, "weight", weight);
        }
        return {std::move(product)};
      },
      [](Session& in, Node& node, Tensors& gradients) -> Tensors {
        const Tensor input = node.saved(in, "input"), kept = node.saved(in, "weight");
        Tensor of_input = dynamic_product(in, gradients[0], kept);
        const Tensor gradient = flat_rows(in, gradients[0]);
        Tensor of_weight = t(in, dynamic_product(in, t(in, flat_rows(in, input)), gradient));
        return {std::move(of_input), std::move(of_weight)};
      });
}

bool is_in_a_layer(const Module& module) {
  return module.name.find(".layers.") != std::string::npos || module.name.starts_with("layers.");
}

}  // namespace

void convert_to_int8_training(Session& s, Module& root, Int8Training kind) {
  bool any = false;
  for (Module* module : modules_of(root)) {
    if (module->class_name != "Linear" || !is_in_a_layer(*module)) continue;
    any = true;
    if (kind == Int8Training::products) {
      module->forward = int8_products_linear;
      continue;
    }
    const Tensor& weight = module->parameter("weight");
    const Int8Rows kept = quantized_rows(s, weight);
    weight.set_data(shown_as(kept.data, weight.dtype()));
    module->forward = weight_only_linear(kept);
  }
  if (!any)
    throw Error({.where = "training in int8",
                 .what = "the model has no layers with linear parts that torchao converts",
                 .way_out = "leave it out: the run is the same without it"});
}

}  // namespace shardscope::eager
