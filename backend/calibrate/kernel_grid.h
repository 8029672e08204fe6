// The kernels that a calibration measures whatever will be trained.
#pragma once

#include <vector>

#include "core/kernel.h"

namespace shardscope {

/// Matrix products in both layouts over sizes, attention over lengths, everything else at two or
/// three sizes.
std::vector<Kernel> kernel_grid();

}  // namespace shardscope
