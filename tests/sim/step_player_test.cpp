// The compact step against TimedDevice, its oracle, and against times worked out by hand.
#include "sim/engine/step_player.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "sim/cost/cost_model.h"
#include "sim/engine/simulate.h"
#include "sim/engine/step_rows.h"
#include "sim/engine/timed_device.h"
#include "tests/core/recorded_training.h"
#include "tests/sim/program_by_hand.h"
#include "tests/sim/repeated_step.h"

namespace shardscope {
namespace {

using testing::ProgramByHand;

/// One byte of an operation by hand takes a nanosecond.
StepCosts costs_by_hand(const Schedule& schedule, const StepProgram& program,
                        const DeviceClockOptions& clock) {
  StepCosts costs{.times = {}, .clock = clock};
  for (const OperationId example : program.examples)
    costs.times.push_back({schedule.at(example).bytes.count});
  return costs;
}

StepTimes played(const Schedule& schedule, const DeviceClockOptions& clock, int repetitions) {
  const StepProgram program = step_program(schedule);
  return play(program, costs_by_hand(schedule, program, clock), repetitions);
}

// Issued at 1 and 2 us, 10 us each: 21 us from idle. The next repetition is issued while that runs.
TEST(StepPlayer, AStepThatRepeatsIsIssuedWhileTheOneBeforeRuns) {
  ProgramByHand program;
  program.begin_step("steady");
  program.launch(0, 10'000);
  program.launch(0, 10'000);
  const StepTimes times = played(program.finish(), {.launch = 1_us}, 2);
  EXPECT_EQ(times.ends, (std::vector{21_us, 41_us}));
  EXPECT_EQ(times.accounting.span, 20_us);
  EXPECT_EQ(times.accounting.idle, 0_us);
}

// A host of 6 us a launch cannot keep up with kernels of 2 us: the step takes what the host takes.
TEST(StepPlayer, AHostThatIsSlowerThanTheDeviceIsTheStepTime) {
  ProgramByHand program;
  program.begin_step("steady");
  program.launch(0, 2'000);
  program.dispatch();
  program.launch(0, 2'000);
  const StepTimes times = played(program.finish(), {.launch = 6_us, .dispatch = 1_us}, 3);
  EXPECT_EQ(times.accounting.span, 13_us);
  EXPECT_EQ(times.accounting.compute, 4_us);
  EXPECT_EQ(times.accounting.idle, 9_us);
}

// Two hooks of 5 us, a kernel, a third: each step takes the host 17 us, and its kernel of 2 us ends
// at 14 us of it. Hooks take all of their time in a backward, too.
TEST(StepPlayer, HooksOfModulesTakeTheHost) {
  ProgramByHand program;
  program.begin_step("steady");
  program.hook();
  program.hook();
  program.launch(0, 2'000);
  program.hook();
  Schedule schedule = program.finish();
  schedule.operations[0].phase = Phase::backward;
  const DeviceClockOptions clock{.launch = 6_us, .backward_launch = 2_us, .hook = 5_us};
  EXPECT_EQ(played(schedule, clock, 2).ends, (std::vector{14_us, 31_us}));
}

// As one CUDA graph the host needs 6 us for both kernels of 2 us.
TEST(StepPlayer, AGraphIsIssuedOnce) {
  ProgramByHand program;
  program.begin_step("steady");
  program.launch(0, 2'000);
  program.launch(0, 2'000);
  Schedule schedule = program.finish();
  schedule.operations[1].issued_with_graph = true;
  EXPECT_EQ(played(schedule, {.launch = 6_us}, 3).accounting.span, 6_us);
}

// Forward 6 us and a view of 1, backward 2 us and a view of half of one, run again 6 us: 15.5 us.
TEST(StepPlayer, OperatorsOfAutogradTakeTheHostLess) {
  ProgramByHand program;
  program.begin_step("steady");
  program.launch(0, 1'000);
  program.dispatch();
  program.launch(0, 1'000);
  program.dispatch();
  program.launch(0, 1'000);
  Schedule schedule = program.finish();
  schedule.operations[1].phase = Phase::backward;
  schedule.operations[2].phase = Phase::backward;
  schedule.operations[2].recomputed = true;
  const DeviceClockOptions clock{
      .launch = 6_us, .dispatch = 1_us, .backward_launch = 2_us, .backward_dispatch = 500_ns};
  EXPECT_EQ(played(schedule, clock, 3).accounting.span, 15'500_ns);
  const StepCosts costs{.times = std::vector<Duration>(3, 1_us), .clock = clock};
  TimedDevice device(schedule, costs);
  for (const std::uint32_t op : {0U, 1U, 2U}) {
    device.launch(default_stream, OperationId{op});
    if (op < 2) device.dispatch(1);
  }
  EXPECT_EQ(device.host_time(), 15'500_ns);
}

// 1,000 views of 1 us and a kernel of 1 us a step, which the host issues in 2 us.
TEST(StepPlayer, WhatTheHostRepeatsTakesItsTimeEachTime) {
  ProgramByHand program;
  program.begin_step("steady");
  program.repeat(500);
  program.dispatch();
  program.dispatch();
  program.again();
  program.launch(0, 1'000);
  const StepTimes times = played(program.finish(), {.launch = 2_us, .dispatch = 1_us}, 2);
  EXPECT_EQ(times.ends, (std::vector{1003_us, 2005_us}));
}

// A gather of 20 us beside compute of 10 us at half its speed: compute ends at 20 us. The second
// kernel waits for the gather.
TEST(StepPlayer, ComputeIsSlowedWhileACollectiveRuns) {
  ProgramByHand program;
  const std::uint8_t side = program.lane("side", Stream::unshard);
  program.begin_step("steady");
  program.launch(0, 10'000);
  program.launch(side, 20'000, OperationKind::all_gather);
  program.wait(0, program.record(side));
  program.launch(0, 5'000);
  const StepTimes times = played(program.finish(), {.sharing = {.compute_slowdown = 2}}, 1);
  EXPECT_EQ(times.accounting.span, 25_us);
  EXPECT_EQ(times.accounting.overlap, 20_us);
}

// The gather alone is exposed from 10 us on, then the copy until 25 us.
TEST(StepPlayer, SpanIsComputeExposedCommunicationExposedCopiesAndIdle) {
  ProgramByHand program;
  const std::uint8_t side = program.lane("side", Stream::unshard);
  const std::uint8_t copies = program.lane("copies", Stream::copy);
  program.begin_step("steady");
  program.launch(0, 10'000);
  program.launch(side, 20'000, OperationKind::all_gather);
  program.launch(copies, 25'000, OperationKind::copy);
  const StepTimes times = played(program.finish(), {}, 1);
  EXPECT_EQ(times.accounting.compute, 10_us);
  EXPECT_EQ(times.accounting.exposed_communication, 10_us);
  EXPECT_EQ(times.accounting.exposed_copy, 5_us);
  EXPECT_EQ(times.accounting.idle, 0_us);
}

TEST(StepPlayer, LanesThatWaitForEachOtherAreAnError) {
  StepProgram program{.items = {{.kind = LaneItem::Kind::wait, .subject = 1},
                                {.kind = LaneItem::Kind::record, .subject = 0},
                                {.kind = LaneItem::Kind::wait, .subject = 0},
                                {.kind = LaneItem::Kind::record, .subject = 1}},
                      .lanes = {{0, 2}, {2, 4}},
                      .segments = {{}},
                      .events = 2};
  EXPECT_THROW(play(program, {}, 1), Error);
}

class RecordedStep : public ::testing::Test {
 protected:
  /// A machine on which times of compute, communication and host are alike, so that each of them
  /// holds the others up somewhere.
  static HardwareProfile machine(double scale, const SharingRules& sharing) {
    return {.name = "test",
            .device = "cuda",
            .memory = 80_GiB,
            .peak = {1e12 * scale},
            .memory_bandwidth = {10e9 * scale},
            .operation_overhead = 5_us,
            .link = Link{.bandwidth = {3e9 * scale}, .latency = 1_us},
            .compute_slowdown = sharing.compute_slowdown,
            .collective_slowdown = sharing.collective_slowdown,
            .collectives_serial = sharing.collectives_serial};
  }

  static void expect_equal(const eager::TrainingSetup& setup) {
    const Schedule schedule = testing::recorded_llama(setup);
    for (const double scale : {0.1, 1.0, 10.0})
      for (const SharingRules& sharing :
           {SharingRules{}, SharingRules{.compute_slowdown = 1.3, .collective_slowdown = 1.7},
            SharingRules{.collectives_serial = false, .compute_slowdown = 1.1}})
        expect_equal(schedule, machine(scale, sharing));
  }

  static void expect_equal(const Schedule& schedule, const HardwareProfile& profile) {
    const CostModel model(profile);
    const StepProgram program = step_program(schedule);
    const DeviceClockOptions clock = step_costs(schedule, program, model, profile).clock;
    const StepTimes fast = play(program, step_costs(schedule, program, model, profile), 4);
    const StepTimes oracle = testing::repeated_on_device(
        schedule, schedule.steps.back(),
        {operation_times(schedule, model), link_uses(schedule, model)}, clock, 4);
    EXPECT_EQ(fast.ends, oracle.ends);
    EXPECT_EQ(fast.accounting, oracle.accounting);
  }
};

class EveryRecordedStep : public RecordedStep, public ::testing::WithParamInterface<std::string> {};

// Two nodes of two GPUs: shards inside, replicas across, each in its communicator; slow adapters.
TEST_F(RecordedStep, OfAHybridRunsCommunicatorsSideBySide) {
  eager::TrainingSetup setup = testing::setup_of("fsdp2");
  std::get<eager::Fsdp2Setup>(setup.runtime).mesh = {2, 2};
  const Schedule schedule = testing::recorded_llama(setup);
  HardwareProfile profile = machine(1, {.compute_slowdown = 1.1});
  profile.compute_capability = 80;
  profile.node = Node{.gpus = 2, .fabric = Fabric::pcie, .pcie_generation = 3};
  profile.interconnect = Interconnect{.adapters = 1, .rate = {1e9}};
  profile.ranks_per_node = 2;
  expect_equal(schedule, profile);
  const auto span = [&](bool serial) {
    const CostModel model(profile);
    const StepProgram program = step_program(schedule);
    StepCosts costs = step_costs(schedule, program, model, profile);
    EXPECT_FALSE(costs.uses.empty());
    costs.clock.sharing.communicators_apart = !serial;
    return play(program, costs).accounting.span;
  };
  EXPECT_LT(span(false), span(true));
}

TEST_P(EveryRecordedStep, TakesTheTimesOfTheClockedDevice) {
  expect_equal(testing::setup_of(GetParam()));
}

TEST_P(EveryRecordedStep, WithAccumulationAndClippingToo) {
  eager::TrainingSetup setup = testing::setup_of(GetParam());
  setup.loop.micro_batches = 3;
  setup.loop.clips = !std::holds_alternative<eager::DeepSpeedSetup>(setup.runtime);
  expect_equal(setup);
}

// Three micro-batches are recorded; those between the first and the last are alike.
TEST_P(EveryRecordedStep, MoreMicroBatchesAreAsIfTheyHadBeenRecorded) {
  eager::TrainingSetup setup = testing::setup_of(GetParam());
  const HardwareProfile profile = machine(1, {.compute_slowdown = 1.3});
  const CostModel model(profile);
  const auto played = [&](int recorded, int micro_batches) {
    setup.loop.micro_batches = recorded;
    const Schedule schedule = testing::recorded_llama(setup);
    const StepProgram program = step_program(schedule, micro_batches);
    return play(program, step_costs(schedule, program, model, profile));
  };
  for (const bool syncs_once : {false, true}) {
    setup.loop.syncs_once = syncs_once;
    const StepTimes told = played(told_micro_batches, 6);
    const StepTimes recorded = played(6, 0);
    EXPECT_EQ(told.ends, recorded.ends);
    EXPECT_EQ(told.accounting, recorded.accounting);
  }
}

// Simulated with the allocator: set-up, steps 1 and 2, then the one that repeats.
TEST_P(EveryRecordedStep, IsTheThirdStepOfASimulation) {
  const Schedule schedule = testing::recorded_llama(testing::setup_of(GetParam()));
  const StepProgram program = step_program(schedule);
  for (const double scale : {0.1, 10.0}) {
    const HardwareProfile profile = machine(scale, {.compute_slowdown = 1.3});
    const StepCosts costs = step_costs(schedule, program, CostModel(profile), profile);
    const Accounting simulated = simulate(schedule, profile).accounting;
    const Accounting fast = play(program, costs).accounting;
    EXPECT_EQ(fast.span, simulated.span);
    EXPECT_EQ(fast.compute, simulated.compute);
    EXPECT_EQ(fast.communication, simulated.communication);
  }
}

INSTANTIATE_TEST_SUITE_P(StepPlayer, EveryRecordedStep, ::testing::ValuesIn(testing::every_runtime),
                         [](const auto& recorded) { return recorded.param; });

}  // namespace
}  // namespace shardscope
