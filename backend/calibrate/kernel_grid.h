// The kernels that a calibration measures whatever will be trained.
#pragma once

#include <vector>

#include "core/base/precision.h"
#include "core/schedule/kernel.h"

namespace shardscope {

/// A GPU's sizes keep all of it busy for a millisecond or less.
enum class GridFor : std::uint8_t { cpu, gpu };

/// Matrix products in both layouts over sizes, attention over lengths, everything else at two or
/// three sizes; with the element types that `precision` gives each.
std::vector<Kernel> kernel_grid(Precision precision, GridFor device = GridFor::cpu);

}  // namespace shardscope
