// Time of layers that cuDNN computes by products of matrices.
#pragma once

#include "core/schedule/device_work.h"
#include "sim/kernels/device_efficiency.h"
#include "sim/kernels/roofline_figures.h"

namespace shardscope {

/// Of a convolution on tensor cores, whose peak `device` has. `dtype` is what `reached` is looked
/// up by; shares of convolutions go by the tensors' own.
///   copies to channels last + max(bytes at the memory's rate, products).
/// Products run at `forward` or `backward` of the rate of plain ones. Where a group's channels fill
/// less than 16 bytes they take flops / (few_channels * multiprocessors).
Duration convolution_time(const DeviceWork& work, Dtype dtype, const RooflineFigures& device,
                          const DeviceEfficiency& efficiency);

/// The products of all steps' inputs, and layers * steps times the longer of a step's own product
/// with the kernel after it and of what issuing them takes. Persistent: a step takes a fixed time
/// and its flops at the rate of what keeps the weights.
Duration recurrent_time(const DeviceWork& work, Dtype dtype, const RooflineFigures& device,
                        const DeviceEfficiency& efficiency);

}  // namespace shardscope
