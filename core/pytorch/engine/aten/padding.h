// Padding with a constant.
#pragma once

#include <cstdint>

#include "core/pytorch/engine/autograd.h"
#include "core/pytorch/engine/tensor.h"

namespace shardscope::eager {

/// torch.nn.functional.pad(self, (0, count)): aten.constant_pad_nd; a negative count cuts.
Tensor pad_last(Session& s, Tensor self, std::int64_t count);

}  // namespace shardscope::eager
