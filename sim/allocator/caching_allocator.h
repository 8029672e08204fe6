// The CUDA caching allocator of PyTorch: segments from the device, cut into blocks, kept for reuse
// by stream.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/base/quantities.h"
#include "sim/allocator/allocator_settings.h"
#include "sim/allocator/allocator_statistics.h"
#include "sim/allocator/allocator_trace.h"
#include "sim/allocator/device_events.h"
#include "sim/allocator/free_blocks.h"
#include "sim/allocator/stream_table.h"

namespace shardscope {

/// The device's memory as the allocator finds it.
struct DeviceCapacity {
  Bytes total{80ll << 30};
  Bytes outside;  ///< taken by others: context, NCCL, other processes
};

/// Plays c10/cuda/CUDACachingAllocator.cpp of torch 2.15, decision by decision: rounding, best fit,
/// splitting, merging, deferred frees, retries, garbage collection, expandable segments, running
/// out of memory. Of private pools (CUDA graphs) whole segments are given back when told.
class CachingAllocator {
 public:
  /// `events` must outlive the allocator.
  CachingAllocator(const AllocatorSettings& settings, DeviceCapacity memory, DeviceEvents& events);

  /// Memory for a tensor of `bytes` (more than 0); none: out of memory, see `failure`. `owner`: a
  /// private pool, whose segments no other pool uses; 0: the usual one.
  std::optional<MemoryBlockId> allocate(Bytes bytes, DeviceStream stream, std::uint16_t owner = 0);
  void free(MemoryBlockId id);
  /// Blocks that lie side by side and are one to the allocator.
  struct BlockRun {
    MemoryBlockId id;
    std::int64_t blocks = 0;
  };
  /// As `allocate` of each of `requests`, in their order, `times` times over. Empty, and nothing
  /// done, where that is more than cutting small blocks of one size from segments: where blocks are
  /// waited for, the device may run out, or a setting looks at each block.
  std::vector<BlockRun> allocate_alike(std::span<const Bytes> requests, std::int64_t times,
                                       DeviceStream stream);
  /// As `free` of each block, in their order.
  void free_run(const BlockRun& run);
  /// The blocks by themselves. `requested`: by each of them.
  std::vector<MemoryBlockId> cut_run(const BlockRun& run, std::span<const Bytes> requested);
  /// The block is used on `stream` too: it is not given out again before that has finished what is
  /// issued to it by the time of `free`.
  void record_stream(MemoryBlockId id, DeviceStream stream);
  /// Of an allocated block; as `AllocatorStatistics::allocated_bytes` counts it.
  Bytes size_of(MemoryBlockId id) const {
    return {blocks_[static_cast<std::size_t>(id.value)].size};
  }
  /// Gives back whatever is not in use, of one pool.
  void empty_cache(std::uint16_t owner = 0);

  const AllocatorStatistics& statistics() const { return statistics_; }
  void reset_peaks() { statistics_.reset_peaks(); }
  /// The last request that failed.
  const std::optional<OutOfMemory>& failure() const { return failure_; }
  /// All segments, in order of creation; contiguous ranges of one in order of address.
  std::vector<SegmentSnapshot> segments() const;
  void keep_trace() { keeps_trace_ = true; }
  const std::vector<AllocatorTraceEntry>& trace() const { return trace_; }

 private:
  static constexpr std::int32_t none = -1;

  struct Block {
    std::int64_t address = 0;  // later segments lie higher, as the order of search wants it
    std::int64_t size = 0;
    std::int64_t requested = 0;
    std::int64_t age_base = 0;     // the pool's searches when it became free
    std::uint64_t used_by = 0;     // other streams, one bit each
    std::int32_t previous = none;  // neighbours in the segment
    std::int32_t next = none;
    std::int32_t segment = none;
    std::int32_t waiting = 0;  // events that are not done
    DeviceStream stream;
    std::uint16_t owner = 0;
    PoolKind pool = PoolKind::large;
    bool allocated : 1 = false;
    bool mapped : 1 = true;
  };
  struct Segment {
    std::int64_t address = 0;
    std::int32_t number = no_segment;  // in the trace: by first use
    bool expandable = false;
  };
  struct Pool {
    std::vector<FreeBlocks> free;                     // by stream
    std::vector<std::vector<std::int32_t>> unmapped;  // by stream: blocks by address
    std::int64_t searches = 0;                        // counted for garbage collection only
  };
  struct Request {
    std::int64_t bytes = 0;
    std::int64_t size = 0;
    std::int64_t segment = 0;
    DeviceStream stream;
    std::uint16_t owner = 0;
    PoolKind pool = PoolKind::large;
  };
  struct Pending {
    DeviceEvent event;
    std::int32_t block = none;
  };
  struct PendingQueue {
    std::vector<Pending> waiting;
    std::size_t first = 0;
  };

  // Requests (caching_allocator.cpp)
  Request request_for(Bytes bytes, DeviceStream stream) const;
  std::int32_t take_free(const Request& request);
  std::size_t best_fit(const FreeBlocks& free, const Request& request) const;
  std::int32_t take_from_device(const Request& request);
  std::int32_t new_segment(const Request& request);
  std::int32_t open_segment(const Request& request, std::int64_t size, bool expandable);
  MemoryBlockId hand_out(std::int32_t found, const Request& request);
  std::int32_t split(std::int32_t found, std::int64_t size);
  bool should_split(const Block& block, std::int64_t size) const;
  void note_failure(const Request& request);

  // Runs (caching_allocator_runs.cpp)
  bool can_cut_runs(const Request& request, std::int64_t blocks) const;

  // Frees (caching_allocator_frees.cpp)
  void free_block(std::int32_t index, std::int64_t merged_before = 0);
  std::int64_t merge(std::int32_t into, std::int32_t from);
  void defer(std::int32_t index);
  void defer_on(DeviceStream stream, std::int32_t index);
  void poll_events();
  void wait_for_events();
  void event_done(std::int32_t index);

  // Giving back (caching_allocator_release.cpp)
  void collect_garbage();
  bool release_oversize(const Request& request);
  void release_cached(std::uint16_t owner = 0);
  void release_pool(Pool& pool);
  void release(std::int32_t index);

  // Expandable segments (caching_allocator_expandable.cpp)
  std::int32_t grow_segment(const Request& request);
  std::int32_t room_to_grow(const Request& request);
  std::int32_t reserve_addresses(const Request& request);
  bool map(std::int32_t index, std::int64_t size);
  void unmap(std::int32_t index);
  void forget_segment(std::int32_t index);
  void cut_free(std::int32_t index, std::int64_t address, std::int64_t size, bool before);
  bool can_be_used(std::int32_t index) const;
  std::int64_t expandable_size(const FreeBlock& block) const;
  std::int64_t page_bytes(PoolKind pool) const;

  // Bookkeeping
  SegmentSnapshot segment_from(std::int32_t head) const;
  Block& at(std::int32_t index) { return blocks_[static_cast<std::size_t>(index)]; }
  const Block& at(std::int32_t index) const { return blocks_[static_cast<std::size_t>(index)]; }
  Segment& segment_of(const Block& b) { return segments_[static_cast<std::size_t>(b.segment)]; }
  const Segment& segment_of(const Block& b) const {
    return segments_[static_cast<std::size_t>(b.segment)];
  }
  Pool& pool(PoolKind kind, std::uint16_t owner) {
    return pools_[owner][static_cast<std::size_t>(kind)];
  }
  Pool& pool_of(const Block& b) { return pool(b.pool, b.owner); }
  FreeBlocks& free_of(const Block& b) { return pool_of(b).free[b.stream.value]; }
  std::vector<std::int32_t>& unmapped_of(const Block& b) {
    return pool_of(b).unmapped[b.stream.value];
  }
  bool is_split(const Block& b) const { return b.previous != none || b.next != none; }
  std::int32_t new_block(const Block& block);
  void forget_block(std::int32_t index) { unused_.push_back(index); }
  void link(std::int32_t index, std::int32_t previous, std::int32_t next);
  void insert_free(std::int32_t index);
  void erase_free(std::int32_t index);
  void insert_unmapped(std::int32_t index);
  void erase_unmapped(std::int32_t index);
  void reserve(PoolKind kind, std::int64_t bytes);
  void unreserve(PoolKind kind, std::int64_t bytes);
  bool fits_device(std::int64_t bytes) const;
  void note(AllocatorAction action, const Block& block, std::int64_t bytes);
  bool counts_age() const;
  void make_pools(std::uint16_t owner);

  AllocatorSettings settings_;
  DeviceCapacity memory_;
  std::optional<std::int64_t> allowed_;  // bytes that may be reserved, where there is a limit
  DeviceEvents& events_;
  std::vector<Block> blocks_;
  std::vector<std::int32_t> unused_;  // places in blocks_
  std::vector<Segment> segments_;
  std::vector<std::array<Pool, pool_kind_count>> pools_;  // by owner: small, large
  std::vector<PendingQueue> pending_;                     // by stream
  StreamTable pending_streams_;                           // those with events
  std::int64_t next_address_ = 0;
  std::int32_t segments_made_ = 0;
  AllocatorStatistics statistics_;
  std::optional<OutOfMemory> failure_;
  std::vector<AllocatorTraceEntry> trace_;
  bool keeps_trace_ = false;
};

}  // namespace shardscope
