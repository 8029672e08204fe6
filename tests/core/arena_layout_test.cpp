// The layout of an arena beside the plain rule that it follows.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "core/schedule/schedule.h"

namespace shardscope {
namespace {

constexpr std::uint32_t operations = 300;

Schedule random_schedule(std::mt19937& random) {
  Schedule schedule;
  schedule.operations.resize(operations);
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  const std::uint32_t count = 1 + below(60);
  for (std::uint32_t i = 0; i < count; ++i) {
    Buffer buffer;
    buffer.bytes = {64 * (1 + below(i % 2 == 0 ? 4 : 40))};
    if (i % 10 != 0) {  // others live through the step
      const std::uint32_t first = below(operations);
      const std::uint32_t length = below(i % 3 == 0 ? operations : 20);
      buffer.allocated_by = OperationId{first};
      buffer.freed_by = OperationId{std::min(operations - 1, first + length)};
    }
    schedule.buffers.push_back(buffer);
  }
  return schedule;
}

struct Placed {
  std::uint32_t first = 0, last = 0;
  std::int64_t begin = 0, end = 0;
};

Placed life_of(const Buffer& buffer) {
  return {.first = buffer.allocated_by ? buffer.allocated_by.value : 0,
          .last = buffer.freed_by ? buffer.freed_by.value : operations - 1};
}

std::int64_t most_at_once(const Schedule& schedule) {
  std::int64_t most = 0;
  for (std::uint32_t op = 0; op < operations; ++op) {
    std::int64_t now = 0;
    for (const Buffer& buffer : schedule.buffers) {
      const Placed life = life_of(buffer);
      if (life.first <= op && op <= life.last) now += buffer.bytes.count;
    }
    most = std::max(most, now);
  }
  return most;
}

/// Largest first, then longest-lived; each in the smallest hole between those that live with it.
std::vector<Bytes> plain_offsets(const Schedule& schedule, std::int64_t& size) {
  std::vector<std::size_t> order(schedule.buffers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    const Buffer &x = schedule.buffers[a], &y = schedule.buffers[b];
    const Placed p = life_of(x), q = life_of(y);
    return x.bytes != y.bytes ? x.bytes > y.bytes : p.last - p.first > q.last - q.first;
  });
  std::vector<Bytes> offsets(order.size());
  std::vector<Placed> placed;  // by begin
  size = 0;
  for (const std::size_t i : order) {
    Placed item = life_of(schedule.buffers[i]);
    const std::int64_t bytes = schedule.buffers[i].bytes.count;
    std::int64_t free_from = 0, smallest = -1;
    for (const Placed& other : placed) {
      if (other.first > item.last || item.first > other.last) continue;
      const std::int64_t hole = other.begin - free_from;
      if (hole >= bytes && (smallest < 0 || hole < smallest)) {
        smallest = hole;
        item.begin = free_from;
      }
      free_from = std::max(free_from, other.end);
    }
    if (smallest < 0) item.begin = free_from;
    item.end = item.begin + bytes;
    size = std::max(size, item.end);
    offsets[i] = {item.begin};
    placed.insert(std::ranges::upper_bound(placed, item.begin, {}, &Placed::begin), item);
  }
  return offsets;
}

TEST(ArenaLayout, IsThatOfThePlainRuleWhereThatWastesNothing) {
  std::mt19937 random(1);
  int compared = 0;
  for (int i = 0; i < 400; ++i) {
    const Schedule schedule = random_schedule(random);
    std::int64_t size = 0;
    const std::vector<Bytes> expected = plain_offsets(schedule, size);
    const ArenaLayout layout = arena_layout(schedule);
    EXPECT_LE(layout.size.count, size);  // it tries other orders
    if (size != most_at_once(schedule)) continue;
    EXPECT_EQ(layout.offset, expected);
    EXPECT_EQ(layout.size.count, size);
    ++compared;
  }
  EXPECT_GT(compared, 50);
}

TEST(ArenaLayout, KeepsAGapBehindBuffersOfAnySizeThatLiveTogether) {
  constexpr Bytes gap{64};
  std::mt19937 random(3);
  for (int i = 0; i < 100; ++i) {
    Schedule schedule = random_schedule(random);
    for (Buffer& buffer : schedule.buffers) {
      buffer.bytes = {static_cast<std::int64_t>(random() % 5 == 0 ? 0 : random() % 3000)};
      buffer.on_host = random() % 8 == 0;
    }
    const ArenaLayout layout = arena_layout(schedule, gap);
    for (std::size_t a = 0; a < schedule.buffers.size(); ++a) {
      const Buffer& x = schedule.buffers[a];
      if (x.on_host) continue;
      EXPECT_EQ(layout.offset[a].count % 64, 0);
      EXPECT_LE(layout.offset[a] + x.bytes, layout.size);
      for (std::size_t b = 0; b < a; ++b) {
        const Buffer& y = schedule.buffers[b];
        const Placed p = life_of(x), q = life_of(y);
        if (y.on_host || p.first > q.last || q.first > p.last) continue;
        if (x.bytes == Bytes{} || y.bytes == Bytes{}) continue;
        EXPECT_TRUE(layout.offset[a] + x.bytes + gap <= layout.offset[b] ||
                    layout.offset[b] + y.bytes + gap <= layout.offset[a])
            << a << " and " << b;
      }
    }
  }
  EXPECT_EQ(arena_layout(Schedule{}).size, Bytes{});
}

TEST(ArenaLayout, FitsWhereItIsNoLarger) {
  std::mt19937 random(2);
  for (int i = 0; i < 50; ++i) {
    const std::vector<Schedule> stages{random_schedule(random), random_schedule(random),
                                       random_schedule(random)};
    Bytes largest;
    for (const Schedule& stage : stages) largest = std::max(largest, arena_layout(stage).size);
    EXPECT_EQ(largest_arena(stages), largest);
    EXPECT_TRUE(arenas_fit(stages, largest));
    EXPECT_FALSE(arenas_fit(stages, largest - Bytes{1}));
  }
}

}  // namespace
}  // namespace shardscope
