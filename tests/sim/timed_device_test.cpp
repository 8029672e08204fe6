#include "sim/engine/timed_device.h"

#include <gtest/gtest.h>

#include "tests/sim/program_by_hand.h"

namespace shardscope {
namespace {

using testing::ProgramByHand;

constexpr DeviceStream compute = default_stream;
constexpr DeviceStream side = pool_stream(0, 0);

/// Three operations of 10, 20 and 30 us.
Schedule three_operations(OperationKind second = OperationKind::compute) {
  ProgramByHand program;
  program.begin_step("steady");
  program.launch(0, 0);
  program.launch(0, 0, second);
  program.launch(0, 0);
  return program.finish();
}
/// Operations of 10, 20 and 30 us.
StepCosts costs_with(const DeviceClockOptions& clock, std::vector<LinkUse> uses = {}) {
  return {.times = {10_us, 20_us, 30_us}, .uses = std::move(uses), .clock = clock};
}
constexpr OperationId first{0}, second{1}, third{2};

TEST(TimedDevice, AnOperationStartsWhenTheHostHasIssuedIt) {
  const Schedule schedule = three_operations();
  const StepCosts costs = costs_with({.launch = 4_us, .dispatch = 1_us});
  TimedDevice device(schedule, costs);
  device.dispatch(1);
  device.launch(compute, first);
  device.launch(side, second);
  device.finish();
  EXPECT_EQ(device.times().start[0], 5_us);
  EXPECT_EQ(device.times().start[1], 9_us);
  EXPECT_EQ(device.host_time(), 9_us);
}

// Hooks of 3 us: the first two are one stretch from 0 to 6 us, and the kernel is issued at 10.
TEST(TimedDevice, HooksOfModulesHoldUpWhatIsIssuedAfterThem) {
  const Schedule schedule = three_operations();
  const StepCosts costs = costs_with({.launch = 4_us, .hook = 3_us});
  TimedDevice device(schedule, costs);
  device.hook();
  device.hook();
  device.launch(compute, first);
  device.hook();
  device.finish();
  EXPECT_EQ(device.times().start[0], 10_us);
  ASSERT_EQ(device.host_times().size(), 2U);
  EXPECT_FALSE(device.host_times()[0].waits);
  EXPECT_EQ(device.host_times()[0].end, 6_us);
  EXPECT_EQ(device.host_times()[1].begin, 10_us);
}

// A CUDA graph of the last two: the host issues the first at 4 us, and both of the graph at 8.
TEST(TimedDevice, AGraphIsIssuedOnce) {
  Schedule schedule = three_operations();
  schedule.operations[2].issued_with_graph = true;
  const StepCosts costs = costs_with({.launch = 4_us});
  TimedDevice device(schedule, costs);
  for (const OperationId one : {first, second, third}) device.launch(compute, one);
  device.finish();
  EXPECT_EQ(device.host_time(), 8_us);
  EXPECT_EQ(device.times().start[2], 34_us);  // 4 + 10 + 20
}

TEST(TimedDevice, AStreamRunsOneAfterTheOther) {
  const Schedule schedule = three_operations();
  const StepCosts costs = costs_with({});
  TimedDevice device(schedule, costs);
  device.launch(compute, first);
  device.launch(compute, second);
  device.finish();
  EXPECT_EQ(device.times().start[1], 10_us);
  EXPECT_EQ(device.last_end(), 30_us);
}

TEST(TimedDevice, AnEventHoldsUpOnlyWhatComesAfterTheWait) {
  const Schedule schedule = three_operations();
  const StepCosts costs = costs_with({});
  TimedDevice device(schedule, costs);
  device.launch(compute, first);
  const DeviceEvent event = device.record(compute);
  device.launch(side, second);  // before the wait: at once
  device.stream_waits(side, event);
  device.launch(compute, third);  // after the event: no part of it
  device.finish();
  EXPECT_EQ(device.times().start[1], 0_us);
  EXPECT_EQ(device.times().start[2], 10_us);
}

TEST(TimedDevice, TheHostIsHeldUpUntilAnEvent) {
  const Schedule schedule = three_operations();
  const StepCosts costs = costs_with({.launch = 1_us});
  TimedDevice device(schedule, costs);
  device.launch(compute, first);  // 1 to 11 us
  const DeviceEvent event = device.record(compute);
  device.launch(compute, second);
  device.wait(event);
  EXPECT_EQ(device.host_time(), 11_us);
  ASSERT_EQ(device.host_times().size(), 1U);
  EXPECT_EQ(device.host_times()[0].begin, 2_us);
  device.wait(compute);
  EXPECT_EQ(device.host_time(), 31_us);
}

TEST(TimedDevice, AnEventIsDoneOnceTheHostsClockIsThere) {
  const Schedule schedule = three_operations();
  const StepCosts costs = costs_with({.dispatch = 5_us});
  TimedDevice device(schedule, costs);
  device.launch(compute, first);
  const DeviceEvent event = device.record(compute);
  EXPECT_FALSE(device.done(event));
  device.dispatch(1);
  EXPECT_FALSE(device.done(event));
  device.dispatch(1);
  EXPECT_TRUE(device.done(event));
}

// Compute of 10 us and a collective of 20 us start together, slowdowns 2 and 1. Compute ends at 20
// us, the collective too.
TEST(TimedDevice, ComputeIsSlowedWhileACollectiveRuns) {
  const Schedule schedule = three_operations(OperationKind::all_gather);
  const StepCosts costs = costs_with({.sharing = {.compute_slowdown = 2}});
  TimedDevice device(schedule, costs);
  device.launch(compute, first);
  device.launch(side, second);
  device.launch(compute, third);
  device.finish();
  EXPECT_EQ(device.times().end[0], 20_us);
  EXPECT_EQ(device.times().end[1], 20_us);
  EXPECT_EQ(device.times().end[2], 50_us);
}

// Looking at the device in the middle must not change what happens: at 5 us, 2.5 us of compute are
// done.
TEST(TimedDevice, LookingChangesNothing) {
  const Schedule schedule = three_operations(OperationKind::all_gather);
  const StepCosts costs = costs_with({.dispatch = 5_us, .sharing = {.compute_slowdown = 2}});
  TimedDevice device(schedule, costs);
  device.launch(compute, first);
  const DeviceEvent event = device.record(compute);
  device.launch(side, second);
  for (int i = 0; i < 3; ++i) {
    device.dispatch(1);
    EXPECT_FALSE(device.done(event));
  }
  device.finish();
  EXPECT_EQ(device.times().end[0], 20_us);
}

TEST(TimedDevice, CollectivesOfOneChannelRunInTheOrderOfIssue) {
  ProgramByHand program;
  program.begin_step("steady");
  program.launch(0, 0);
  program.launch(0, 0, OperationKind::all_gather);
  program.launch(0, 0, OperationKind::reduce_scatter);
  const Schedule schedule = program.finish();
  const StepCosts costs = costs_with({});
  TimedDevice device(schedule, costs);
  device.launch(compute, first);
  device.stream_waits(side, device.record(compute));
  device.launch(side, second);              // from 10 us on, when compute has ended
  device.launch(pool_stream(1, 0), third);  // could start at once, but was issued later
  device.finish();
  EXPECT_EQ(device.times().start[2], 30_us);
}

/// A reduction of 20 us in one communicator and one of 30 us in another, launched side by side.
Schedule two_communicators() {
  ProgramByHand program;
  program.begin_step("steady");
  program.launch(0, 0);
  program.launch_in(0, 0, OperationKind::reduce_scatter, 0);
  program.launch_in(0, 0, OperationKind::all_reduce, 1);
  return program.finish();
}

TEST(TimedDevice, CommunicatorsWaitForEachOtherOnlyWhereAllShareOneChannel) {
  const Schedule schedule = two_communicators();
  for (const bool apart : {false, true}) {
    const StepCosts costs = costs_with({.sharing = {.communicators_apart = apart}});
    TimedDevice device(schedule, costs);
    device.launch(compute, second);
    device.launch(side, third);
    device.finish();
    EXPECT_EQ(device.times().start[2], apart ? 0_us : 20_us);
  }
}

// Each would use 0.75 of the adapters: 1.5 of what there is. The 20 us take 30; of the other's 30
// us 20 are done then, and the last 10 run alone.
TEST(TimedDevice, CollectivesOfSeveralCommunicatorsShareTheLinks) {
  const Schedule schedule = two_communicators();
  const StepCosts costs = costs_with({.sharing = {.communicators_apart = true}},
                                     {{}, {.within = 0.1, .across = 0.75}, {.across = 0.75}});
  TimedDevice device(schedule, costs);
  device.launch(compute, second);
  device.launch(side, third);
  device.finish();
  EXPECT_EQ(device.times().end[1], 30_us);
  EXPECT_EQ(device.times().end[2], 40_us);
}

}  // namespace
}  // namespace shardscope
