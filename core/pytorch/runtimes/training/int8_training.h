// torchao's training in int8: linear layers whose weights are kept as integers, or whose products
// are. Source: torchao 0.18, prototype/quantized_training/int8.py, int8_mixed_precision.py and
// int8_mm.py.
#pragma once

#include <cstdint>

#include "core/pytorch/engine/module.h"

namespace shardscope::eager {

enum class Int8Training : std::uint8_t {
  none,
  weights,  ///< int8_weight_only_quantized_training
  products  ///< int8_mixed_precision_training of output and both gradients
};

/// Converts the linear layers of a model's decoder layers (quantize_(model.layers, ...)). A weight
/// that is kept as integers shows the dtype that it had. Error where there are no such layers.
void convert_to_int8_training(Session& s, Module& root, Int8Training kind);

}  // namespace shardscope::eager
