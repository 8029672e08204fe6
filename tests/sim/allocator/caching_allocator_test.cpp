#include "sim/allocator/caching_allocator.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace shardscope {
namespace {

constexpr DeviceStream side_stream = pool_stream(0, 0);

AllocatorSettings with(std::string_view conf) { return parse_allocator_settings(conf, "test"); }

TEST(CachingAllocator, HandsOutALargeBlockWholeIfTheRestIsOneMiBOrLess) {
  InstantDevice device;
  CachingAllocator allocator({}, {.total = 1_GiB}, device);
  allocator.allocate(11_MiB, default_stream);  // of a segment of 12 MiB
  EXPECT_EQ(allocator.statistics().allocated_bytes.current, (12_MiB).count);
  EXPECT_EQ(allocator.statistics().requested_bytes.current, (11_MiB).count);
}

TEST(CachingAllocator, KeepsBlocksOfOneStreamFromAnother) {
  InstantDevice device;
  CachingAllocator allocator({}, {.total = 1_GiB}, device);
  allocator.free(*allocator.allocate(30_MiB, default_stream));
  allocator.allocate(30_MiB, side_stream);
  EXPECT_EQ(allocator.statistics().reserved_bytes.current, (60_MiB).count);
}

// The block is neither allocated nor free until the host has waited for the other stream.
TEST(CachingAllocator, HoldsABlockThatAnotherStreamUses) {
  HostBoundDevice device;
  CachingAllocator allocator({}, {.total = 1_GiB}, device);
  const MemoryBlockId block = *allocator.allocate(30_MiB, default_stream);
  allocator.record_stream(block, side_stream);
  allocator.free(block);
  EXPECT_EQ(allocator.statistics().allocated_bytes.current, 0);
  EXPECT_EQ(allocator.statistics().active_bytes.current, (30_MiB).count);
  allocator.allocate(30_MiB, default_stream);
  EXPECT_EQ(allocator.statistics().reserved_bytes.current, (60_MiB).count);
  device.wait(side_stream);
  allocator.allocate(30_MiB, default_stream);
  EXPECT_EQ(allocator.statistics().reserved_bytes.current, (60_MiB).count);
}

// A CUDA graph's blocks and the others lie in segments of their own, of 30 MiB each.
TEST(CachingAllocator, KeepsAPrivatePoolFromTheUsualOne) {
  InstantDevice device;
  CachingAllocator allocator({}, {.total = 1_GiB}, device);
  const auto reserved = [&] { return Bytes{allocator.statistics().reserved_bytes.current}; };
  allocator.free(*allocator.allocate(30_MiB, default_stream));
  const MemoryBlockId of_graph = *allocator.allocate(30_MiB, default_stream, 2);
  EXPECT_EQ(reserved(), 60_MiB);
  allocator.free(of_graph);
  allocator.empty_cache();
  EXPECT_EQ(reserved(), 30_MiB);
  allocator.allocate(30_MiB, default_stream, 2);
  EXPECT_EQ(reserved(), 30_MiB);
  allocator.free(*allocator.allocate(30_MiB, default_stream, 1));
  EXPECT_EQ(reserved(), 60_MiB);
  allocator.empty_cache(2);
  EXPECT_EQ(reserved(), 60_MiB);
  allocator.empty_cache(1);
  EXPECT_EQ(reserved(), 30_MiB);
}

// 100 MiB are cached for another stream; the request for 950 MiB of 1 GiB fits only without them.
TEST(CachingAllocator, TriesAgainWithoutTheCache) {
  InstantDevice device;
  CachingAllocator allocator({}, {.total = 1_GiB}, device);
  allocator.free(*allocator.allocate(100_MiB, side_stream));
  EXPECT_TRUE(allocator.allocate(950_MiB, default_stream));
  EXPECT_EQ(allocator.statistics().retries, 1);
  EXPECT_EQ(allocator.statistics().reserved_bytes.current, (950_MiB).count);
}

TEST(CachingAllocator, SaysWhatDidNotFit) {
  InstantDevice device;
  CachingAllocator allocator({}, {.total = 1_GiB, .outside = 100_MiB}, device);
  allocator.allocate(600_MiB, default_stream);
  EXPECT_FALSE(allocator.allocate(401_MiB, default_stream));
  EXPECT_EQ(allocator.failure()->segment, 402_MiB);
  EXPECT_EQ(allocator.failure()->free, 324_MiB);
  EXPECT_EQ(message_of(*allocator.failure()),
            "CUDA out of memory. Tried to allocate 402.00 MiB. GPU 0 has a total capacity of "
            "1024.00 MiB of which 324.00 MiB is free. Of the allocated memory 600.00 MiB is "
            "allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated. If reserved "
            "but unallocated memory is large try setting "
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation. ");
}

TEST(CachingAllocator, MapsOnlyWhatAnExpandableSegmentLacks) {
  InstantDevice device;
  CachingAllocator allocator(with("expandable_segments:True"), {.total = 1_GiB}, device);
  allocator.allocate(30_MiB, default_stream);  // two pages of 20 MiB, 10 MiB left
  allocator.allocate(25_MiB, default_stream);  // one page more
  EXPECT_EQ(allocator.statistics().reserved_bytes.current, (60_MiB).count);
  EXPECT_EQ(allocator.statistics().allocated_bytes.current, (55_MiB).count);
}

/// Two allocators that are asked for the same: one block by block, the other for many at once.
struct Twins {
  InstantDevice device;
  CachingAllocator single{{}, {.total = 64_MiB}, device}, at_once{{}, {.total = 64_MiB}, device};

  void expect_alike() const {
    EXPECT_EQ(single.statistics(), at_once.statistics());
    const auto ones = single.segments(), others = at_once.segments();
    ASSERT_EQ(ones.size(), others.size());
    for (std::size_t i = 0; i < ones.size(); ++i)
      EXPECT_EQ(free_parts(ones[i]), free_parts(others[i]));
  }

 private:
  /// Where a segment is free: offsets and sizes.
  static std::vector<std::pair<std::int64_t, std::int64_t>> free_parts(
      const SegmentSnapshot& segment) {
    std::vector<std::pair<std::int64_t, std::int64_t>> parts;
    std::int64_t offset = 0;
    for (const BlockSnapshot& block : segment.blocks) {
      if (block.state == BlockState::inactive) parts.emplace_back(offset, block.size.count);
      offset += block.size.count;
    }
    return parts;
  }
};

// Among other blocks, which leave gaps. A set of blocks is freed in its order, or cut apart before,
// and the figures, their peaks and the gaps are the same after each step.
TEST(CachingAllocator, ManyBlocksAtOnceAreAsOneByOne) {
  struct Set {
    std::vector<Bytes> requests;
    std::vector<MemoryBlockId> single;
    std::vector<CachingAllocator::BlockRun> runs;
  };
  std::mt19937_64 random(11);
  const auto pick = [&](std::uint64_t below) { return random() % below; };
  Twins twins;
  std::vector<Set> sets;
  std::vector<std::pair<MemoryBlockId, MemoryBlockId>> others;
  int cut = 0, freed = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t what = pick(5);
    if (what == 0) {
      const auto blocks = static_cast<std::int64_t>(512 * (1 + pick(3)));
      Set set;
      for (std::uint64_t j = 0; j <= pick(3); ++j)
        set.requests.push_back({blocks - static_cast<std::int64_t>(pick(500))});
      const auto times = static_cast<std::int64_t>(1 + pick(2000));
      set.runs = twins.at_once.allocate_alike(set.requests, times, default_stream);
      if (set.runs.empty()) continue;
      for (std::int64_t j = 0; j < times; ++j)
        for (const Bytes bytes : set.requests)
          set.single.push_back(*twins.single.allocate(bytes, default_stream));
      sets.push_back(std::move(set));
    } else if (what == 1) {
      const Bytes bytes{static_cast<std::int64_t>(1 + pick(5000))};
      const auto one = twins.single.allocate(bytes, default_stream);
      const auto other = twins.at_once.allocate(bytes, default_stream);
      ASSERT_EQ(one.has_value(), other.has_value());
      if (one) others.emplace_back(*one, *other);
    } else if (what == 2 && !others.empty()) {
      std::swap(others[pick(others.size())], others.back());
      twins.single.free(others.back().first);
      twins.at_once.free(others.back().second);
      others.pop_back();
    } else if (what > 2 && !sets.empty()) {
      std::swap(sets[pick(sets.size())], sets.back());
      Set& set = sets.back();
      for (const MemoryBlockId block : set.single) twins.single.free(block);
      std::size_t turn = 0;
      for (const auto& run : set.runs) {
        if (what == 3) {
          twins.at_once.free_run(run);
          ++freed;
          continue;
        }
        std::vector<Bytes> requested;
        for (std::int64_t j = 0; j < run.blocks; ++j)
          requested.push_back(set.requests[turn++ % set.requests.size()]);
        for (const MemoryBlockId block : twins.at_once.cut_run(run, requested))
          twins.at_once.free(block);
        ++cut;
      }
      sets.pop_back();
    }
    twins.expect_alike();
    if (HasFailure()) return;
  }
  EXPECT_GT(cut, 50);
  EXPECT_GT(freed, 50);
}

TEST(CachingAllocator, ManyBlocksAtOnceAreRefusedWhereEachOneCounts) {
  HostBoundDevice device;
  const std::vector<Bytes> small{100_B}, unlike{100_B, 600_B}, large{2_MiB};
  CachingAllocator allocator({}, {.total = 8_MiB}, device);
  EXPECT_TRUE(allocator.allocate_alike(unlike, 4, default_stream).empty());
  EXPECT_TRUE(allocator.allocate_alike(large, 2, default_stream).empty());
  // 8 MiB hold 16,384 blocks.
  EXPECT_TRUE(allocator.allocate_alike(small, 16'385, default_stream).empty());
  EXPECT_EQ(allocator.statistics(), AllocatorStatistics{});
  EXPECT_EQ(allocator.allocate_alike(small, 16'384, default_stream).size(), 4U);
  CachingAllocator waiting({}, {.total = 8_MiB}, device);
  const MemoryBlockId used = *waiting.allocate(100_B, default_stream);
  waiting.record_stream(used, side_stream);
  waiting.free(used);
  EXPECT_TRUE(waiting.allocate_alike(small, 2, default_stream).empty());
}

/// Sums over the segments against the allocator's own figures.
void expect_sound(const CachingAllocator& allocator) {
  std::int64_t reserved = 0;
  std::int64_t allocated = 0;
  std::int64_t active = 0;
  for (const SegmentSnapshot& segment : allocator.segments()) {
    Bytes blocks;
    for (const BlockSnapshot& block : segment.blocks) {
      ASSERT_GT(block.size.count, 0);
      blocks += block.size;
      if (block.state == BlockState::allocated) allocated += block.size.count;
      if (block.state != BlockState::inactive) active += block.size.count;
    }
    ASSERT_EQ(blocks, segment.size);
    reserved += segment.size.count;
  }
  ASSERT_EQ(reserved, allocator.statistics().reserved_bytes.current);
  ASSERT_EQ(allocated, allocator.statistics().allocated_bytes.current);
  ASSERT_EQ(active, allocator.statistics().active_bytes.current);
}

class AnyRequests : public ::testing::TestWithParam<const char*> {};

// Whatever is asked: every byte of a segment is in exactly one block, the figures are their sums,
// and nothing is left when all is free.
TEST_P(AnyRequests, LeaveTheSegmentsSound) {
  std::mt19937_64 random(7);
  HostBoundDevice device;
  CachingAllocator allocator(with(GetParam()), {.total = 600_MiB}, device);
  std::vector<MemoryBlockId> live;
  const auto pick = [&](std::uint64_t below) { return random() % below; };
  const auto some_stream = [&] { return pool_stream(static_cast<std::uint32_t>(pick(4)), 0); };
  for (int i = 0; i < 4000; ++i) {
    if (!live.empty() && pick(100) < 47) {
      std::swap(live[pick(live.size())], live.back());
      if (pick(4) == 0) allocator.record_stream(live.back(), some_stream());
      allocator.free(live.back());
      live.pop_back();
    } else if (const auto got = allocator.allocate(
                   {static_cast<std::int64_t>(1 + pick(std::uint64_t{1} << pick(27)))},
                   some_stream())) {
      live.push_back(*got);
    }
    if (pick(50) == 0) device.wait(some_stream());
    if (pick(300) == 0) allocator.empty_cache();
    if (i % 40 == 0) expect_sound(allocator);
    if (HasFatalFailure()) return;
  }
  for (const MemoryBlockId block : live) allocator.free(block);
  allocator.empty_cache();
  EXPECT_TRUE(allocator.segments().empty());
  EXPECT_EQ(allocator.statistics().reserved_bytes.current, 0);
  EXPECT_EQ(allocator.statistics().requested_bytes.current, 0);
  EXPECT_EQ(allocator.statistics().inactive_split_bytes.current, 0);
}

INSTANTIATE_TEST_SUITE_P(Settings, AnyRequests,
                         ::testing::Values("", "max_split_size_mb:32", "expandable_segments:True",
                                           "roundup_power2_divisions:4",
                                           "garbage_collection_threshold:0.5,"
                                           "per_process_memory_fraction:0.8"));

}  // namespace
}  // namespace shardscope
