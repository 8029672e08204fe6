#include "core/pytorch/engine/adapters/adalora.h"

#include <utility>

#include "core/pytorch/engine/adapters/adapter_modules.h"
#include "core/pytorch/engine/aten/matmul.h"
#include "core/pytorch/engine/iterator.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

/// A Python float whose value decides nothing here.
constexpr double any_factor = 0.5;

constexpr const char* right = "lora_A";
constexpr const char* left = "lora_B";
constexpr const char* values = "lora_E";
constexpr const char* rank_count = "ranknum";

Tensor& factor_of(Module& layer, const char* name) {
  return layer.child(name).parameters[0].tensor;
}

/// SVDLinear.forward.
Tensors forward(Session& s, Module& me, const Arguments& arguments) {
  Tensor x = arguments[0];
  Tensor result = call_one(s, me.child("base_layer"), {x});
  const Tensor& a = factor_of(me, right);
  const Tensor ranks = add(s, factor_of(me, rank_count), 1e-5);
  x = to(s, x, a.dtype());
  Tensor update = call_one(s, me.child("lora_dropout").child("default"), {x});
  update = matmul(s, std::move(update), t(s, mul(s, a, factor_of(me, values))));
  update = matmul(s, std::move(update), t(s, factor_of(me, left)));
  update = mul(s, std::move(update), any_factor);
  update = div(s, std::move(update), ranks);
  result = add_(s, std::move(result), std::move(update));
  x.reset();
  return {std::move(result)};
}

/// linalg_vector_norm_backward of order 2.
Tensors norm_backward(Session& s, Node& node, Tensors& gradients) {
  const Tensor self = node.saved(s, "self");
  const Tensor norm = node.saved(s, "result");
  const Tensor scaled = masked_fill_(s, div(s, self, norm), compare(s, Comparison::eq, norm, 0), 0);
  return {mul(s, scaled, gradients[0])};
}

/// torch.norm(p="fro") of all elements.
Tensor frobenius(Session& s, const Tensor& self) {
  return apply_function(
             s, "LinalgVectorNormBackward0", {self},
             [&](Session& in, const NodeRef& node) -> Tensors {
               const Tensor result = vector_norm(in, detach(in, self));
               if (node) {
                 node->save(in, "self", self);
                 node->save(in, "result", result);
               }
               return {result};
             },
             norm_backward)
      .front();
}

Tensor identity_like(Session& s, const Tensor& square) {
  static constexpr Operator op{"aten.eye.m_out", OperatorKind::pointwise};
  Tensor result = empty_like(s, square);
  dispatched(s, op, {}, {&result});
  return result;
}

bool ends_with_adapter(const std::string& name, const char* dict) {
  return name.ends_with(std::string(dict) + ".default");
}

}  // namespace

bool is_adalora(const Module& layer) { return layer.class_name == "lora.SVDLinear"; }

Tensor& rank_count_of(Module& layer) { return factor_of(layer, rank_count); }

std::shared_ptr<Module> adalora_layer(Session& s, std::shared_ptr<Module> base,
                                      const AdaLoraShape& shape, double dropout, Like like) {
  auto layer = container("lora.SVDLinear");
  const auto factor = [&](const Dims& sizes, bool trains) {
    auto dict = container("ParameterDict");
    const Tensor parameter = empty(s, sizes, like);
    parameter.set_requires_grad(trains);
    dict->parameters.push_back({"default", parameter});
    return dict;
  };
  layer->children = {{"base_layer", std::move(base)},
                     {"lora_dropout", dict_of(dropout_of(dropout))},
                     {right, factor({shape.rank, shape.in}, true)},
                     {left, factor({shape.out, shape.rank}, true)},
                     {"lora_embedding_A", container("ParameterDict")},
                     {"lora_embedding_B", container("ParameterDict")},
                     {"lora_magnitude_vector", container("ModuleDict")},
                     {values, factor({shape.rank, 1}, true)},
                     {rank_count, factor({1}, false)}};
  layer->forward = forward;
  return layer;
}

void merge_adalora(Session& s, Module& layer) {
  const Tensor& weight = layer.child("base_layer").parameters[0].tensor;
  Tensor delta =
      mm(s, factor_of(layer, left), mul(s, factor_of(layer, right), factor_of(layer, values)));
  if (layer.child("base_layer").class_name == "Conv1D") delta = t(s, std::move(delta));
  delta = mul(s, std::move(delta), any_factor);
  delta = div(s, std::move(delta), add(s, factor_of(layer, rank_count), 1e-5));
  add_(s, weight, delta);
}

void cast_adalora(Session& s, Module& layer, Dtype dtype) {
  const NoGrad no_grad(s);
  for (const char* name : {right, left, values, rank_count}) {
    Tensor& own = factor_of(layer, name);
    if (own.dtype() == Dtype::bfloat16 || own.dtype() == Dtype::float16)
      own.set_data(to(s, own, dtype));
  }
}

Tensor with_orthogonality(Session& s, Module& root, Tensor loss) {
  Tensor total, covariance, identity;
  for (const NamedParameter& p : named_parameters_of(root)) {
    const bool is_right = ends_with_adapter(p.name, right);
    if (!is_right && !ends_with_adapter(p.name, left)) continue;
    const Tensor turned = t(s, p.tensor());
    covariance = is_right ? mm(s, p.tensor(), turned) : mm(s, turned, p.tensor());
    identity = identity_like(s, covariance);
    Tensor norm = frobenius(s, sub(s, covariance, identity));
    total = total ? add_(s, std::move(total), std::move(norm)) : add(s, norm, 0);
  }
  if (!total) return loss;
  total = div(s, total, any_factor);
  return add_(s, std::move(loss), mul(s, total, any_factor));
}

void RankAllocator::update(Session& s, Module& root) {
  const NoGrad no_grad(s);
  for (const NamedParameter& p : named_parameters_of(root)) {
    const Tensor& parameter = p.tensor();
    if (!parameter.requires_grad() || p.name.find("lora_") == std::string::npos) continue;
    const auto [found, is_new] = importances_.try_emplace(p.name);
    Importance& own = found->second;
    if (is_new)
      for (Tensor* tensor : {&own.sensitivity, &own.smoothed, &own.uncertainty})
        *tensor = zeros_like(s, parameter);
    if (!parameter.grad()) continue;
    own.sensitivity = abs(s, mul(s, parameter, parameter.grad()));
    Tensor before = mul(s, own.smoothed, any_factor);
    own.smoothed = add(s, std::move(before), mul(s, own.sensitivity, any_factor));
    Tensor kept = mul(s, own.uncertainty, any_factor);
    Tensor off = abs(s, sub(s, own.sensitivity, own.smoothed));
    off = mul(s, std::move(off), any_factor);
    own.uncertainty = add(s, std::move(kept), std::move(off));
  }
}

}  // namespace shardscope::eager
