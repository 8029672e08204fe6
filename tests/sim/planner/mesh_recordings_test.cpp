// A recording that follows from those on two other meshes is the one that the runtime would make.
#include "sim/planner/mesh_recordings.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "core/base/error.h"
#include "sim/planner/answer/basis.h"
#include "tests/sim/planner/answer/tiny_plan.h"

namespace shardscope::planner {
namespace {

using S = ShardingStrategy;

/// An operation with what it points at, but for shapes.
auto whole(const Schedule& schedule, const Operation& op) {
  const bool has_work = op.work != Operation::no_work;
  return std::tuple(op.name, op.kind, op.stream, op.phase, op.dtype, op.micro_batch, op.recomputed,
                    op.step, op.unit, op.owner, op.operands, op.after, op.bytes, op.flops,
                    has_work ? schedule.works[op.work] : DeviceWork{},
                    is_collective(op.kind) ? schedule.collectives[op.detail] : Collective{},
                    has_work);
}

auto whole(const Buffer& buffer) {
  return std::tuple(buffer.name, buffer.category, buffer.lane, buffer.on_host, buffer.bytes,
                    buffer.copies, buffer.allocated_by, buffer.freed_by, buffer.unit, buffer.owner);
}

void expect_equal(const Schedule& a, const Schedule& b) {
  EXPECT_EQ(a.names, b.names);
  EXPECT_EQ(a.owners, b.owners);
  EXPECT_EQ(a.groups, b.groups);
  EXPECT_EQ(a.operands, b.operands);
  EXPECT_EQ(a.after, b.after);
  EXPECT_EQ(a.program.actions, b.program.actions);
  EXPECT_EQ(a.program.lanes, b.program.lanes);
  EXPECT_EQ(a.program.events, b.program.events);
  EXPECT_EQ(a.world, b.world);
  EXPECT_EQ(a.workload.micro_batches, b.workload.micro_batches);
  EXPECT_EQ(a.strategy.runtime, b.strategy.runtime);
  ASSERT_EQ(a.buffers.size(), b.buffers.size());
  for (std::size_t i = 0; i < a.buffers.size(); ++i)
    ASSERT_EQ(whole(a.buffers[i]), whole(b.buffers[i])) << a.name(a.buffers[i]);
  ASSERT_EQ(a.operations.size(), b.operations.size());
  for (std::size_t i = 0; i < a.operations.size(); ++i)
    ASSERT_EQ(whole(a, a.operations[i]), whole(b, b.operations[i])) << a.name(a.operations[i]);
  ASSERT_EQ(a.steps.size(), b.steps.size());
  for (std::size_t i = 0; i < a.steps.size(); ++i) {
    EXPECT_EQ(a.steps[i].operations, b.steps[i].operations);
    EXPECT_EQ(a.steps[i].actions, b.steps[i].actions);
  }
}

class MeshRecording : public ::testing::Test {
 protected:
  Schedule recorded(const Choice& choice) const { return schedule_of(choice, basis_.trials); }
  SizedRecording sized(const Choice& choice, int shard) const {
    return {.ranks = shard,
            .schedule = std::make_shared<const Schedule>(recorded(on(choice, shard)))};
  }
  static Choice on(Choice choice, int shard) {
    choice.mesh = {.replicate = choice.mesh.world() / shard, .shard = shard};
    return choice;
  }

  Inputs inputs_ = tiny_plan();
  Basis basis_{inputs_};
};

std::vector<Choice> second_copies() {
  const Choice plain{.runtime = Runtime::deepspeed,
                     .sharding = S::hybrid_shard,
                     .mesh = {.replicate = 16, .shard = 2},
                     .prefetch = Prefetch::pre,
                     .batch = 1};
  Choice accumulates = plain, checkpoints = plain, serial = plain, bf16 = plain;
  accumulates.micro_batches = 3;
  checkpoints.checkpointing.every = 1;
  checkpoints.micro_batches = 2;
  serial.prefetch = Prefetch::none;
  bf16.precision = TrainingPrecision::bf16_mixed;
  bf16.batch = 2;
  return {plain, accumulates, checkpoints, serial, bf16};
}

TEST_F(MeshRecording, FollowsFromTwoOtherSizes) {
  for (const Choice& choice : second_copies()) {
    SCOPED_TRACE(text_of(choice));
    ASSERT_TRUE(mesh_only_sizes(choice, inputs_.model));
    const SizedRecording two = sized(choice, 2), sixteen = sized(choice, 16);
    for (const int shard : {4, 8}) {
      const auto derived = schedule_between(two, sixteen, shard);
      ASSERT_TRUE(derived) << shard;
      expect_equal(*derived, recorded(on(choice, shard)));
    }
    EXPECT_FALSE(schedule_between(two, sixteen, 32));
  }
}

// 128 elements of a norm are no equal parts of 48 ranks: there some ranks have padding.
TEST_F(MeshRecording, NeedsEqualParts) {
  Choice choice = second_copies().front();
  choice.mesh = {.replicate = 24, .shard = 2};
  EXPECT_FALSE(mesh_only_sizes(choice, inputs_.model));
  choice = second_copies().front();
  choice.sharding = S::full_shard;
  EXPECT_FALSE(mesh_only_sizes(choice, inputs_.model));
}

TEST_F(MeshRecording, ProgramsThatDifferAreNotMixed) {
  const Choice choice = second_copies().front();
  Choice other = choice;
  other.checkpointing.every = 1;
  EXPECT_FALSE(schedule_between(sized(choice, 2), sized(other, 16), 4));
  // The same size twice says nothing of a third.
  EXPECT_FALSE(schedule_between(sized(choice, 4), sized(choice, 4), 4));
}

// Times and bytes of a trial are those that it has when each mesh is recorded by itself.
TEST_F(MeshRecording, TrialsThatShareSayTheSame) {
  const TrialInputs& sharing = basis_.trials;
  const TrialInputs alone{.model = sharing.model,
                          .config = sharing.config,
                          .training = sharing.training,
                          .profile = sharing.profile,
                          .costs = sharing.costs,
                          .native_target = sharing.native_target};
  for (Choice choice : second_copies()) {
    choice.micro_batches *= 4;
    for (const int shard : {16, 2, 8, 4}) {
      const Trial a = try_out(on(choice, shard), sharing), b = try_out(on(choice, shard), alone);
      EXPECT_EQ(a.time.span, b.time.span) << shard;
      EXPECT_EQ(a.time.exposed_communication, b.time.exposed_communication) << shard;
      EXPECT_EQ(a.needed(), b.needed()) << shard;
    }
  }
}

TEST_F(MeshRecording, TheFirstAndTheLastOfAFamilyAreRecorded) {
  const Choice choice = second_copies().front();
  MeshRecordings recordings;
  std::vector<int> sizes;
  const MeshRecordings::Family family{.name = "family", .world = 32, .record = [&](int shard) {
                                        sizes.push_back(shard);
                                        return recorded(on(choice, shard));
                                      }};
  for (const int shard : {4, 8, 16, 8, 2, 4})
    expect_equal(*recordings.of(family, shard), recorded(on(choice, shard)));
  EXPECT_EQ(sizes, (std::vector{4, 16, 2}));
}

TEST_F(MeshRecording, AFamilyThatIsNotAlikeIsRecordedOneByOne) {
  MeshRecordings recordings;
  std::vector<int> sizes;
  const auto record = [&](int shard) {
    Choice choice = second_copies().front();
    choice.checkpointing.every = shard == 16 ? 1 : 0;
    return recorded(on(choice, shard));
  };
  const MeshRecordings::Family family{.name = "family", .world = 32, .record = [&](int shard) {
                                        sizes.push_back(shard);
                                        return record(shard);
                                      }};
  for (const int shard : {2, 4, 8, 16}) expect_equal(*recordings.of(family, shard), record(shard));
  EXPECT_EQ(sizes, (std::vector{2, 16, 4, 8}));
}

TEST_F(MeshRecording, ThreadsThatAskForTheSameRecordItOnce) {
  MeshRecordings recordings;
  std::atomic<int> recorded_times = 0;
  std::latch both(2);
  const MeshRecordings::Family family{.name = "family", .world = 32, .record = [&](int shard) {
                                        ++recorded_times;
                                        return recorded(on(second_copies().front(), shard));
                                      }};
  std::shared_ptr<const Schedule> found[2];
  const auto ask = [&](std::size_t thread) {
    both.arrive_and_wait();
    found[thread] = recordings.of(family, 2);
  };
  std::thread other(ask, 1);
  ask(0);
  other.join();
  EXPECT_EQ(recorded_times, 1);
  EXPECT_EQ(found[0], found[1]);
}

TEST_F(MeshRecording, WhatRecordingThrowsComesOut) {
  MeshRecordings recordings;
  const MeshRecordings::Family family{.name = "family", .world = 4, .record = [](int) -> Schedule {
                                        throw Error({.what = "refused"});
                                      }};
  EXPECT_THROW(recordings.of(family, 2), Error);
}

}  // namespace
}  // namespace shardscope::planner
