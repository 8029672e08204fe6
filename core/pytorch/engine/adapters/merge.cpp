#include "core/pytorch/engine/adapters/merge.h"

#include "core/base/error.h"
#include "core/pytorch/engine/adapters/lora.h"
#include "core/pytorch/engine/aten/matmul.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/pointwise.h"
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

/// Linear4bit.merge and Linear8bitLt.merge: by way of the host.
void merge_quantized(Session& s, const LoraParts& parts, QuantizedLayer& layer) {
  Tensor& packed = parts.base.parameters[0].tensor;
  QuantizedLayer before = layer;
  Tensor packed_before = packed;
  Tensor weight = layer.dequantized(s, packed);
  Tensor delta = delta_of(s, parts, false);
  Tensor merged = add(s, weight, delta);
  {
    const Tensor back = empty(s, merged.sizes(), like(merged));
    packed = layer.requantize(s, back);
  }
  packed_before.reset();
  before.let_go();
  const LetGo let_go{weight, delta, merged};
}

void merge_layer(Session& s, Module& layer, const QuantizedLayers& quantized) {
  if (!layer.child("lora_magnitude_vector").children.empty())
    throw Error({.where = layer.name,
                 .what = "merging DoRA is not modelled",
                 .way_out = "leave the phase out"});
  const LoraParts parts(layer);
  for (const QuantizedLayers::Entry& entry : quantized.entries())
    if (entry.module == &parts.base) return merge_quantized(s, parts, *entry.layer);
  add_(s, parts.base.parameters[0].tensor, delta_of(s, parts, parts.base.class_name == "Conv1D"));
}

void merge_below(Session& s, Module& module, const QuantizedLayers& quantized) {
  for (Module::Child& child : module.children) {
    if (child.module->class_name.starts_with("lora.")) {
      merge_layer(s, *child.module, quantized);
      child.module = child.module->children[0].module;
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
