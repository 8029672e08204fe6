#include "sim/engine/program_player.h"

#include <gtest/gtest.h>

#include <optional>

#include "sim/engine/timed_device.h"
#include "tests/sim/program_by_hand.h"

namespace shardscope {
namespace {

using testing::ProgramByHand;

/// A schedule with what plays it: every launch or dispatch takes the host 1 us, an operation as
/// many nanoseconds as it has bytes.
class Played {
 public:
  explicit Played(Schedule schedule, Bytes memory = 80_GiB)
      : schedule_(std::move(schedule)),
        costs_{
            .times = times_of(schedule_), .uses = {}, .clock = {.launch = 1_us, .dispatch = 1_us}},
        device(schedule_, costs_),
        allocator({}, {.total = memory}, device),
        player({.schedule = schedule_, .allocator = &allocator, .device = device}) {
    player.play_until(static_cast<std::uint32_t>(schedule_.program.actions.size()));
  }

 private:
  static std::vector<Duration> times_of(const Schedule& schedule) {
    std::vector<Duration> times;
    for (const Operation& op : schedule.operations) times.push_back({op.bytes.count});
    return times;
  }
  Schedule schedule_;
  StepCosts costs_;

 public:
  TimedDevice device;
  CachingAllocator allocator;
  ProgramPlayer player;
};

// A block of the compute stream, used on another for 100 us, is freed and asked for again while
// that runs: it is still waited for, so that a second segment is taken. (20 MiB: a segment each.)
TEST(ProgramPlayer, RecordStreamDelaysReuseUntilTheOtherStreamHasEnded) {
  const auto reserved_with = [](std::int64_t use_ns) {
    ProgramByHand program;
    const std::uint8_t side = program.lane("side", Stream::reduce);
    program.begin_step("steady");
    const BufferId buffer = program.allocate(0, 20_MiB);
    program.launch(side, use_ns);  // issued at 1 us
    program.record_stream(side, buffer);
    program.free(buffer);
    program.launch(0, 0);  // the host is at 2 us
    program.allocate(0, 20_MiB);
    return Bytes{Played(program.finish()).allocator.statistics().reserved_bytes.peak};
  };
  EXPECT_EQ(reserved_with(100'000), 40_MiB);
  EXPECT_EQ(reserved_with(1'000), 20_MiB);  // ended at 2 us
}

// FSDP1's rate limiter: at most two gathers in flight; the host waits for the event of the first
// before it issues the third. Gathers take 50 us; the first is issued at 1 us and freed at once.
TEST(ProgramPlayer, ARateLimiterBlocksTheHost) {
  ProgramByHand program;
  const std::uint8_t gather = program.lane("unshard", Stream::unshard);
  program.begin_step("steady");
  program.launch(gather, 50'000, OperationKind::all_gather);
  const std::uint32_t freed = program.record(gather);
  program.launch(gather, 50'000, OperationKind::all_gather);
  program.host_wait(freed);                                   // 51 us
  program.launch(gather, 50'000, OperationKind::all_gather);  // issued at 52, starts at 101
  Played played(program.finish());
  EXPECT_EQ(played.device.host_time(), 52_us);
  played.device.finish();
  EXPECT_EQ(played.device.times().start[2], 101_us);
}

// Five blocks of 512 bytes, 2 us apart, and a kernel: 5 x 2 x 1 us and 1 us. Two go one by one, the
// others at once.
TEST(ProgramPlayer, WhatIsRepeatedIsAllocatedEachTime) {
  ProgramByHand program;
  program.begin_step("steady");
  program.repeat(5);
  program.dispatch();
  const BufferId filling = program.allocate(0, 10_B);
  program.dispatch();
  program.again();
  program.launch(0, 1'000);
  program.repeat(2);
  program.free(filling);
  program.again();
  program.free(filling);
  const Played played(program.finish());
  EXPECT_EQ(played.device.host_time(), 11_us);
  const AllocatorStatistics& memory = played.allocator.statistics();
  EXPECT_EQ(Bytes{memory.allocated_bytes.peak}, 5 * 512_B);
  EXPECT_EQ(Bytes{memory.allocated_bytes.current}, 0_B);
}

// 100 dispatches of 1 us and 100 blocks of each of two buffers, let go of in the same turn. In
// between there is another block, so that they lie in two parts.
TEST(ProgramPlayer, WhatIsRepeatedIsFreedInTurn) {
  ProgramByHand program;
  program.begin_step("steady");
  program.repeat(100);
  const BufferId one = program.allocate(0, 10_B);
  program.dispatch();
  const BufferId other = program.allocate(0, 20_B, MemoryCategory::gradients);
  program.again();
  program.allocate(0, 30_B);
  program.repeat(100);
  program.free(one);
  program.free(other);
  program.again();
  const Played played(program.finish());
  EXPECT_EQ(played.device.host_time(), 100_us);
  const AllocatorStatistics& memory = played.allocator.statistics();
  EXPECT_EQ(Bytes{memory.allocated_bytes.peak}, 201 * 512_B);
  EXPECT_EQ(Bytes{memory.allocated_bytes.current}, 512_B);
  EXPECT_EQ(Bytes{memory.requested_bytes.peak}, Bytes{100 * (10 + 20) + 30});
  EXPECT_EQ(Bytes{memory.requested_bytes.current}, 30_B);
  EXPECT_EQ(played.player.figures().allocated.total(), 512_B);
  EXPECT_EQ(played.allocator.segments().front().blocks.size(), 3U);  // free, its block, free
}

TEST(ProgramPlayer, StopsAtTheRequestThatFails) {
  ProgramByHand program;
  program.begin_step("steady");
  program.allocate(0, 20_MiB);
  program.launch(0, 0);
  program.allocate(0, 20_MiB);  // of the operator that fails
  const BufferId last = program.allocate(0, 40_MiB);
  program.launch(0, 0);
  const Played played(program.finish(), 64_MiB);
  const std::optional<FailedRequest>& failed = played.player.failed();
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->buffer, last);
  EXPECT_EQ(failed->action, 3U);
  EXPECT_EQ(failed->failure.requested, 40_MiB);
  EXPECT_EQ(Bytes{failed->failure.statistics.allocated_bytes.current}, 40_MiB);
}

/// Allocated by category is the allocator's own sum, at every turn.
class Sums final : public ProgramPlayer::Watcher {
 public:
  explicit Sums(const CachingAllocator& allocator) : allocator_(allocator) {}
  void on_turn(const MemoryMoment& figures, OperationId) override {
    EXPECT_EQ(figures.allocated.total().count, allocator_.statistics().allocated_bytes.current);
    EXPECT_LE(figures.allocated.total(), figures.active);
    EXPECT_LE(figures.active, figures.reserved);
    ++turns;
  }
  int turns = 0;

 private:
  const CachingAllocator& allocator_;
};

TEST(ProgramPlayer, CategoriesAddUpToWhatIsAllocated) {
  ProgramByHand program;
  program.begin_step("steady");
  const BufferId a = program.allocate(0, 100_B, MemoryCategory::parameters);
  const BufferId b = program.allocate(0, 3_MiB, MemoryCategory::activations);
  program.free(a);
  program.allocate(0, 700_B, MemoryCategory::workspace);
  program.free(b);
  const Schedule schedule = program.finish();
  InstantDevice device;
  CachingAllocator allocator({}, {}, device);
  ProgramPlayer player({.schedule = schedule, .allocator = &allocator, .device = device});
  Sums sums(allocator);
  player.watch(sums);
  EXPECT_TRUE(player.play_until(5));
  EXPECT_EQ(sums.turns, 4);
  EXPECT_EQ(player.figures().allocated[MemoryCategory::workspace], 1024_B);
}

}  // namespace
}  // namespace shardscope
