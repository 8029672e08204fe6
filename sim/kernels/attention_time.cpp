#include "sim/kernels/attention_time.h"

#include <algorithm>
#include <cstdlib>

#include "core/base/error.h"
#include "sim/kernels/memory_time.h"

namespace shardscope {
namespace {

const AttentionEfficiency* nearest_row(const DeviceEfficiency& efficiency, AttentionLibrary library,
                                       std::int64_t head_dim) {
  const AttentionEfficiency* nearest = nullptr;
  for (const AttentionEfficiency& row : efficiency.attention) {
    if (row.library != library) continue;
    const auto distance = [&](const AttentionEfficiency& of) {
      return std::abs(of.head_dim - head_dim);
    };
    if (nearest == nullptr || distance(row) <= distance(*nearest)) nearest = &row;
  }
  return nearest;
}

/// Lengths were measured with a causal mask, under which a query sees half of the keys. Where pairs
/// are counted: the length at which it sees as many.
double length_of(const AttentionShape& shape) {
  const auto keys = static_cast<double>(shape.keys);
  if (shape.pairs == 0) return keys;
  return std::min(keys, 2 * static_cast<double>(shape.pairs) / static_cast<double>(shape.queries));
}

/// Of the multiprocessors, those that get a block.
double occupancy(const AttentionShape& shape, int multiprocessors) {
  constexpr std::int64_t queries_in_a_block = 128;
  const std::int64_t blocks =
      shape.batch * shape.heads * ((shape.queries + queries_in_a_block - 1) / queries_in_a_block);
  return std::min(1.0, static_cast<double>(blocks) / multiprocessors);
}

}  // namespace

const AttentionEfficiency& attention_row(const DeviceEfficiency& efficiency,
                                         AttentionLibrary library, std::int64_t head_dim) {
  for (const AttentionLibrary of : {library, AttentionLibrary::flash})
    if (const AttentionEfficiency* row = nearest_row(efficiency, of, head_dim)) return *row;
  throw Error({.where = "efficiency " + efficiency.name,
               .what = "no figures for attention",
               .way_out = "add a row for the library \"flash\" to \"attention\""});
}

Duration attention_time(const DeviceWork& work, const RooflineFigures& device,
                        const DeviceEfficiency& efficiency) {
  const Duration moving = memory_bound_time(work, device, efficiency);
  if (work.flops.count == 0) return moving;
  const AttentionShape& shape = work.attention;
  const AttentionEfficiency& row = attention_row(efficiency, shape.library, shape.head_dim);
  const double keys = length_of(shape);
  const double share = (work.kind == WorkKind::attention_forward ? row.forward : row.backward) *
                       keys / (keys + static_cast<double>(row.half_length)) *
                       occupancy(shape, device.multiprocessors) * clock_under(device, row.power);
  const Duration computing =
      efficiency.memory.latency + work.flops / FlopRate{device.peak.flops_per_s * share};
  return std::max(computing, moving);
}

}  // namespace shardscope
