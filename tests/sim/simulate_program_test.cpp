// Trainings under PyTorch's runtimes, played on a machine.
#include <gtest/gtest.h>

#include "sim/engine/program_player.h"
#include "sim/engine/simulate.h"
#include "tests/core/recorded_training.h"
#include "tests/sim/program_by_hand.h"

namespace shardscope {
namespace {

using testing::ProgramByHand;

/// A byte of an operation takes a nanosecond, a launch 1 us, a view a quarter of it.
HardwareProfile machine() {
  return {.name = "test",
          .device = "cuda",
          .memory = 80_GiB,
          .peak = {1e12},
          .memory_bandwidth = {1e9},
          .operation_overhead = 1_us,
          .link = Link{.bandwidth = {1e9}, .latency = 1_us}};
}

// Set-up takes 5 us on the device. Step "1": the host issues at 1 and 2 us from its start, the
// operations take 10 us each: it ends at 21 us. The next one is issued while that runs: it ends
// 7 us later.
TEST(SimulateProgram, AStepLastsFromTheEndOfTheOneBeforeOnTheDevice) {
  ProgramByHand program;
  program.launch(0, 5'000);
  program.begin_step("1");
  program.launch(0, 10'000);
  program.launch(0, 10'000);
  program.begin_step("steady");
  program.launch(0, 7'000);
  const Simulation simulation = simulate(program.finish(), machine());
  ASSERT_EQ(simulation.steps.size(), 2U);
  EXPECT_EQ(simulation.steps[0].window, (TimeWindow{0_us, 21_us}));
  EXPECT_EQ(simulation.steps[0].accounting.idle, 1_us);
  EXPECT_EQ(simulation.steps[1].window, (TimeWindow{21_us, 28_us}));
  EXPECT_EQ(simulation.accounting.span, 7_us);
  ASSERT_EQ(simulation.trace.spans.size(), 3U);
  EXPECT_EQ(simulation.trace.spans[2].step, 2);
}

TEST(SimulateProgram, TellsTheRequestThatFails) {
  ProgramByHand program;
  program.begin_step("1");
  program.launch(0, 1);
  program.begin_step("2");
  program.allocate(0, 3_MiB);
  program.allocate(0, 70_MiB);
  const Simulation simulation =
      simulate(program.finish(), machine(), {.memory = DeviceCapacity{.total = 64_MiB}});
  ASSERT_TRUE(simulation.out_of_memory);
  EXPECT_EQ(simulation.out_of_memory->step, "2");
  EXPECT_EQ(simulation.out_of_memory->requested, 70_MiB);
  EXPECT_EQ(simulation.out_of_memory->at_failure.allocated_bytes.current, (3_MiB).count);
}

TEST(SimulateProgram, SetUpMayFailToo) {
  ProgramByHand program;
  program.allocate(0, 70_MiB);
  program.begin_step("1");
  program.launch(0, 1);
  const Simulation simulation =
      simulate(program.finish(), machine(), {.memory = DeviceCapacity{.total = 64_MiB}});
  ASSERT_TRUE(simulation.out_of_memory);
  EXPECT_EQ(simulation.out_of_memory->step, "setup");
}

class EveryTraining : public ::testing::TestWithParam<std::string> {
 protected:
  const Schedule schedule_ = testing::recorded_llama(testing::setup_of(GetParam()));
};

TEST_P(EveryTraining, SpanIsComputeExposedCommunicationExposedCopiesAndIdle) {
  const Simulation simulation = simulate(schedule_, machine());
  ASSERT_EQ(simulation.steps.size(), 3U);
  for (const SimulatedStep& step : simulation.steps) {
    const Accounting& a = step.accounting;
    EXPECT_EQ(a.span, a.compute + a.exposed_communication + a.exposed_copy + a.idle);
    EXPECT_GT(a.compute, 0_ns);
  }
}

TEST_P(EveryTraining, NothingStartsBeforeWhatItIsAfterHasEnded) {
  const Simulation simulation = simulate(schedule_, machine());
  std::vector<Duration> ends(schedule_.operations.size(), Duration{-1});
  for (const Span& span : simulation.trace.spans)
    if (span.operation) ends[span.operation.value] = span.end();
  for (const Span& span : simulation.trace.spans) {
    if (!span.operation) continue;
    for (const OperationId before : schedule_.after_of(schedule_.at(span.operation)))
      ASSERT_LE(ends[before.value], span.start);
  }
}

AllocatorStatistics statistics_on(const Schedule& schedule, DeviceEvents& device) {
  CachingAllocator allocator({}, {}, device);
  ProgramPlayer player({.schedule = schedule, .allocator = &allocator, .device = device});
  player.play_until(schedule.steps.back().actions.end);
  return allocator.statistics();
}

// A device that is infinitely fast gives every block back at once; the slowest only when the host
// waits. A real one is in between.
TEST_P(EveryTraining, MemoryLiesBetweenTheTwoBounds) {
  InstantDevice instant;
  HostBoundDevice host_bound;
  const AllocatorStatistics fast = statistics_on(schedule_, instant);
  const AllocatorStatistics slow = statistics_on(schedule_, host_bound);
  const Simulation simulation = simulate(schedule_, machine());
  Bytes active, allocated;
  for (const SimulatedStep& step : simulation.steps) {
    active = std::max(active, step.memory.peak_active);
    allocated = std::max(allocated, step.memory.peak_allocated);
  }
  EXPECT_LE(fast.active_bytes.peak, active.count);
  EXPECT_LE(active.count, slow.active_bytes.peak);
  EXPECT_EQ(allocated.count, fast.allocated_bytes.peak);  // the host's order alone
  EXPECT_EQ(allocated.count, slow.allocated_bytes.peak);
}

TEST_P(EveryTraining, ThePeakIsWhatItsCategoriesAddUpTo) {
  for (const SimulatedStep& step : simulate(schedule_, machine()).steps) {
    EXPECT_EQ(step.memory.at_peak.total(), step.memory.peak_allocated);
    EXPECT_LE(step.memory.peak_allocated, step.memory.peak_active);
    EXPECT_LE(step.memory.peak_active, step.memory.peak_reserved);
  }
}

INSTANTIATE_TEST_SUITE_P(SimulateProgram, EveryTraining,
                         ::testing::ValuesIn(testing::every_runtime),
                         [](const auto& recorded) { return recorded.param; });

}  // namespace
}  // namespace shardscope
