#include "core/pytorch/engine/adapters/merge.h"

#include "core/pytorch/engine/adapters/adalora.h"
#include "core/pytorch/engine/adapters/lora.h"
#include "core/pytorch/engine/adapters/lora_embedding.h"
#include "core/pytorch/engine/adapters/lora_parameter.h"
#include "core/pytorch/engine/aten/matmul.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

constexpr double any_scaling = 0.5;

/// get_delta_weight.
Tensor delta_of(Session& s, const LoraParts& parts, bool turned) {
  Tensor product = mm(s, parts.b.parameters[0].tensor, parts.a.parameters[0].tensor);
  if (turned) product = t(s, std::move(product));
  return mul(s, std::move(product), any_scaling);
}

/// Null: the layer is plain LoRA's.
const Module* magnitude_of(Module& layer) {
  const Module& dict = layer.child("lora_magnitude_vector");
  return dict.children.empty() ? nullptr : dict.children[0].module.get();
}

/// get_weight_norm with a scaling of 1.
Tensor norm_of(Session& s, const Tensor& weight, const Tensor& delta, bool turned) {
  const Tensor across = turned ? t(s, weight) : weight;
  const Tensor sum = add(s, across, mul(s, turned ? t(s, delta) : delta, any_scaling));
  return to(s, vector_norm(s, sum, Dims{1}), sum.dtype());
}

/// What the sum of weight and update is multiplied by.
Tensor factor_of(Session& s, const Module& magnitude, const Tensor& norm, bool turned) {
  Tensor factor = view(s, div(s, magnitude.parameters[0].tensor, norm), {-1, 1});
  return turned ? t(s, std::move(factor)) : factor;
}

/// DoraLinearVariant.merge_safe: the weight is dequantised once for its norm, and again to be added
/// to. The layer keeps the norm.
Tensor merged_dora(Session& s, const LoraParts& parts, const QuantizedLayer& layer,
                   const Module& magnitude, Tensor& norm) {
  const Tensor& packed = parts.base.parameters[0].tensor;
  const Tensor delta = delta_of(s, parts, false);
  const Tensor unmerged = clone(s, layer.dequantized(s, packed));
  norm = norm_of(s, unmerged, delta, false);
  const Tensor weight = layer.dequantized(s, packed);
  const Tensor factor = factor_of(s, magnitude, norm, false);
  // The product keeps the sum for a gradient: merging is no part of no_grad.
  const Tensor sum = add(s, weight, delta);
  const Tensor merged = mul(s, factor, sum);
  return to(s, merged, unmerged.dtype());
}

/// Linear4bit.merge and Linear8bitLt.merge: by way of the host.
void merge_quantized(Session& s, const LoraParts& parts, QuantizedLayer& layer,
                     const Module* magnitude) {
  Tensor& packed = parts.base.parameters[0].tensor;
  QuantizedLayer before = layer;
  Tensor packed_before = packed;
  Tensor weight = layer.dequantized(s, packed);
  Tensor delta, merged, norm;
  if (magnitude) {
    merged = merged_dora(s, parts, layer, *magnitude, norm);
  } else {
    delta = delta_of(s, parts, false);
    merged = add(s, weight, delta);
  }
  {
    const Tensor back = empty(s, merged.sizes(), like(merged));
    packed = layer.requantize(s, back);
  }
  packed_before.reset();
  before.let_go();
  const LetGo let_go{weight, delta, merged};
}

/// DoraLinearVariant.merge_unsafe.
void merge_dora(Session& s, const LoraParts& parts, const Module& magnitude) {
  const bool turned = parts.base.class_name == "Conv1D";
  const Tensor& weight = parts.base.parameters[0].tensor;
  const Tensor delta = delta_of(s, parts, turned);
  const Tensor unmerged = clone(s, weight);
  const Tensor norm = norm_of(s, unmerged, delta, turned);
  const Tensor factor = factor_of(s, magnitude, norm, turned);
  const Tensor sum = add(s, weight, delta);  // kept for a gradient
  Tensor merged = mul(s, factor, sum);
  merged = to(s, merged, weight.dtype());
  weight.set_data(merged);
}

void merge_layer(Session& s, Module& layer, const QuantizedLayers& quantized) {
  if (layer.class_name == "lora.ParamWrapper") return merge_parameter_adapter(s, layer);
  if (layer.class_name == "lora.Embedding") return merge_embedding(s, layer);
  if (is_adalora(layer)) return merge_adalora(s, layer);
  const LoraParts parts(layer);
  const Module* magnitude = magnitude_of(layer);
  for (const QuantizedLayers::Entry& entry : quantized.entries())
    if (entry.module == &parts.base) return merge_quantized(s, parts, *entry.layer, magnitude);
  if (magnitude) return merge_dora(s, parts, *magnitude);
  add_(s, parts.base.parameters[0].tensor, delta_of(s, parts, parts.base.class_name == "Conv1D"));
}

void merge_below(Session& s, Module& module, const QuantizedLayers& quantized) {
  for (Module::Child& child : module.children) {
    if (child.module->class_name.starts_with("lora.")) {
      // An adapter of a parameter may lie around that of another one.
      while (child.module->class_name.starts_with("lora.")) {
        merge_layer(s, *child.module, quantized);
        child.module = child.module->children[0].module;
      }
    } else if (child.module->class_name == "ModulesToSaveWrapper") {
      child.module = child.module->child("modules_to_save").children[0].module;
    } else {
      merge_below(s, *child.module, quantized);
    }
  }
}

}  // namespace

void merge_adapters(Session& s, Module& root, const QuantizedLayers& quantized) {
  const NoGrad no_grad(s);
  merge_below(s, root, quantized);
}

}  // namespace shardscope::eager
