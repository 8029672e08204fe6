#include "sim/kernels/matmul_time.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "sim/kernels/memory_time.h"

namespace shardscope {
namespace {

double tiles_of(const MatmulShape& shape, const MatmulTile& tile) {
  const auto blocks = [](std::int64_t size, std::int64_t side) {
    return static_cast<double>((size + side - 1) / side);
  };
  return static_cast<double>(shape.batch) * blocks(shape.m, tile.m) * blocks(shape.n, tile.n);
}

/// Partial sums in float32, written by each part and read to be added.
Bytes partial_sums(const MatmulShape& shape, int parts) {
  return parts == 1 ? Bytes{}
                    : bytes_of(2 * parts * shape.batch * shape.m * shape.n, Dtype::float32);
}

struct Plan {
  MatmulTile tile;
  int parts = 1;  ///< of the depth
};

double seconds_of(const MatmulShape& shape, const Plan& plan, double rate_of_one,
                  const RooflineFigures& device, const MatmulEfficiency& efficiency) {
  const double waves = matmul_waves(tiles_of(shape, plan.tile) * plan.parts, device.multiprocessors,
                                    efficiency.wave_loss);
  const double depth = static_cast<double>(shape.k) / plan.parts;
  const double flops = 2.0 * static_cast<double>(plan.tile.m * plan.tile.n) * depth;
  return waves * (flops / (rate_of_one * plan.tile.efficiency) + efficiency.prologue.seconds()) +
         (partial_sums(shape, plan.parts) / device.memory_bandwidth).seconds();
}

/// Of the full clock.
double clock_share(const RooflineFigures& device, const MatmulEfficiency& efficiency, Dtype dtype) {
  if (dtype == Dtype::float32 || dtype == Dtype::float64) return 1;
  return clock_under(device, efficiency.power, efficiency.clock);
}

/// Of the peak, by large tiles.
double share_of_peak(const RooflineFigures& device, const MatmulEfficiency& efficiency,
                     Dtype dtype) {
  if (device.reached > 0) return device.reached * clock_under(device, device.reached_power);
  return reached_share(efficiency, dtype) * clock_share(device, efficiency, dtype);
}

bool is_aligned(std::int64_t elements, Bytes element) {
  constexpr std::int64_t alignment = 16;
  return elements * element.count % alignment == 0;
}

/// Whichever way the factors lie, each dimension is the length of somebody's rows.
bool is_aligned(const MatmulShape& shape, Bytes element) {
  return is_aligned(std::gcd(std::gcd(shape.m, shape.n), shape.k), element);
}

/// Of the rate of aligned products.
double alignment_share(const MatmulShape& shape, Bytes element,
                       const MatmulEfficiency& efficiency) {
  if (is_aligned(shape, element)) return 1;
  return is_unaligned_batch(shape, element)
             ? efficiency.unaligned_batch.value_or(efficiency.unaligned)
             : efficiency.unaligned;
}

Bytes operands(const MatmulShape& shape, Dtype dtype) {
  return bytes_of(shape.batch * (shape.m * shape.k + shape.k * shape.n + shape.m * shape.n), dtype);
}

}  // namespace

double matmul_waves(double tiles, int multiprocessors, double wave_loss) {
  const double full = tiles / multiprocessors;
  if (full <= 1) return 1;
  return full + (std::ceil(full) - full) * wave_loss;
}

bool is_unaligned_batch(const MatmulShape& shape, Bytes element) {
  constexpr std::int64_t half = 2;
  return shape.batch > 1 && element.count == half &&
         !is_aligned(std::min({shape.m, shape.n, shape.k}), element);
}

Duration computing_time(const MatmulShape& shape, Dtype dtype, const RooflineFigures& device,
                        const DeviceEfficiency& efficiency, std::optional<Bytes> element) {
  const double rate_of_one =
      device.peak.flops_per_s * share_of_peak(device, efficiency.matmul, dtype) *
      alignment_share(shape, element.value_or(size_of(dtype)), efficiency.matmul) /
      device.multiprocessors;
  double seconds = std::numeric_limits<double>::infinity();
  for (const MatmulTile& tile : efficiency.matmul.tiles)
    for (const int parts : {1, 2, 4, 8, 16})
      seconds = std::min(seconds, seconds_of(shape, {.tile = tile, .parts = parts}, rate_of_one,
                                             device, efficiency.matmul));
  return Duration::from_seconds(seconds) + efficiency.memory.latency;
}

Duration matmul_time(const MatmulShape& shape, Dtype dtype, const RooflineFigures& device,
                     const DeviceEfficiency& efficiency) {
  return std::max(computing_time(shape, dtype, device, efficiency),
                  moving_time(WorkKind::matmul, operands(shape, dtype), device, efficiency));
}

}  // namespace shardscope
