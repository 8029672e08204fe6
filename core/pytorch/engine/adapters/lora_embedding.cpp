#include "core/pytorch/engine/adapters/lora_embedding.h"

#include <utility>

#include "core/base/error.h"
#include "core/pytorch/engine/adapters/adapter_modules.h"
#include "core/pytorch/engine/adapters/dora.h"
#include "core/pytorch/engine/aten/indexing.h"
#include "core/pytorch/engine/aten/matmul.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

/// A Python float whose value decides nothing here.
constexpr double any_scaling = 0.5;

constexpr const char* dicts[] = {"lora_embedding_A", "lora_embedding_B"};

Tensor adapter_of(const Module& layer, const char* dict) { return layer.child(dict).read(0); }

/// Null: the layer is plain LoRA's.
Module* magnitude_of(Module& layer) {
  Module& dict = layer.child("lora_magnitude_vector");
  return dict.children.empty() ? nullptr : dict.children[0].module.get();
}

/// What the base layer scales its rows by, applied to the update as well.
Tensor scaled(Session& s, Module& base, Tensor update) {
  for (const Module::NamedTensor& own : base.buffers)
    if (own.name == "embed_scale") return mul(s, update, to(s, own.tensor, update.dtype()));
  return update;
}

Tensors plain_forward(Session& s, Module& me, const Arguments& arguments) {
  Module& base = me.child("base_layer");
  Tensor result = call_one(s, base, {arguments[0]});
  const Dtype given = result.dtype();
  const Tensor a = permute(s, adapter_of(me, dicts[0]), {1, 0});
  const Tensor b = permute(s, adapter_of(me, dicts[1]), {1, 0});
  const Tensor rows = embedding(s, a, arguments[0]);
  const Tensor update = scaled(s, base, mul(s, matmul(s, rows, b), any_scaling));
  result = add(s, result, update);
  return {to(s, result, given)};
}

/// DoraEmbeddingLayer.forward of indices and both adapters: the scale of each column, and the
/// update by it.
Module::Forward magnitude_forward(const Module& layer) {
  return [&layer](Session& s, Module& me, const Arguments& arguments) -> Tensors {
    const Tensor &a = arguments[1], &b = arguments[2];
    const Tensor update = permute(s, matmul(s, a, b), {1, 0});
    const Tensor weight = layer.child("base_layer").read(0);
    const Tensor norm =
        detach(s, dora_norm(s, turned_weight(s, weight, true, true), detach(s, update)));
    Tensor scale = div(s, me.parameters[0].tensor, norm);
    const Tensor rows = embedding(s, a, arguments[0]);
    Tensor result = mul(s, mul(s, scale, matmul(s, rows, b)), any_scaling);
    return {std::move(scale), std::move(result)};
  };
}

/// DoraEmbeddingVariant.forward.
Tensors dora_forward(Session& s, Module& me, const Arguments& arguments) {
  Module& base = me.child("base_layer");
  Tensor result = call_one(s, base, {arguments[0]});
  const Dtype given = result.dtype();
  {
    const Tensor a = permute(s, adapter_of(me, dicts[0]), {1, 0});
    const Tensor b = permute(s, adapter_of(me, dicts[1]), {1, 0});
    Tensors outputs = call(s, *magnitude_of(me), {{arguments[0], a, b}, 1});
    const Tensor scale = std::move(outputs[0]);
    const Tensor of_lora = scaled(s, base, std::move(outputs[1]));
    result = add(s, mul(s, scale, result), of_lora);
  }
  return {to(s, result, given)};
}

/// get_delta_weight.
Tensor delta_of(Session& s, Module& layer) {
  const Tensor product = mm(s, adapter_of(layer, dicts[1]), adapter_of(layer, dicts[0]));
  return mul(s, permute(s, product, {1, 0}), any_scaling);
}

}  // namespace

bool is_embedding(const Module& module) {
  return module.class_name == "Embedding" || module.class_name.ends_with("ScaledWordEmbedding");
}

std::shared_ptr<Module> embedding_adapter(Session& s, std::shared_ptr<Module> base,
                                          std::int64_t rank, const LoraConfig& config) {
  if (config.lora_bias)
    throw Error({.where = "lora_bias",
                 .what = "PEFT takes none for an embedding",
                 .way_out = "leave it out, or put the embedding under modules_to_save"});
  const Tensor weight = base->parameters[0].tensor;
  auto layer = container("lora.Embedding");
  auto dropout = container(config.dropout > 0 ? "Dropout" : "Identity");
  auto drops = container("ModuleDict");
  drops->children.push_back({"default", std::move(dropout)});
  layer->children = {{"base_layer", std::move(base)},
                     {"lora_dropout", std::move(drops)},
                     {"lora_A", container("ModuleDict")},
                     {"lora_B", container("ModuleDict")},
                     {dicts[0], container("ParameterDict")},
                     {dicts[1], container("ParameterDict")},
                     {"lora_magnitude_vector", container("ModuleDict")}};
  const Dims sizes[] = {{rank, weight.size(0)}, {weight.size(1), rank}};
  for (std::size_t i = 0; i < std::size(dicts); ++i) {
    const Tensor parameter = empty(s, sizes[i], like(weight));
    parameter.set_requires_grad(true);
    layer->child(dicts[i]).parameters.push_back({"default", parameter});
  }
  if (config.dora) {
    auto magnitude =
        dora_magnitude(s, weight, adapter_of(*layer, dicts[0]), adapter_of(*layer, dicts[1]));
    magnitude->forward = magnitude_forward(*layer);
    layer->child("lora_magnitude_vector").children.push_back({"default", std::move(magnitude)});
  }
  layer->forward = config.dora ? dora_forward : plain_forward;
  return layer;
}

void cast_embedding_adapter(Session& s, Module& layer, Dtype dtype) {
  const NoGrad no_grad(s);
  const auto cast = [&](Tensor& tensor) {
    const bool trains = tensor.requires_grad();
    tensor = to(s, tensor, dtype);
    tensor.set_requires_grad(trains);
  };
  for (const char* dict : dicts) cast(layer.child(dict).parameters[0].tensor);
  if (Module* magnitude = magnitude_of(layer)) cast(magnitude->parameters[0].tensor);
}

void merge_embedding(Session& s, Module& layer) {
  const Tensor& weight = layer.child("base_layer").parameters[0].tensor;
  const Tensor delta = delta_of(s, layer);
  Module* magnitude = magnitude_of(layer);
  if (!magnitude) {
    add_(s, weight, to(s, delta, weight.dtype()));
    return;
  }
  const Tensor unmerged = clone(s, weight);
  const Tensor norm = dora_norm(s, permute(s, unmerged, {1, 0}), permute(s, delta, {1, 0}));
  const Tensor factor = view(s, div(s, magnitude->parameters[0].tensor, norm), {1, -1});
  const Tensor sum = add(s, weight, delta);  // kept for a gradient
  weight.set_data(to(s, mul(s, factor, sum), weight.dtype()));
}

}  // namespace shardscope::eager
