// What a training process takes of a device beside PyTorch's allocator.
#pragma once

#include <cstdint>
#include <vector>

#include "core/schedule/schedule.h"
#include "sim/hardware/hardware_profile.h"
#include "traces/summary.h"

namespace shardscope {

struct OutsideFigure {
  OutsideItem item;
  double spread = 0;  ///< relative standard deviation of its bytes
};

/// CUDA context, NCCL's buffers and library workspaces, as the profile has them.
std::vector<OutsideFigure> outside_figures(const Schedule& schedule,
                                           const HardwareProfile& profile);
/// The same of so many communicators of NCCL.
std::vector<OutsideFigure> outside_figures(std::int64_t communicators,
                                           const HardwareProfile& profile);
/// Without their spreads.
std::vector<OutsideItem> outside_items(const Schedule& schedule, const HardwareProfile& profile);

/// The sum of them.
Bytes outside_bytes(const Schedule& schedule, const HardwareProfile& profile);

}  // namespace shardscope
