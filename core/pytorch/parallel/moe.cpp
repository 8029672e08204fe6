#include "core/pytorch/parallel/moe.h"

#include "core/pytorch/engine/aten/indexing.h"
#include "core/pytorch/engine/aten/matmul.h"
#include "core/pytorch/engine/aten/selection.h"
#include "core/pytorch/engine/aten/softmax.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager::parallel {
namespace {

Tensors experts_forward(Session& s, Module& me, const Arguments& arguments, Pending& pending) {
  const Tensor& x = arguments[0];
  // Casts only where FSDP2 does not.
  const Tensor w1 = to(s, me.parameter("w1"), x.dtype());
  const Tensor w2 = to(s, me.parameter("w2"), x.dtype());
  const Tensor w3 = to(s, me.parameter("w3"), x.dtype());
  pending.wait(s, x);
  Tensor gate = silu(s, bmm(s, x, w1));
  Tensor up = bmm(s, x, w3);
  Tensor product = mul(s, std::move(gate), std::move(up));
  return {bmm(s, std::move(product), w2)};
}

std::shared_ptr<Module> make_experts(Session& s, const std::string& name, const LlamaOptions& o,
                                     std::int64_t count, Pending& pending) {
  auto module = std::make_shared<Module>();
  module->name = name;
  module->class_name = "Experts";
  const auto add = [&](const char* own, std::int64_t in, std::int64_t out) {
    const Tensor weight = allocate(s, {.dtype = o.dtype, .device = Device::meta}, {count, in, out});
    weight.set_requires_grad(true);
    module->parameters.push_back({own, weight});
  };
  add("w1", o.shape.dim, o.shape.hidden);
  add("w2", o.shape.hidden, o.shape.dim);
  add("w3", o.shape.dim, o.shape.hidden);
  module->forward = [&pending](Session& in, Module& me, const Arguments& arguments) {
    return experts_forward(in, me, arguments, pending);
  };
  return module;
}

/// funcol.all_to_all_single_autograd with equal parts.
Tensor exchange(Session& s, const MeshAxisContext& axis, Tensor tokens) {
  const LetGo let_go{tokens};
  return apply_function(
      s, "_AllToAllSingleBackward", {tokens},
      [&](Session& in, const NodeRef&) -> Tensors {
        return {all_to_all(in, *axis.pending, *axis.group, tokens)};
      },
      [axis](Session& in, Node&, Tensors& gradients) -> Tensors {
        const Tensor whole = contiguous(in, std::move(gradients[0]));
        Tensor back = all_to_all(in, *axis.pending, *axis.group, whole);
        axis.pending->wait(in, back);
        return {std::move(back)};
      })[0];
}

/// (a, b, tokens, dim) as (b, a * tokens, dim), rows first or not. Where a or b is 1 that is a
/// view, which waits for nothing.
Tensor swapped(Session& s, const MeshAxisContext& axis, const Tensor& tokens, const Dims& apart,
               const Dims& together) {
  Tensor across = transpose(s, view(s, tokens, apart), 0, 1);
  if (apart[0] > 1 && apart[1] > 1) axis.pending->wait(s, across);
  return reshape(s, std::move(across), together);
}

struct Sizes {
  std::int64_t experts, here, ranks, capacity, dim;
};

/// The tokens of the experts that are here, from all ranks: (experts here, slots, dim).
Tensor dispatched_tokens(Session& s, const MeshAxisContext& axis, Tensor tokens,
                         const Sizes& sizes) {
  if (sizes.ranks == 1) return view(s, tokens, {sizes.experts, sizes.capacity, sizes.dim});
  tokens = exchange(s, axis, std::move(tokens));
  return swapped(s, axis, tokens, {sizes.ranks, sizes.here, sizes.capacity, sizes.dim},
                 {sizes.here, -1, sizes.dim});
}

Tensor returned_tokens(Session& s, const MeshAxisContext& axis, Tensor tokens, const Sizes& sizes) {
  if (sizes.ranks == 1) return tokens;
  tokens = swapped(s, axis, tokens, {sizes.here, sizes.ranks, sizes.capacity, sizes.dim},
                   {-1, sizes.dim});
  return exchange(s, axis, std::move(tokens));
}

Module::Forward moe_forward(const ExpertSettings& settings, const MeshAxisContext& axis) {
  return [settings, axis](Session& s, Module& me, const Arguments& arguments) -> Tensors {
    const Tensor& given = arguments[0];
    const std::int64_t batch = given.size(0), length = given.size(1), dim = given.size(2);
    const Tensor x = reshape(s, given, {-1, dim});
    const Tensor p = softmax(s, to(s, call_one(s, me.child("router"), {x}), Dtype::float32), -1);
    const Sizes sizes{.experts = settings.experts,
                      .here = settings.experts / settings.ranks,
                      .ranks = settings.ranks,
                      .capacity = batch * length * settings.top_k / settings.experts,
                      .dim = dim};
    const auto [weight, who] = topk(s, t(s, p), sizes.capacity);
    Tensor tokens = index(s, x, {reshape(s, who, {-1})});
    tokens = dispatched_tokens(s, axis, std::move(tokens), sizes);
    {
      const Tensor given_to_experts = tokens;  // held by the caller of the module
      tokens = call_one(s, me.child("experts"), {given_to_experts});
    }
    tokens = returned_tokens(s, axis, std::move(tokens), sizes);
    {
      Tensor rows = reshape(s, tokens, {-1, dim});
      Tensor factors = type_as(s, reshape(s, weight, {-1, 1}), x);
      axis.pending->wait(s, tokens);
      tokens = mul(s, std::move(rows), std::move(factors));
    }
    Tensor sum;
    {
      const Tensor zeros = zeros_like(s, x);
      sum = clone(s, zeros);
    }
    sum = index_add_(s, sum, reshape(s, who, {-1}), tokens);
    return {view(s, sum, {batch, length, dim})};
  };
}

}  // namespace

std::shared_ptr<Module> make_moe(Session& s, const std::string& name, const LlamaOptions& o,
                                 const ExpertSettings& settings, const MeshAxisContext& axis) {
  auto module = std::make_shared<Module>();
  module->name = name;
  module->class_name = "MoE";
  module->children.push_back(
      {"router", make_linear(s, name + ".router", settings.experts, o.shape.dim, o.dtype)});
  module->children.push_back(
      {"experts",
       make_experts(s, name + ".experts", o, settings.experts / settings.ranks, *axis.pending)});
  module->forward = moe_forward(settings, axis);
  return module;
}

}  // namespace shardscope::eager::parallel
