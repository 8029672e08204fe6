// PeftModel.merge_and_unload.
#pragma once

#include "core/pytorch/engine/adapters/quantized.h"
#include "core/pytorch/engine/module.h"

namespace shardscope::eager {

/// Adds every adapter below `root` to its base layer, which takes its place; quantised layers are
/// dequantised, added to and quantised again. Source: peft 0.21.2, tuners/lora/layer.py, bnb.py,
/// variants.py, tuners_utils.py.
void merge_adapters(Session& s, Module& root, const QuantizedLayers& quantized);

}  // namespace shardscope::eager
