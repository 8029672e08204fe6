// Time of a matrix product on a GPU.
#pragma once

#include <optional>

#include "core/schedule/device_work.h"
#include "sim/kernels/device_efficiency.h"
#include "sim/kernels/roofline_figures.h"

namespace shardscope {

/// Tiles of the result go to the multiprocessors in waves. Each wave takes
///   2 * tile m * tile n * k / (peak * reached * clock / multiprocessors * tile efficiency)
///   + prologue;
/// a last wave that is not full counts as much as `wave_loss` says. The library may share a tile's
/// depth among up to 16 multiprocessors (split-k), whose float32 sums are then written and read
/// once more; it takes what is fastest. The clock is what a training step keeps under the
/// power limit; under another limit than it was seen at it goes with power's cube root. Rows that
/// are no multiple of 16 bytes cost what `unaligned` says. No less than the operands take to be
/// moved. Source: NVIDIA, Matrix Multiplication Background User's Guide, DU-09799-001 (tile and
/// wave quantization, alignment). Example: 108 multiprocessors, 256 x 128 tiles, wave_loss 1: 2048
/// x 1792 is 8 x 14 = 112 tiles, two waves, the second one almost empty.
Duration matmul_time(const MatmulShape& shape, Dtype dtype, const RooflineFigures& device,
                     const DeviceEfficiency& efficiency);
/// The same without the time that its operands take to move. `element`: where they are stored in
/// another type than they are computed in (float32 as TF32).
Duration computing_time(const MatmulShape& shape, Dtype dtype, const RooflineFigures& device,
                        const DeviceEfficiency& efficiency,
                        std::optional<Bytes> element = std::nullopt);

/// Waves that `tiles` tiles take, as counted above.
double matmul_waves(double tiles, int multiprocessors, double wave_loss);

/// Of attention by hand: batched, in 16 bits, and its shortest dimension is no multiple of 16
/// bytes.
bool is_unaligned_batch(const MatmulShape& shape, Bytes element);

}  // namespace shardscope
