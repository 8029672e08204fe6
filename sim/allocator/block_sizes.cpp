#include "sim/allocator/block_sizes.h"

#include <algorithm>
#include <bit>

namespace shardscope {
namespace {

constexpr std::int64_t min_large_request_bytes = 10'485'760;
constexpr std::int64_t large_rounding_bytes = 2'097'152;
constexpr int first_interval_power = 20;  // 1 MiB

std::int64_t round_up(std::int64_t value, std::int64_t step) {
  return (value + step - 1) / step * step;
}

int power_of(std::int64_t value) {
  return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(value))) - 1;
}

std::int64_t next_division(std::int64_t size, int divisions) {
  const std::int64_t floor = std::int64_t{1} << power_of(size);
  if (floor == size) return size;
  const std::int64_t step = floor >> power_of(divisions);
  return step == 0 ? 2 * floor : round_up(size, step);
}

}  // namespace

std::int64_t block_bytes(std::int64_t requested, const AllocatorSettings& settings) {
  if (requested < min_block_bytes) return min_block_bytes;
  const int interval =
      std::clamp(power_of(requested) - first_interval_power, 0, roundup_interval_count - 1);
  const int divisions = settings.roundup_divisions[static_cast<std::size_t>(interval)];
  if (divisions > 1 && requested > min_block_bytes * divisions)
    return next_division(requested, divisions);
  return round_up(requested, min_block_bytes);
}

std::int64_t segment_bytes(std::int64_t block, const AllocatorSettings& settings) {
  if (block <= small_request_bytes) return small_segment_bytes;
  if (block < min_large_request_bytes) return settings.large_segment.count;
  return round_up(block, large_rounding_bytes);
}

}  // namespace shardscope
