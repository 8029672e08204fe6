// The figures of the caching allocator, as torch.cuda.memory_stats gives them.
#pragma once

#include <array>
#include <cstdint>

namespace shardscope {

/// A figure and its highest value since the start or since reset_peak.
struct Gauge {
  std::int64_t current = 0;
  std::int64_t peak = 0;

  void add(std::int64_t amount) {
    current += amount;
    if (current > peak) peak = current;
  }
  void take(std::int64_t amount) { current -= amount; }
  void reset_peak() { peak = current; }
  bool operator==(const Gauge&) const = default;
};

/// Blocks of up to 1 MiB and larger ones have pools of their own.
enum class PoolKind : std::uint8_t { small, large };
inline constexpr int pool_kind_count = 2;

/// Bytes and counts over all pools. Names: torch.cuda.memory_stats of torch 2.15, without ".all".
struct AllocatorStatistics {
  Gauge allocated_bytes;       ///< in use by tensors
  Gauge active_bytes;          ///< the same, and blocks freed but still waited for
  Gauge requested_bytes;       ///< as asked for, of the active blocks
  Gauge reserved_bytes;        ///< segments held
  Gauge inactive_split_bytes;  ///< free parts of segments that are partly in use
  Gauge segments;
  std::array<Gauge, pool_kind_count> reserved_by_pool;
  std::int64_t retries = 0;          ///< requests tried again after the cache had been given back
  std::int64_t out_of_memories = 0;  ///< requests that failed even so
  std::int64_t device_allocations = 0;  ///< cudaMalloc, or mapping of pages
  std::int64_t device_frees = 0;        ///< cudaFree, or unmapping

  void reset_peaks();
  bool operator==(const AllocatorStatistics&) const = default;
};

inline void AllocatorStatistics::reset_peaks() {
  for (Gauge* gauge :
       {&allocated_bytes, &active_bytes, &requested_bytes, &reserved_bytes, &inactive_split_bytes,
        &segments, &reserved_by_pool[0], &reserved_by_pool[1]})
    gauge->reset_peak();
}

}  // namespace shardscope
