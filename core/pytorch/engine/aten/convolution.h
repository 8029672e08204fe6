// Convolutions along one dimension.
#pragma once

#include <cstdint>

#include "core/pytorch/engine/autograd.h"
#include "core/pytorch/engine/tensor.h"

namespace shardscope::eager {

struct ConvolutionForm {
  std::int64_t padding = 0;  ///< on both sides
  std::int64_t groups = 1;
};
/// F.conv1d without a bias: (B, C, T) and (O, C / groups, K) to (B, O, T + 2 padding - K + 1). A
/// workspace of cuDNN is not known; that of PyTorch's own kernel of one channel a group is none.
Tensor conv1d(Session& s, Tensor input, Tensor weight, const ConvolutionForm& form = {});

}  // namespace shardscope::eager
