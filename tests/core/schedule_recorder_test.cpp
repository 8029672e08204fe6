#include "core/pytorch/runtimes/record/schedule_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/runtimes/common/collectives.h"
#include "core/schedule/host_layout.h"
#include "tests/core/recorded_training.h"

namespace shardscope::eager {
namespace {

using ::testing::ElementsAre;
using Kind = HostActionKind;

constexpr Like on_gpu{Dtype::float32, Device::cuda};

std::vector<Kind> kinds_of(const Schedule& schedule) {
  std::vector<Kind> kinds;
  for (const HostAction& action : schedule.program.actions) kinds.push_back(action.kind);
  return kinds;
}

class ScheduleRecorderTest : public ::testing::Test {
 protected:
  ScheduleRecorderTest() { s_.observe(recorder_); }
  ScheduleRecorder recorder_;
  Session s_;
};

TEST_F(ScheduleRecorderTest, AKernelIsIssuedOnceItsOutputIsThere) {
  Tensor x = allocate(s_, on_gpu, {1000});
  Tensor y = neg(s_, x);
  y.reset();
  const Schedule schedule = recorder_.finish();
  EXPECT_THAT(kinds_of(schedule),
              ElementsAre(Kind::allocate, Kind::allocate, Kind::launch, Kind::free));
  ASSERT_EQ(schedule.operations.size(), 1U);
  EXPECT_EQ(schedule.name(schedule.operations[0]), "aten.neg.default");
  EXPECT_EQ(schedule.operations[0].bytes, 8000_B);  // 1000 floats in, 1000 out
}

TEST_F(ScheduleRecorderTest, AViewIssuesNothing) {
  const Tensor x = allocate(s_, on_gpu, {4, 250});
  const Tensor y = view(s_, x, {1000});
  const Schedule schedule = recorder_.finish();
  EXPECT_THAT(kinds_of(schedule), ElementsAre(Kind::allocate, Kind::dispatch));
  EXPECT_TRUE(schedule.operations.empty());
}

TEST_F(ScheduleRecorderTest, WorkOfTheHostIsNoneOfTheDevice) {
  const Tensor x = allocate(s_, {Dtype::float32, Device::cpu}, {1000});
  const Tensor y = neg(s_, x);
  const Schedule schedule = recorder_.finish();
  EXPECT_THAT(kinds_of(schedule), ElementsAre(Kind::dispatch));
  EXPECT_TRUE(schedule.buffers.empty());
}

TEST_F(ScheduleRecorderTest, LargeWorkOfTheHostHoldsItUpInAStep) {
  const Tensor small = allocate(s_, {Dtype::float32, Device::cpu}, {1000});
  const Tensor large = allocate(s_, {Dtype::float32, Device::cpu}, {1'000'000});
  neg(s_, large);
  recorder_.begin_step("1");
  neg(s_, small);
  neg(s_, large);
  recorder_.end_step();
  const Schedule schedule = recorder_.finish();
  EXPECT_THAT(kinds_of(schedule), ElementsAre(Kind::dispatch, Kind::dispatch, Kind::run));
  ASSERT_EQ(schedule.operations.size(), 1U);
  const Operation& op = schedule.operations[0];
  EXPECT_EQ(op.kind, OperationKind::host);
  EXPECT_EQ(schedule.works[op.work].bytes, 8'000'000_B);  // a million floats in, a million out
  EXPECT_TRUE(schedule.buffers.empty());
}

TEST_F(ScheduleRecorderTest, OnlyACopyOfTheHostsMemoryGoesOverTheLink) {
  const Tensor on_host = allocate(s_, {Dtype::float32, Device::cpu}, {1000});
  const Tensor here = to(s_, on_host, {.device = Device::cuda});
  const Tensor there = to(s_, here, {.device = Device::cpu});
  const Tensor again = allocate(s_, on_gpu, {1000});
  copy_(s_, again, here);
  const Schedule schedule = recorder_.finish();
  ASSERT_EQ(schedule.operations.size(), 3U);
  EXPECT_EQ(moved_over_link(schedule, schedule.operations[0]), 4000_B);
  EXPECT_EQ(moved_over_link(schedule, schedule.operations[1]), 4000_B);
  EXPECT_EQ(moved_over_link(schedule, schedule.operations[2]), std::nullopt);
  EXPECT_EQ(copy_way(schedule, schedule.operations[0]), CopyWay::to_device);
  EXPECT_EQ(copy_way(schedule, schedule.operations[1]), CopyWay::to_host);
  EXPECT_EQ(copy_way(schedule, schedule.operations[2]), CopyWay::within);
}

// 1000 numbers of 4 bytes are read and 2 bytes each are written: copy_ does not read what was
// there.
TEST_F(ScheduleRecorderTest, ACopyReadsItsSourceOnly) {
  const Tensor source = allocate(s_, on_gpu, {1000});
  const Tensor place = allocate(s_, {Dtype::bfloat16, Device::cuda}, {1000});
  copy_(s_, place, source);
  const Schedule schedule = recorder_.finish();
  ASSERT_EQ(schedule.operations.size(), 1U);
  EXPECT_EQ(schedule.operations[0].bytes, 6000_B);
}

// Where the model lives on the CPU, the CPU is the device. A number has no dimension, and no shape.
// A part of 4 bytes and 8 bytes of filling, three times over: one row for all. Joined they are what
// six tensors are: 36 bytes read, 36 written.
TEST_F(ScheduleRecorderTest, WhatRecursIsWrittenDownOnce) {
  const Tensor x = allocate(s_, on_gpu, {3});
  std::vector<Stretch> list{{.tensors = {}, .times = 3}};
  s_.repeat(3, [&] {
    list.front().tensors.push_back(narrow(s_, x, 0, 0, 1));
    list.front().tensors.push_back(empty(s_, {2}, on_gpu));
  });
  cat(s_, std::move(list));
  const Schedule schedule = recorder_.finish();
  EXPECT_THAT(kinds_of(schedule),
              ElementsAre(Kind::allocate, Kind::repeat, Kind::dispatch, Kind::allocate,
                          Kind::dispatch, Kind::again, Kind::allocate, Kind::launch, Kind::repeat,
                          Kind::free, Kind::again, Kind::free));
  EXPECT_EQ(schedule.program.actions[1].subject, 3U);
  EXPECT_EQ(schedule.buffers[1].copies, 3U);
  EXPECT_EQ(schedule.buffers[1].bytes, 24_B);
  EXPECT_EQ(schedule.operations[0].bytes, 72_B);
  EXPECT_EQ(schedule.shapes[schedule.operations[0].shapes], "1 2 1 2 1 2");
}

TEST(ScheduleRecorderOfTheCpu, WorkOfTheHostIsTheDevices) {
  ScheduleRecorder recorder({}, Device::cpu);
  Session s({.device = Device::cpu});
  s.observe(recorder);
  const Like on_cpu{Dtype::float32, Device::cpu};
  const Tensor x = allocate(s, on_cpu, {4, 250});
  const Tensor y = allocate(s, on_cpu, {250});
  const Tensor number = allocate(s, on_cpu, {});
  const Tensor a = add(s, x, y), b = add(s, x, number), c = add(s, x, y);
  const Schedule schedule = recorder.finish();
  ASSERT_EQ(schedule.operations.size(), 3U);
  EXPECT_THAT(schedule.shapes, ElementsAre("4x250 250", "4x250"));
  EXPECT_EQ(schedule.operations[0].shapes, 0U);
  EXPECT_EQ(schedule.operations[1].shapes, 1U);
  EXPECT_EQ(schedule.operations[2].shapes, 0U);
}

TEST_F(ScheduleRecorderTest, AnOperationComesAfterWhatItsStreamHasWaitedFor) {
  const Tensor x = allocate(s_, on_gpu, {4});
  const StreamId side = s_.new_stream({"side", Stream::reduce});
  const Tensor a = neg(s_, x);
  const Tensor b = neg(s_, a);
  s_.wait_stream(side, s_.stream);
  const Tensor later = neg(s_, b);  // of the first stream, after the wait
  const OnStream on(s_, side);
  const Tensor c = neg(s_, b);
  const Tensor d = neg(s_, c);
  const Schedule schedule = recorder_.finish();
  ASSERT_EQ(schedule.operations.size(), 5U);
  EXPECT_EQ(schedule.operations[3].stream, Stream::reduce);
  EXPECT_THAT(schedule.after_of(schedule.operations[3]), ElementsAre(OperationId{1}));
  EXPECT_TRUE(schedule.after_of(schedule.operations[4]).empty());
}

// Without async_op the collective is on the current stream; with it on NCCL's own, which waits for
// the current one, and whoever waits for the Work comes after it. Source: torch 2.15,
// ProcessGroupNCCL.
TEST_F(ScheduleRecorderTest, AnAsynchronousCollectiveRunsOnNcclsStream) {
  const ProcessGroups groups(4, 0);
  recorder_.name_group(groups.world(), "world");
  const Tensor x = neg(s_, allocate(s_, on_gpu, {4}));
  all_reduce(s_, groups.world(), x, "SUM");
  const WorkId work = all_reduce(s_, groups.world(), x, "SUM", true);
  const Tensor before = neg(s_, x);
  s_.wait_work(work);
  const Tensor after = neg(s_, x);
  const Schedule schedule = recorder_.finish();
  ASSERT_EQ(schedule.operations.size(), 5U);
  EXPECT_EQ(schedule.operations[1].stream, Stream::compute);
  EXPECT_EQ(schedule.operations[1].kind, OperationKind::all_reduce);
  EXPECT_EQ(schedule.operations[2].stream, Stream::reduce);
  EXPECT_THAT(schedule.after_of(schedule.operations[2]), ElementsAre(OperationId{1}));
  EXPECT_TRUE(schedule.after_of(schedule.operations[3]).empty());
  EXPECT_THAT(schedule.after_of(schedule.operations[4]), ElementsAre(OperationId{2}));
  EXPECT_EQ(schedule.program.lanes[1].name, "nccl 0");
}

class EveryRecording : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryRecording, BuffersComeOnceAndGoOnce) {
  const Schedule schedule =
      shardscope::testing::recorded_llama(shardscope::testing::setup_of(GetParam()));
  std::vector<int> state(schedule.buffers.size());
  for (const HostAction& action : schedule.program.actions) {
    if (action.kind == Kind::allocate) {
      ASSERT_EQ(state[action.subject]++, 0);
    } else if (action.kind == Kind::record_stream) {
      ASSERT_EQ(state[action.subject], 1);
    } else if (action.kind == Kind::free) {
      ASSERT_EQ(state[action.subject]++, 1);
    }
  }
  EXPECT_EQ(std::count(state.begin(), state.end(), 0), 0);
}

TEST_P(EveryRecording, EventsAreRecordedBeforeTheyAreWaitedFor) {
  const Schedule schedule =
      shardscope::testing::recorded_llama(shardscope::testing::setup_of(GetParam()));
  std::uint32_t recorded = 0;
  for (const HostAction& action : schedule.program.actions) {
    if (action.kind == Kind::record_event) {
      ASSERT_EQ(action.subject, recorded++);
    } else if (action.kind == Kind::wait_event || action.kind == Kind::host_wait) {
      ASSERT_LT(action.subject, recorded);
    }
  }
  EXPECT_EQ(schedule.program.events, recorded);
}

// The step after the one that repeats would be the same again: as much comes as goes.
TEST_P(EveryRecording, TheSteadyStepLeavesWhatItFound) {
  const Schedule schedule =
      shardscope::testing::recorded_llama(shardscope::testing::setup_of(GetParam()));
  ASSERT_EQ(schedule.steps.size(), 3U);
  const Step& steady = schedule.steps[2];
  EXPECT_EQ(steady.label, "steady");
  std::int64_t change = 0;
  for (std::uint32_t i = steady.actions.begin; i < steady.actions.end; ++i) {
    const HostAction& action = schedule.program.actions[i];
    const int sign = action.kind == Kind::allocate ? 1 : action.kind == Kind::free ? -1 : 0;
    if (sign != 0) change += sign * schedule.buffers[action.subject].bytes.count;
  }
  EXPECT_EQ(change, 0);
}

INSTANTIATE_TEST_SUITE_P(ScheduleRecorder, EveryRecording,
                         ::testing::ValuesIn(shardscope::testing::every_runtime),
                         [](const auto& recorded) { return recorded.param; });

// P of 264 + ...: embedding and head 256 x 64 each, norms of 64, per block q 4096, k and v 2048
// each, o 4096, three of 64 x 96, two norms of 64.
TEST(RecordedTraining, CategoriesAreTheModelsStates) {
  const Schedule schedule = shardscope::testing::recorded_llama(shardscope::testing::plain_setup());
  CategoryBytes bytes;
  for (const Buffer& buffer : schedule.buffers)
    if (!buffer.freed_by) bytes[buffer.category] += buffer.bytes;
  const std::int64_t elements = 2 * 16384 + 64 + 3 * (2 * 4096 + 2 * 2048 + 3 * 6144 + 128);
  EXPECT_EQ(bytes[MemoryCategory::parameters].count, 4 * elements);
  EXPECT_EQ(bytes[MemoryCategory::optimizer_states].count, 8 * elements);
  EXPECT_EQ(bytes[MemoryCategory::gradients].count, 0);
}

// Four ranks, a unit a block: a block has 30'848 elements (2 x 4096 + 2 x 2048 + 3 x 6144 + 128),
// which four divides. Gathered whole, it is P of its unit, and of the unit is all that computes in
// it.
TEST(RecordedTraining, WhatFsdp1GathersIsTheUnitsParameters) {
  const Schedule schedule = shardscope::testing::recorded_llama(shardscope::testing::fsdp1_setup());
  std::vector<std::string> gathered;
  const Step& steady = schedule.steps[2];
  for (std::uint32_t i = steady.operations.begin; i < steady.operations.end; ++i) {
    const Operation& op = schedule.operations[i];
    if (op.kind == OperationKind::all_gather)
      gathered.push_back(schedule.units[op.unit.value].name);
  }
  // Forward, root first; backward, where only the root has stayed.
  EXPECT_THAT(gathered, ElementsAre("", "model.layers.0", "model.layers.1", "model.layers.2",
                                    "model.layers.2", "model.layers.1", "model.layers.0"));
  std::int64_t whole = 0;
  for (const Buffer& buffer : schedule.buffers) {
    if (!buffer.unit || schedule.units[buffer.unit.value].name != "model.layers.1") continue;
    if (buffer.category == MemoryCategory::parameters && buffer.bytes.count == 4 * 30'848) ++whole;
  }
  EXPECT_EQ(whole, 6);  // forward and backward of three steps
}

TEST(RecordedTraining, OperationsBelongToTheUnitOfTheirModule) {
  const Schedule schedule = shardscope::testing::recorded_llama(shardscope::testing::fsdp1_setup());
  for (const Operation& op : schedule.operations) {
    if (!op.owner || is_collective(op.kind)) continue;
    const std::string& module = schedule.owners[op.owner.value];
    if (!module.starts_with("model.layers.2.mlp")) continue;
    ASSERT_TRUE(op.unit);
    EXPECT_EQ(schedule.units[op.unit.value].name, "model.layers.2");
  }
}

}  // namespace
}  // namespace shardscope::eager
