#include "backend/executor/stream_order.h"

#include <gtest/gtest.h>

#include "core/schedule/schedule_builder.h"

namespace shardscope {
namespace {

using Events = std::vector<std::uint32_t>;

Events events(std::span<const std::uint32_t> list) { return {list.begin(), list.end()}; }

/// Two gathers, a kernel for each of the gathered buffers, and the reduction of what they wrote.
///   0 gather a   1 gather b   2 kernel(a)   3 kernel(b)   4 reduce   5 end of step
Schedule gather_compute_reduce() {
  ScheduleBuilder builder{Schedule{}};
  const GroupId world = builder.add_group({.name = "world", .ranks = {0}});
  const auto buffer = [&](const char* name, ScheduleBuilder::Life life) {
    return builder.add_buffer(name, MemoryCategory::parameters, 64_B, {}, life);
  };
  const BufferId shard = buffer("shard", ScheduleBuilder::Life::persistent);
  const BufferId a = buffer("a", ScheduleBuilder::Life::persistent);
  const BufferId b = buffer("b", ScheduleBuilder::Life::persistent);
  const BufferId sum = buffer("sum", ScheduleBuilder::Life::persistent);
  const auto gather = [&](BufferId to) {
    builder.add_collective(
        {.name = "gather", .kind = OperationKind::all_gather, .stream = Stream::unshard},
        {world, 16, 16}, {builder.whole(shard, Access::read), builder.whole(to, Access::write)});
  };
  gather(a);
  gather(b);
  for (const BufferId from : {a, b})
    builder.add_kernel({.name = "kernel"}, AddKernel{.elements = 16},
                       {builder.whole(from, Access::read), builder.whole(sum, Access::read_write)});
  builder.add_collective(
      {.name = "reduce", .kind = OperationKind::all_reduce, .stream = Stream::reduce},
      {world, 16, 16}, {builder.whole(sum, Access::read_write)});
  return builder.finish();
}

std::vector<OperationId> all_of(const Schedule& schedule) {
  std::vector<OperationId> ids;
  for (std::size_t i = 0; i < schedule.operations.size(); ++i) ids.push_back(OperationId::of(i));
  return ids;
}

// Event 0 is the begin; an event is given out when somebody first waits for it: 1 the first gather,
// 2 the second, 3 the second kernel, 4 the reduction.
TEST(StreamOrder, WaitsForWhatIsUsedAndNothingTwice) {
  const Schedule schedule = gather_compute_reduce();
  const StreamOrder order(schedule, all_of(schedule));
  const auto waits = [&](std::uint32_t id) { return events(order.waits_of(OperationId{id})); };
  const auto mark = [&](std::uint32_t id) { return order.mark_of(OperationId{id}); };
  EXPECT_EQ(waits(0), (Events{StreamOrder::begin}));
  EXPECT_EQ(waits(1), Events{});
  EXPECT_EQ(waits(2), Events{1});
  EXPECT_EQ(waits(3), Events{2});
  EXPECT_EQ(waits(4), (Events{StreamOrder::begin, 3}));
  EXPECT_EQ(waits(5), Events{4});
  EXPECT_EQ(mark(0), 1u);
  EXPECT_EQ(mark(1), 2u);
  EXPECT_EQ(mark(2), std::nullopt);
  EXPECT_EQ(mark(3), 3u);
  EXPECT_EQ(mark(4), 4u);
  EXPECT_EQ(order.event_count(), 5u);
  EXPECT_EQ(events(order.waits_at_end()), Events{});
}

// Without the operation that closes the step, compute still comes last.
TEST(StreamOrder, ComputeWaitsForAllStreamsAtTheEnd) {
  const Schedule schedule = gather_compute_reduce();
  std::vector<OperationId> pass = all_of(schedule);
  pass.pop_back();
  EXPECT_EQ(events(StreamOrder(schedule, pass).waits_at_end()), Events{4});
  pass.resize(2);
  const StreamOrder gathers(schedule, pass);
  EXPECT_EQ(events(gathers.waits_at_end()), Events{1});
  EXPECT_EQ(gathers.mark_of(OperationId{1}), 1u);
}

// Of what ran in another pass nothing is waited for.
TEST(StreamOrder, KnowsItsOwnPassOnly) {
  const Schedule schedule = gather_compute_reduce();
  const std::vector<OperationId> pass{OperationId{2}, OperationId{3}};
  const StreamOrder order(schedule, pass);
  EXPECT_TRUE(order.waits_of(OperationId{2}).empty());
  EXPECT_EQ(order.event_count(), 1u);
}

}  // namespace
}  // namespace shardscope
