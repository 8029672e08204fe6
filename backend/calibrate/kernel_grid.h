// The kernels that a calibration measures whatever will be trained.
#pragma once

#include <vector>

#include "core/kernel.h"
#include "core/precision.h"

namespace shardscope {

/// Matrix products in both layouts over sizes, attention over lengths, everything else at two or
/// three sizes; with the element types that `precision` gives each.
std::vector<Kernel> kernel_grid(Precision precision);

}  // namespace shardscope
