// Time of any kernel on a GPU from its data sheet.
#pragma once

#include "core/schedule/device_work.h"
#include "sim/kernels/device_efficiency.h"
#include "sim/kernels/roofline_figures.h"

namespace shardscope {

/// Of the work alone on the device, from the start of its first kernel to the end of its last.
Duration work_time(const DeviceWork& work, const RooflineFigures& device,
                   const DeviceEfficiency& efficiency);

}  // namespace shardscope
