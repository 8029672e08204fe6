#include "core/pytorch/engine/adapters/unsloth_lora.h"

#include <utility>

#include "core/pytorch/engine/adapters/unsloth_kernels.h"
#include "core/pytorch/engine/aten/matmul.h"
#include "core/pytorch/engine/aten/matmul_out.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

using Buffers = std::shared_ptr<DequantizeBuffers>;

Dims with_last(Dims sizes, std::int64_t last) {
  sizes[-1] = last;
  return sizes;
}

/// The weight as forwards have it: dequantised into memory that all layers share.
Tensor buffered_weight(Session& s, const AdaptedLinear& linear, const Buffers& buffers) {
  return linear.quantized ? linear.quantized->dequantized_in(s, linear.weight, *buffers)
                          : linear.weight;
}

/// matmul_lora of rows.
Tensor forward_product(Session& s, const Tensor& rows, const AdaptedLinear& linear,
                       const Buffers& buffers) {
  Tensor out;
  {
    const Tensor weight = buffered_weight(s, linear, buffers);
    out = matmul(s, rows, t(s, weight));
  }
  const Dtype dtype = rows.dtype();
  const Tensor reduced = matmul(s, rows, to(s, t(s, linear.a), dtype));
  addmm_(s, out, reduced, to(s, t(s, linear.b), dtype));
  return out;
}

/// The adapter's parts in the dtype of the products, transposed.
struct Across {
  Tensor a, b;  ///< in x rank, rank x out
};
Across across(Session& s, const AdaptedLinear& linear, Dtype dtype) {
  const Tensor a = to(s, linear.a, dtype), b = to(s, linear.b, dtype);
  return {t(s, a), t(s, b)};
}

/// Gradients of lora_A and lora_B from what went in and the gradient of what came out.
struct AdapterGradients {
  Tensor a, b;
};
AdapterGradients empty_gradients(Session& s, const Across& parts) {
  return {empty_like(s, parts.a), empty_like(s, parts.b)};
}
void fill_gradients(Session& s, const AdapterGradients& into, const Across& parts,
                    const Tensor& input, const Tensor& gradient) {
  const Tensor input_across = t(s, input);
  addmm_(s, into.a, input_across, matmul(s, gradient, t(s, parts.b)));
  addmm_(s, into.b, matmul(s, t(s, parts.a), input_across), gradient);
}

/// The weight as backward has it: dequantised into memory of its own.
Tensor backward_weight(Session& s, const AdaptedLinear& linear) {
  return linear.quantized ? linear.quantized->dequantized(s, linear.weight) : linear.weight;
}

/// Adds the gradient through a layer to `sum`: through its weight, unless `sum` has that already,
/// and through its adapter.
void add_input_gradient(Session& s, const Tensor& sum, const AdaptedLinear& linear,
                        const Across& parts, const Tensor& gradient, bool through_weight) {
  if (through_weight) addmm_(s, sum, gradient, backward_weight(s, linear));
  addmm_(s, sum, matmul(s, gradient, t(s, parts.b)), t(s, parts.a));
}

/// torch.matmul(gradient, weight, out=into).
void product_over(Session& s, const Tensor& gradient, const AdaptedLinear& linear,
                  const Tensor& into) {
  mm_out(s, gradient, backward_weight(s, linear), into);
}

Tensors lora_backward(Session& s, Node& node, Tensors& gradients, const AdaptedLinear& linear) {
  const Tensor x = node.saved(s, "X");
  const Tensor dy = as_rows(s, gradients[0]);
  const Tensor rows = as_rows(s, x);
  const Across parts = across(s, linear, x.dtype());
  const AdapterGradients of_adapter = empty_gradients(s, parts);
  fill_gradients(s, of_adapter, parts, rows, dy);
  const Tensor dx = matmul(s, dy, backward_weight(s, linear));
  add_input_gradient(s, dx, linear, parts, dy, false);
  return {view(s, dx, x.sizes()), t(s, of_adapter.a), t(s, of_adapter.b)};
}

Tensors qkv_backward(Session& s, Node& node, Tensors& gradients, const AdaptedProjections& layers) {
  const Tensor x = node.saved(s, "X");
  const Tensor dq = as_rows(s, gradients[0]), dk = as_rows(s, gradients[1]),
               dv = as_rows(s, gradients[2]);
  const Tensor rows = as_rows(s, x);
  const Dtype dtype = x.dtype();
  const Across q = across(s, layers.query, dtype), k = across(s, layers.key, dtype),
               v = across(s, layers.value, dtype);
  const AdapterGradients of_q = empty_gradients(s, q), of_k = empty_gradients(s, k),
                         of_v = empty_gradients(s, v);
  fill_gradients(s, of_q, q, rows, dq);
  fill_gradients(s, of_k, k, rows, dk);
  fill_gradients(s, of_v, v, rows, dv);
  product_over(s, dq, layers.query, rows);
  add_input_gradient(s, rows, layers.query, q, dq, false);
  add_input_gradient(s, rows, layers.key, k, dk, true);
  add_input_gradient(s, rows, layers.value, v, dv, true);
  return {view(s, rows, x.sizes()),
          t(s, of_q.a),
          t(s, of_q.b),
          t(s, of_k.a),
          t(s, of_k.b),
          t(s, of_v.a),
          t(s, of_v.b)};
}

Tensors mlp_backward(Session& s, Node& node, Tensors& gradients, const AdaptedFeedForward& layers,
                     const Buffers& buffers) {
  const Tensor x = node.saved(s, "X");
  const Tensor rows = as_rows(s, x), dy = as_rows(s, gradients[0]);
  const Tensor e = as_rows(s, node.saved(s, "e")), g = as_rows(s, node.saved(s, "g"));
  const Dtype dtype = x.dtype();
  const Across gate = across(s, layers.gate, dtype), up = across(s, layers.up, dtype),
               down = across(s, layers.down, dtype);
  // matmul_lora(dY, downW.t(), downB, downA).
  Tensor dw;
  {
    const Tensor weight = buffered_weight(s, layers.down, buffers);
    dw = matmul(s, dy, weight);
  }
  add_input_gradient(s, dw, layers.down, down, dy, false);
  unsloth_swiglu_backward(s, dw, e, g);
  const Tensor &h = dw, &df = e, &de = g;
  const AdapterGradients of_down = empty_gradients(s, down), of_gate = empty_gradients(s, gate),
                         of_up = empty_gradients(s, up);
  fill_gradients(s, of_down, down, h, dy);
  fill_gradients(s, of_up, up, rows, df);
  fill_gradients(s, of_gate, gate, rows, de);
  product_over(s, df, layers.up, rows);
  add_input_gradient(s, rows, layers.up, up, df, false);
  add_input_gradient(s, rows, layers.gate, gate, de, true);
  return {view(s, rows, x.sizes()), t(s, of_gate.a), t(s, of_gate.b), t(s, of_up.a), t(s, of_up.b),
          t(s, of_down.a),          t(s, of_down.b)};
}

}  // namespace

Tensor unsloth_lora(Session& s, const Tensor& x, const AdaptedLinear& linear,
                    const Buffers& buffers) {
  const auto forward = [&](Session& in, const NodeRef& node) -> Tensors {
    const Tensor out = forward_product(in, as_rows(in, x), linear, buffers);
    if (node) node->save(in, "X", x);
    return {view(in, out, with_last(x.sizes(), out.size(-1)))};
  };
  const auto backward = [linear](Session& in, Node& node, Tensors& gradients) -> Tensors {
    return lora_backward(in, node, gradients, linear);
  };
  return apply_function(s, "LoRA_WBackward", {x, linear.a, linear.b}, forward, backward).front();
}

Tensors unsloth_lora_qkv(Session& s, const Tensor& x, const AdaptedProjections& projections,
                         const Buffers& buffers) {
  const auto& [query, key, value] = projections;
  const auto forward = [&](Session& in, const NodeRef& node) -> Tensors {
    const Tensor rows = as_rows(in, x);
    Tensors outputs;
    for (const AdaptedLinear* linear : {&projections.query, &projections.key, &projections.value})
      outputs.push_back(forward_product(in, rows, *linear, buffers));
    for (Tensor& output : outputs) output = view(in, output, with_last(x.sizes(), output.size(-1)));
    if (node) node->save(in, "X", x);
    return outputs;
  };
  const auto backward = [projections](Session& in, Node& node, Tensors& gradients) -> Tensors {
    return qkv_backward(in, node, gradients, projections);
  };
  return apply_function(s, "LoRA_QKVBackward",
                        {x, query.a, query.b, key.a, key.b, value.a, value.b}, forward, backward);
}

Tensor unsloth_lora_mlp(Session& s, const Tensor& x, const AdaptedFeedForward& layers,
                        const Buffers& buffers) {
  const auto forward = [&](Session& in, const NodeRef& node) -> Tensors {
    const Tensor rows = as_rows(in, x);
    const auto whole = [&](const Tensor& out) {
      return view(in, out, with_last(x.sizes(), out.size(-1)));
    };
    const Tensor e = whole(forward_product(in, rows, layers.gate, buffers));
    const Tensor g = whole(forward_product(in, rows, layers.up, buffers));
    const Tensor h = unsloth_swiglu(in, e, g);
    Tensor result = whole(forward_product(in, as_rows(in, h), layers.down, buffers));
    if (node) {
      node->save(in, "X", x);
      node->save(in, "e", e);
      node->save(in, "g", g);
    }
    return {std::move(result)};
  };
  const auto backward = [layers, buffers](Session& in, Node& node, Tensors& gradients) -> Tensors {
    return mlp_backward(in, node, gradients, layers, buffers);
  };
  const auto& [gate, up, down] = layers;
  return apply_function(s, "LoRA_MLPBackward", {x, gate.a, gate.b, up.a, up.b, down.a, down.b},
                        forward, backward)
      .front();
}

}  // namespace shardscope::eager
