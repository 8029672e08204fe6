#include "core/pytorch/engine/aten/convolution.h"

#include "core/pytorch/engine/autocast.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"

namespace shardscope::eager {

Tensor conv1d(Session& s, Tensor input, Tensor weight, const ConvolutionForm& form) {
  static constexpr Operator forward_op{"aten.convolution.default", OperatorKind::matmul};
  static constexpr Operator backward_op{"aten.convolution_backward.default", OperatorKind::matmul};
  const LetGo let_go{input, weight};
  weight = to_lower_precision(s, weight);
  input = to_lower_precision(s, input);
  const std::int64_t length = input.size(2) + 2 * form.padding - weight.size(2) + 1;
  const std::int64_t flops = 2 * input.size(0) * length * weight.numel();
  return apply_function(
             s, "ConvolutionBackward0", {input, weight},
             [&](Session& in, const NodeRef& node) -> Tensors {
               if (node) {
                 node->save(in, "input", input);
                 node->save(in, "weight", weight);
               }
               // ATen/native/Convolution.cpp, _convolution: three dimensions are never NHWC.
               const Tensor whole = contiguous(in, input);
               const Tensor output =
                   empty(in, {input.size(0), weight.size(0), length}, like(input));
               dispatched(in, forward_op, {&whole, &weight}, {&output}, flops);
               return {output};
             },
             [flops](Session& in, Node& node, Tensors& gradients) -> Tensors {
               const Tensor given = node.saved(in, "input");
               const Tensor kernel = node.saved(in, "weight");
               const Tensor gradient = contiguous(in, gradients[0]);
               const Tensor whole = contiguous(in, given);
               Tensor of_input, of_weight;
               if (node.needs(0)) of_input = empty(in, given.sizes(), like(given));
               if (node.needs(1)) of_weight = empty(in, kernel.sizes(), like(kernel));
               const int wanted = (of_input ? 1 : 0) + (of_weight ? 1 : 0);
               dispatched(in, backward_op, {&gradient, &whole, &kernel},
                          {of_input ? &of_input : &of_weight}, wanted * flops);
               return {of_input, of_weight};
             })
      .front();
}

}  // namespace shardscope::eager
