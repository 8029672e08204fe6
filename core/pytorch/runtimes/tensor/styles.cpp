#include "core/pytorch/runtimes/tensor/styles.h"

#include <array>

#include "core/pytorch/engine/aten/indexing.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/runtimes/common/float8.h"

namespace shardscope::eager::parallel {
namespace {

/// A rank's part of a parameter, in its place.
void cut(Session& s, const MeshAxisContext& axis, Tensor& parameter, int dim) {
  Dims sizes = parameter.sizes();
  sizes[dim] = shard_size(sizes[dim], axis.group->size(), axis.group->rank);
  const Tensor part = allocate(s, like(parameter), sizes);
  part.set_requires_grad(parameter.requires_grad());
  parameter = part;
}

/// While a hook of its output runs the module is still the one that was called.
class Called {
 public:
  Called(Session& s, Module& module) : s_(s) { s_.modules.push_back(&module); }
  Called(const Called&) = delete;
  Called& operator=(const Called&) = delete;
  ~Called() { s_.modules.pop_back(); }

 private:
  Session& s_;
};

/// The ranks among which a tensor of that placement is divided; null: none.
const MeshAxisContext* ranks_of(const MeshAxisContext& axis, Placement placement) {
  return placement == replicated ? nullptr : &axis;
}

Module::ForwardHook leaves_as(const MeshAxisContext& axis, Placement from, OutputStyle style,
                              std::int64_t whole = 0) {
  return [=](Session& s, Module& me, const Arguments&, Tensors& outputs) {
    const Called called(s, me);
    if (!(from == style.placement))
      outputs[0] =
          redistribute(s, axis, outputs[0], {.from = from, .to = style.placement, .whole = whole},
                       style.placement);
    if (style.casts_gradient)
      outputs[0] = cast_gradient(s, outputs[0], ranks_of(axis, style.placement));
    if (style.local) outputs[0] = to_local(s, outputs[0]);
  };
}

constexpr int any_bound = 1;

/// Rows of the table that are another rank's are looked up as row 0, and zeroed: the gradient of
/// the table is that of all rows, on every rank.
Tensor look_up_own_rows(Session& s, const Tensor& weight, const Tensor& ids, std::int64_t rows) {
  Tensor mask;
  Tensor own = masked_ids(s, ids, mask);
  const auto formula = [rows, own_rows = weight.size(0)](Session& in, Node& node,
                                                         Tensors& gradients) -> Tensors {
    static constexpr Operator op{"aten.embedding_dense_backward.default", OperatorKind::indexing};
    const Tensor kept = node.saved(in, "indices");
    Tensor gradient = allocate(in, like(gradients[0]), {rows, gradients[0].size(-1)});
    dispatched(in, op, {&gradients[0], &kept}, {&gradient});
    const InputMetadata& leaf = node.next_edges()[0].node->inputs()[0];
    if (!leaf.any_dtype) gradient = to(in, std::move(gradient), leaf.dtype);
    return {narrow(in, gradient, 0, 0, own_rows)};  // of a storage of all rows
  };
  const NodeRef node = make_node(s, "EmbeddingBackward0", {&weight}, formula);
  if (node) node->save(s, "indices", ids);
  Tensor result;
  {
    const NoGrad no_grad(s);
    result = embedding(s, weight, own);
  }
  own.reset();
  masked_fill_(s, result, unsqueeze(s, mask, -1), 0);
  mask.reset();
  set_history(s, result, node);
  return result;
}

}  // namespace

Tensor masked_ids(Session& s, const Tensor& ids, Tensor& mask) {
  {
    const Tensor below = compare(s, Comparison::lt, ids, any_bound);
    const Tensor above = compare(s, Comparison::ge, ids, any_bound);
    mask = bitwise_or(s, below, above);
  }
  Tensor own = sub(s, clone(s, ids), any_bound);
  masked_fill_(s, own, mask, 0);
  return own;
}

void colwise_linear(Session& s, const MeshAxisContext& axis, Module& module,
                    const ColwiseStyle& style) {
  const std::int64_t whole = module.parameter("weight").size(0);
  for (Module::NamedTensor& own : module.parameters)
    if (own.tensor) cut(s, axis, own.tensor, 0);
  module.forward_pre_hooks.push_back([=](Session& in, Module&, Arguments& arguments) {
    Tensor& input = arguments.tensors[0];
    if (!style.input_is_distributed)
      input = from_local(in, axis, input, style.input,
                         style.input == replicated ? partial : style.input);
    if (style.casts_input && !input->float8())
      input = cast_input(in, input, ranks_of(axis, style.input));
    if (!(style.input == replicated))
      input = redistribute(in, axis, input, {.from = style.input, .to = replicated}, partial);
    wait_unless_float8(in, axis, input);
  });
  module.forward_hooks.push_back(leaves_as(axis, shard(-1), style.output, whole));
}

void colwise_embedding(Session& s, const MeshAxisContext& axis, Module& module, Placement output) {
  cut(s, axis, module.parameter("weight"), 1);
  module.forward_hooks.push_back(leaves_as(axis, shard(-1), {output}, 0));
}

void rowwise_linear(Session& s, const MeshAxisContext& axis, Module& module, Placement output,
                    bool in_float8) {
  cut(s, axis, module.parameter("weight"), 1);
  module.forward_pre_hooks.push_back([=](Session& in, Module&, Arguments& arguments) {
    Tensor& input = arguments.tensors[0];
    input = from_local(in, axis, input, shard(-1), shard(-1));
    if (in_float8) input = cast_input(in, input, &axis);
  });
  module.forward_hooks.push_back(
      leaves_as(axis, partial, {.placement = output, .casts_gradient = in_float8}));
}

void rowwise_embedding(Session& s, const MeshAxisContext& axis, Module& module, Placement output) {
  Tensor& weight = module.parameter("weight");
  const std::int64_t rows = weight.size(0);
  cut(s, axis, weight, 0);
  module.forward = [rows](Session& in, Module& me, const Arguments& arguments) -> Tensors {
    return {look_up_own_rows(in, me.parameter("weight"), arguments[0], rows)};
  };
  module.forward_hooks.push_back(leaves_as(axis, partial, {output}));
}

void sequence_parallel(const MeshAxisContext& axis, Module& module) {
  module.forward_pre_hooks.push_back([=](Session& s, Module&, Arguments& arguments) {
    axis.pending->wait(s, arguments.tensors[0]);
    arguments.tensors[0] = from_local(s, axis, arguments.tensors[0], shard(1), shard(1));
  });
}

void gather_first_input(const MeshAxisContext& axis, Module& module, bool in_float8) {
  module.forward_pre_hooks.push_back([=](Session& s, Module&, Arguments& arguments) {
    if (in_float8) {
      axis.pending->wait(s, arguments.tensors[0]);
      arguments.tensors[0] = cast_input(s, arguments.tensors[0], &axis);
    }
    arguments.tensors[0] =
        redistribute(s, axis, arguments.tensors[0], {.from = shard(1), .to = replicated}, partial);
    wait_unless_float8(s, axis, arguments.tensors[0]);
  });
}

Tensor gradient_like_parameter(Session& s, const MeshAxisContext& axis, const Tensor& gradient,
                               const ParameterLayout& layout) {
  if (layout.gradient == layout.placement) return gradient;
  if (layout.gradient == replicated) return clone(s, gradient);
  Tensor result =
      redistribute_local(s, axis, gradient, {.from = layout.gradient, .to = layout.placement});
  axis.pending->wait(s, result);
  return result;
}

}  // namespace shardscope::eager::parallel
