// Time of kernels that are bound by memory.
#pragma once

#include "core/schedule/device_work.h"
#include "sim/kernels/device_efficiency.h"
#include "sim/kernels/roofline_figures.h"

namespace shardscope {

/// latency + bytes / (share of this kind * bandwidth).
Duration moving_time(WorkKind kind, Bytes bytes, const RooflineFigures& device,
                     const DeviceEfficiency& efficiency);

/// The time at which work of this kind moves its bytes, a latency for each of its launches. Where
/// fewer blocks than multiprocessors work, each gets its own share of the bandwidth.
Duration memory_bound_time(const DeviceWork& work, const RooflineFigures& device,
                           const DeviceEfficiency& efficiency);

}  // namespace shardscope
