// What a trial leaves out of a recording does not change its last step.
#include "sim/planner/trial.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "core/base/error.h"
#include "sim/engine/rehearse.h"
#include "sim/engine/step_player.h"
#include "sim/planner/answer/basis.h"
#include "sim/planner/estimate.h"
#include "sim/planner/first_step_listener.h"
#include "tests/sim/planner/answer/tiny_plan.h"
#include "tests/sim/planner/equal_schedules.h"

namespace shardscope::planner {
namespace {

struct Case {
  std::string name;
  Runtime runtime;
  ShardingStrategy sharding;
  Mesh mesh;
  bool each_reduced = false;
  Prefetch prefetch = Prefetch::pre;
};

class LeftOut : public ::testing::TestWithParam<Case> {
 protected:
  Choice choice(int micro_batches) const {
    return {.runtime = GetParam().runtime,
            .sharding = GetParam().sharding,
            .mesh = GetParam().mesh,
            .prefetch = GetParam().prefetch,
            .batch = 1,
            .micro_batches = micro_batches,
            .reduces_every_micro_batch = GetParam().each_reduced};
  }
  Duration time_of(const Schedule& schedule) const {
    const StepProgram program = step_program(schedule);
    return play_until_steady(program,
                             step_costs(schedule, program, basis_.costs, basis_.inputs.profile))
        .accounting.span;
  }

  Inputs inputs_ = tiny_plan();
  Basis basis_{inputs_};
};

// A trial runs fewer micro-batches than the step has in those that lead to it.
TEST_P(LeftOut, MicroBatchesOfEarlierStepsChangeNeitherTimeNorPeak) {
  for (const int micro_batches : {2, 3}) {
    const Trial trial = try_out(choice(micro_batches), basis_.trials);
    const Schedule whole = schedule_of(choice(micro_batches), basis_.trials);
    EXPECT_EQ(trial.time.span, time_of(whole)) << micro_batches;
    EXPECT_EQ(trial.allocated, allocated_peak(whole)) << micro_batches;
  }
}

TEST_P(LeftOut, ShapesChangeNothingElse) {
  const Schedule with = schedule_of(choice(2), basis_.trials);
  const Schedule without = schedule_of(choice(2), basis_.trials, {.shapes = false});
  EXPECT_FALSE(with.shapes.empty());
  EXPECT_TRUE(without.shapes.empty());
  EXPECT_EQ(with.program.actions, without.program.actions);
  EXPECT_EQ(with.works, without.works);
  ASSERT_EQ(with.operations.size(), without.operations.size());
  for (const Operation& op : without.operations) ASSERT_EQ(op.shapes, Operation::no_shapes);
}

// The third step repeats what the second one does, with all of its micro-batches.
TEST_P(LeftOut, TheLastStepHasAllMicroBatches) {
  static constexpr std::array soon{"1", "steady"};
  const Schedule schedule = schedule_of(choice(3), basis_.trials, {.labels = soon, .left_out = 1});
  ASSERT_EQ(schedule.steps.size(), 2U);
  std::array<int, 2> last{};
  for (std::size_t step = 0; step < 2; ++step)
    for (std::uint32_t op = schedule.steps[step].operations.begin;
         op < schedule.steps[step].operations.end; ++op)
      last[step] = std::max<int>(last[step], schedule.operations[op].micro_batch);
  EXPECT_EQ(last[0], 2);
  EXPECT_EQ(last[1], 2);
  const auto operations = [&](std::size_t step) {
    return schedule.steps[step].operations.end - schedule.steps[step].operations.begin;
  };
  EXPECT_LT(operations(0), operations(1));
}

// Most runtimes' third step is not recorded: it follows from the second.
TEST_P(LeftOut, TheStepThatRepeatsIsTheRecordedOne) {
  for (const int micro_batches : {1, 2, 3, 5}) {
    SCOPED_TRACE(micro_batches);
    expect_equal(recording_of(choice(micro_batches), basis_.trials),
                 schedule_of(choice(micro_batches), basis_.trials));
  }
}

/// Counts how often a recording is told of, which is at each moment of each step that is run.
struct Moments final : eager::ProgramListener {
  void on_program(const Schedule&) override { ++count; }
  int count = 0;
};

TEST_P(LeftOut, AStepIsLeftOutWhereTheRuntimeRepeatsTheSecond) {
  Moments all, told;
  const Choice two = choice(2);
  schedule_of(pytorch_training(two, basis_.trials), inputs_.model, inputs_.config, {}, &all);
  recording_of(two, basis_.trials, {}, &told);
  const bool settles_later =
      two.runtime == Runtime::ddp ||
      (two.runtime == Runtime::deepspeed && (two.sharding == ShardingStrategy::full_shard ||
                                             two.sharding == ShardingStrategy::hybrid_shard));
  EXPECT_EQ(3 * told.count, settles_later ? 3 * all.count : 2 * all.count);
}

// One unit is freed once a step, so that the rate limiter waits from the third step on.
TEST_P(LeftOut, TheStepThatRepeatsIsTheRecordedOneOfOneUnit) {
  if (GetParam().runtime != Runtime::fsdp1) return;
  Choice one = choice(3), frees_once = choice(3);
  one.blocks_per_unit = frees_once.blocks_per_unit = 0;
  frees_once.reduces_every_micro_batch = false;
  Choice zero2 = frees_once, zero2_units = choice(3);
  if (!is_hybrid(GetParam().sharding))
    zero2.sharding = zero2_units.sharding = ShardingStrategy::shard_grad_op;
  for (const Choice& choice : {one, frees_once, zero2, zero2_units}) {
    SCOPED_TRACE(text_of(choice));
    expect_equal(recording_of(choice, basis_.trials), schedule_of(choice, basis_.trials));
  }
}

TEST_P(LeftOut, TheStepThatRepeatsIsTheRecordedOneWithClippingAndSgd) {
  for (const bool clips : {true, false}) {
    if (!clips && GetParam().runtime == Runtime::deepspeed) continue;
    Inputs inputs = tiny_plan();
    if (clips)
      inputs.question.training.clip = 1;
    else
      inputs.question.training.loop.optimizer.rule = eager::OptimizerRule::sgd;
    const Basis basis(inputs);
    SCOPED_TRACE(clips);
    expect_equal(recording_of(choice(2), basis.trials), schedule_of(choice(2), basis.trials));
  }
}

TEST_P(LeftOut, TheStepThatRepeatsIsTheRecordedOneOfOtherSettings) {
  int compared = 0;
  Choice checkpoints = choice(2), every_second = choice(3), offloads = choice(2), bf16 = choice(2);
  checkpoints.checkpointing.every = 1;
  every_second.checkpointing.every = 2;
  offloads.offload = GetParam().runtime == Runtime::ddp ? Offload::none : Offload::all;
  bf16.precision = TrainingPrecision::bf16;
  for (const Choice& choice : {checkpoints, every_second, offloads, bf16}) {
    SCOPED_TRACE(text_of(choice));
    std::optional<Schedule> recorded;
    try {
      recorded = schedule_of(choice, basis_.trials);
    } catch (const Error&) {
      continue;  // the runtime has no such setting
    }
    expect_equal(recording_of(choice, basis_.trials), *recorded);
    ++compared;
  }
  EXPECT_GE(compared, 3);
}

// A rehearsal plays what a simulation plays.
TEST_P(LeftOut, RehearsedMemoryIsThatOfTheSimulation) {
  const Schedule schedule = schedule_of(choice(2), basis_.trials);
  const HardwareProfile& profile = basis_.inputs.profile;
  const Bytes needed = rehearse(schedule, profile).reserved;
  for (const double share : {0.4, 0.9, 2.0}) {
    const AllocatorChoice allocator{
        .settings = {},
        .memory = DeviceCapacity{
            .total = {static_cast<std::int64_t>(share * static_cast<double>(needed.count))}}};
    const Simulation simulation = simulate(schedule, profile, allocator);
    const Rehearsal rehearsal = rehearse(schedule, profile, allocator);
    Bytes highest;
    for (const SimulatedStep& step : simulation.steps)
      highest = std::max(highest, step.memory.peak_reserved);
    EXPECT_EQ(rehearsal.reserved, highest) << share;
    EXPECT_EQ(rehearsal.out_of_memory, simulation.out_of_memory.has_value()) << share;
  }
}

// What is told behind the first step is what it holds alone, and goes on as if nothing was asked.
TEST_P(LeftOut, TheFirstStepIsToldAsItIsAlone) {
  const Schedule schedule = schedule_of(choice(2), basis_.trials);
  Schedule first = schedule;
  first.steps.resize(1);
  const HardwareProfile& profile = basis_.inputs.profile;
  for (const bool goes_on : {true, false}) {
    std::vector<Bytes> told;
    const Rehearsal rehearsal = rehearse(schedule, profile, {}, [&](const Rehearsal& one) {
      told.push_back(one.reserved);
      return goes_on;
    });
    EXPECT_EQ(told, std::vector{rehearse(first, profile).reserved});
    EXPECT_EQ(rehearsal.reserved, rehearse(goes_on ? schedule : first, profile).reserved);
  }
}

// With findings a trial keeps its recording for the rehearsal. Without them each is recorded for
// itself, the trial with fewer micro-batches.
TEST_P(LeftOut, OneRecordingForTrialAndRehearsalSaysWhatTwoSay) {
  HardwareProfile profile = basis_.inputs.profile;
  const TrialInputs& on = basis_.trials;
  const Bytes needed = rehearse(schedule_of(choice(3), on), profile).reserved;
  int shared = 0;
  for (const double share : {0.8, 0.95, 2.0})
    for (const int micro_batches : {1, 2, 3, 5}) {
      SCOPED_TRACE(testing::Message() << share << " " << micro_batches);
      profile.memory = {static_cast<std::int64_t>(share * static_cast<double>(needed.count))};
      Findings findings(on.model, on.config);
      const TrialInputs apart{on.model, on.config,        on.training,  profile,
                              on.costs, on.native_target, on.allocator, Bytes{}};
      const TrialInputs together{on.model,         on.config,    on.training, profile,  on.costs,
                                 on.native_target, on.allocator, Bytes{},     &findings};
      const Choice asked = choice(micro_batches);
      const Trial one = try_out(asked, together), two = try_out(asked, apart);
      EXPECT_EQ(one.time.span, two.time.span);
      EXPECT_EQ(one.allocated, two.allocated);
      if (std::optional<Schedule> kept = findings.take_recording(asked)) {
        ++shared;
        findings.keep_recording(asked, std::move(*kept));
      }
      const FullSimulation played = simulate_fully(asked, together);
      const FullSimulation alone = simulate_fully(asked, apart);
      EXPECT_EQ(played.reserved, alone.reserved);
      EXPECT_EQ(played.fits, alone.fits);
      EXPECT_EQ(played.is_part, alone.is_part);
    }
  if (choice(1).runtime == Runtime::fsdp2) EXPECT_GT(shared, 0);
}

// What is told after the first step is told of the whole run, too.
TEST_P(LeftOut, WhatStopsAfterTheFirstStepDoesNotFitAsAWhole) {
  const Schedule schedule = schedule_of(choice(3), basis_.trials);
  HardwareProfile profile = basis_.inputs.profile;
  const Bytes needed = rehearse(schedule, profile).reserved;
  const TrialInputs& on = basis_.trials;
  const TrialInputs inputs{on.model, on.config,        on.training,  profile,
                           on.costs, on.native_target, on.allocator, Bytes{1024 * 1024}};
  int stopped = 0;
  for (const double share : {0.4, 0.8, 0.95, 1.0, 1.02, 1.2}) {
    profile.memory = {static_cast<std::int64_t>(share * static_cast<double>(needed.count))};
    const Rehearsal whole =
        rehearse(schedule, profile, {.memory = DeviceCapacity{.total = profile.memory}});
    const FullSimulation full = simulate_fully(choice(3), inputs);
    ASSERT_EQ(full.outside, Bytes{});
    EXPECT_EQ(full.fits, !whole.out_of_memory && whole.reserved + inputs.margin <= profile.memory)
        << share;
    if (full.is_part) {
      ++stopped;
      EXPECT_FALSE(full.fits);
      EXPECT_LE(full.reserved, whole.reserved);
    } else {
      EXPECT_EQ(full.reserved, whole.reserved);
    }
  }
  EXPECT_GT(stopped, 0);
}

using S = ShardingStrategy;
INSTANTIATE_TEST_SUITE_P(
    Trial, LeftOut,
    ::testing::Values(
        Case{"fsdp1", Runtime::fsdp1, S::full_shard, {.shard = 4}},
        Case{"fsdp1_each", Runtime::fsdp1, S::full_shard, {.shard = 4}, true},
        Case{"fsdp1_both", Runtime::fsdp1, S::full_shard, {.shard = 4}, true, Prefetch::both},
        Case{"fsdp1_hybrid", Runtime::fsdp1, S::hybrid_shard, {.replicate = 2, .shard = 2}, true},
        Case{"fsdp1_hybrid_zero2",
             Runtime::fsdp1,
             S::hybrid_shard_zero2,
             {.replicate = 2, .shard = 2}},
        Case{"fsdp2", Runtime::fsdp2, S::full_shard, {.shard = 4}},
        Case{"fsdp2_hybrid", Runtime::fsdp2, S::hybrid_shard, {.replicate = 2, .shard = 2}, true},
        Case{"ddp", Runtime::ddp, S::no_shard, {.replicate = 4}, false, Prefetch::none},
        Case{"zero1", Runtime::deepspeed, S::zero1, {.shard = 4}},
        Case{"zero2", Runtime::deepspeed, S::shard_grad_op, {.shard = 4}},
        Case{"zero2_alone",
             Runtime::deepspeed,
             S::shard_grad_op,
             {.shard = 4},
             false,
             Prefetch::none},
        Case{"zero3", Runtime::deepspeed, S::full_shard, {.shard = 4}},
        Case{"zero3_second_copy",
             Runtime::deepspeed,
             S::hybrid_shard,
             {.replicate = 2, .shard = 2}}),
    [](const auto& test) { return test.param.name; });

// The second step has begun when the first is given away; the third changes nothing.
TEST(FirstStepListener, GivesTheFirstStepAloneAndOnce) {
  std::vector<std::size_t> steps;
  FirstStepListener listener([&](const Schedule& first) { steps.push_back(first.steps.size()); });
  Schedule recording;
  for (int i = 0; i < 3; ++i) {
    recording.steps.push_back({});
    listener.on_program(recording);
    EXPECT_EQ(steps, i == 0 ? std::vector<std::size_t>{} : std::vector<std::size_t>{1});
  }
}

}  // namespace
}  // namespace shardscope::planner
