#include "tests/backend/profile/late_ranks.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include "backend/executor/executor.h"
#include "backend/executor/profiled_trace.h"
#include "backend/profile/peer_waits.h"
#include "core/base/error.h"
#include "core/schedule/schedule_builder.h"
#include "tests/backend/scripted_device.h"

namespace shardscope::test {
namespace {

constexpr std::chrono::milliseconds late{1000};
constexpr std::int64_t surely_waited_ns = 200'000'000;  // the others may be late, too

/// A kernel, then an all-reduce of what it wrote.
Schedule one_reduction(int rank, int ranks) {
  Schedule start;
  start.rank = rank;
  start.world = ranks;
  ScheduleBuilder builder{std::move(start)};
  const BufferId sum = builder.add_buffer("sum", MemoryCategory::gradients, 4_B, {},
                                          ScheduleBuilder::Life::persistent);
  const GroupId all = builder.add_group({.name = "world", .ranks = Ranks::up_to(ranks)});
  builder.add_kernel({.name = "write"}, FillZeroKernel{.elements = 1},
                     {builder.whole(sum, Access::write)});
  builder.add_collective(
      {.name = "reduce", .kind = OperationKind::all_reduce, .stream = Stream::reduce},
      {.group = all, .elements_in = 1, .elements_out = 1, .dtype = Dtype::float32},
      {builder.whole(sum, Access::read_write)});
  Schedule schedule = builder.finish();
  schedule.steps = {{"steady", {0, static_cast<std::uint32_t>(schedule.operations.size())}}};
  return schedule;
}

struct Split {
  Duration collective;
  std::int64_t waiting_ns = -1;
  std::int64_t last_rank = -1;
};

std::vector<Split> splits_of(const Trace& trace) {
  std::vector<Split> splits;
  for (std::size_t i = 0; i < trace.spans.size(); ++i) {
    if (trace.spans[i].span_class != SpanClass::communication) continue;
    splits.push_back({.collective = trace.spans[i].duration,
                      .waiting_ns = measure_of(trace, i, "waiting_ns").value_or(-1),
                      .last_rank = measure_of(trace, i, "last_rank").value_or(-1)});
  }
  return splits;
}

/// Step 1: the last rank is late; step 2: rank 0.
std::vector<Split> run(Communicator& world, std::int64_t clock_offset_ns) {
  const std::array<int, 2> late_rank{world.size() - 1, 0};
  ScriptedDevice device([&](const Kernel&, const KernelCall& call) {
    const auto step = static_cast<std::size_t>(call.state.step);
    if (late_rank.at(step - 1) == world.rank()) std::this_thread::sleep_for(late);
    *static_cast<float*>(call.operands[0]) = 1;
  });
  const Schedule schedule = one_reduction(world.rank(), world.size());
  Executor executor(schedule, device, world, {.recorded_steps = 2});
  PeerWaits waits(executor, world, [=] { return clock_offset_ns; });
  executor.set_probes({waits.probe()});
  waits.start();
  for (const std::int64_t step : {1, 2}) executor.run_step({.learning_rate = 0, .step = step});
  waits.stop();
  executor.set_probes({});
  Trace trace = profiled_trace(executor, "scripted", 0);
  waits.add_to(trace, {.base_monotonic_ns = executor.recorder().base_monotonic_ns(),
                       .first_step = 1,
                       .last_step = 2});
  // Nobody leaves while a peer may still read its memory.
  executor.between_steps([&] { world.barrier(); });
  return splits_of(trace);
}

void require(bool holds, const Communicator& world, const std::vector<Split>& splits) {
  if (holds) return;
  std::string text;
  for (const Split& split : splits)
    text += fmt::format(" {} ns of {} ns for rank {};", split.waiting_ns, split.collective.ns,
                        split.last_rank);
  throw Error({.where = fmt::format("rank {}", world.rank()), .what = "waits" + text});
}

}  // namespace

void check_who_waits(Communicator& world) {
  const std::vector<Split> splits = run(world, 1'000'000'000);
  require(splits.size() == 2, world, splits);
  const std::array<int, 2> late_rank{world.size() - 1, 0};
  for (std::size_t step = 0; step < 2; ++step) {
    const Split& split = splits[step];
    require(split.last_rank == late_rank.at(step), world, splits);
    if (split.last_rank == world.rank())
      require(split.waiting_ns == 0, world, splits);
    else
      require(split.waiting_ns > surely_waited_ns && split.waiting_ns <= split.collective.ns, world,
              splits);
  }
}

void check_that_clocks_count(Communicator& world) {
  const int behind = world.size() - 1;
  const std::vector<Split> splits = run(world, world.rank() == behind ? 10'000'000'000 : 0);
  for (const Split& split : splits) {
    require(split.last_rank == behind, world, splits);
    // All of the collective, and never more than that.
    const std::int64_t expected = world.rank() == behind ? 0 : split.collective.ns;
    require(split.waiting_ns == expected, world, splits);
  }
}

}  // namespace shardscope::test
