// What cuDNN's plans of convolutions want of memory beside their tensors.
#pragma once

#include <cstdint>
#include <vector>

namespace shardscope::recorder {

/// Of one product: the forward, or one gradient. Sizes are N x channels x ..., as torch has them.
struct PlannedConvolution {
  std::vector<std::int64_t> input, weight, output;
  std::int64_t element = 0;    ///< bytes
  bool channels_last = false;  ///< of input or output
};

/// Kernels of tensor cores want channels last: input, output, and a weight of more than one place
/// are copied where theirs are not, and 16 bytes more. A kernel of one place takes an image as the
/// matrix that it is, where its rows are whole pieces of 16 bytes. Where channels are last, but do
/// not fill 16 bytes, input and weight are copied with channels that do. Read off 76 convolutions
/// of cuDNN 9.19 on an H100 (tests/data/cudnn/convolutions.csv), none of which has groups. Partial
/// sums of gradients of weights count as 0, and so do convolutions with groups.
std::int64_t workspace_of(const PlannedConvolution& convolution);

}  // namespace shardscope::recorder
