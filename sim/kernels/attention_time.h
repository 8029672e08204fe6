// Time of attention whose scores are never written out.
#pragma once

#include "core/schedule/device_work.h"
#include "sim/kernels/device_efficiency.h"
#include "sim/kernels/roofline_figures.h"

namespace shardscope {

/// Flops that are really computed over
///   share * peak * keys / (keys + half_length) * occupancy * clock,
/// the shares of this library at the nearest head size. A block of 128 queries of one head is one
/// multiprocessor's; where there are fewer blocks than multiprocessors the others idle. The clock
/// is lower under a lower power limit than that of the GPUs that the row is from; rows without such
/// a limit keep it. No less than the operands take to be moved. Example: under an eighth of the
/// power half the clock.
Duration attention_time(const DeviceWork& work, const RooflineFigures& device,
                        const DeviceEfficiency& efficiency);

/// The row for a library and head size: of the library the nearest head size, the larger of two;
/// of FlashAttention-2 where the library has none. Throws Error where there is neither.
const AttentionEfficiency& attention_row(const DeviceEfficiency& efficiency,
                                         AttentionLibrary library, std::int64_t head_dim);

}  // namespace shardscope
