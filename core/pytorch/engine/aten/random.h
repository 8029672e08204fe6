// Dropout.
#pragma once

#include "core/pytorch/engine/autograd.h"
#include "core/pytorch/engine/tensor.h"

namespace shardscope::eager {

/// torch.nn.functional.dropout: itself where nothing is dropped; native_dropout with a mask of
/// bytes on cuda, a product with random factors on cpu.
Tensor dropout(Session& s, Tensor input, double probability, bool training);

}  // namespace shardscope::eager
