#include "core/pytorch/runtimes/deepspeed/linear.h"

#include <utility>

#include "core/pytorch/engine/aten/matmul.h"
#include "core/pytorch/engine/autograd.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager::deepspeed {
namespace {

Tensor forward(Session& s, const Tensor& input, const Tensor& weight, const Tensor& bias) {
  if (input.dim() == 2 && bias) return addmm(s, bias, input, t(s, weight));
  const Tensor output = matmul(s, input, t(s, weight));
  return bias ? add_(s, output, bias) : output;
}

Tensor as_rows(Session& s, const Tensor& tensor) {
  return tensor.dim() > 2 ? reshape(s, tensor, {-1, tensor.size(-1)}) : tensor;
}

Tensor bias_gradient(Session& s, const Tensor& gradient) {
  Dims rows;
  for (int i = 0; i + 1 < gradient.dim(); ++i) rows.push_back(i);
  return sum(s, gradient, rows);
}

Tensors backward(Session& s, Node& node, Tensors& gradients) {
  const Tensor gradient = std::move(gradients.front());
  const Tensor input = node.saved(s, "input");
  const Tensor weight = node.saved(s, "weight");
  Tensors results(3);
  if (node.needs(0)) results[0] = matmul(s, gradient, weight);
  if (node.needs(1)) results[1] = matmul(s, t(s, as_rows(s, gradient)), as_rows(s, input));
  if (node.needs(2)) results[2] = bias_gradient(s, gradient);
  return results;
}

}  // namespace

Tensor zero3_linear(Session& s, const Tensor& input, const Tensor& weight, const Tensor& bias) {
  return apply_function(
             s, "LinearFunctionForZeroStage3Backward", {input, weight, bias},
             [&](Session& session, const NodeRef& node) {
               const Tensor output = forward(session, input, weight, bias);
               if (node) {
                 node->save(session, "input", input);
                 node->save(session, "weight", weight);
                 if (bias) node->save(session, "bias", bias);
               }
               return Tensors{output};
             },
             backward)
      .front();
}

}  // namespace shardscope::eager::deepspeed
