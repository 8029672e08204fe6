// Our session on a stand-in for CUPTI, which records what the stand-in for a GPU runs: refusals,
// clocks, and the steps of a real training. Says nothing about CUPTI itself.
#include "backend/profile/cupti_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>

#include "backend/executor/step_recorder.h"
#include "tests/backend/cuda/stand_in_device.h"
#include "tests/backend/profile/cupti_fault.h"
#include "tests/backend/profile/recorder_place.h"

namespace shardscope::test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

const Kernel add = AddKernel{.dtype = Dtype::float32, .elements = 64};

class CuptiRecorder : public testing::Test {
 protected:
  void launch() {
    const std::array<void*, 3> operands{memory_->data(), memory_->data() + 256, nullptr};
    place_.device->run(add, {.operands = operands, .slices = {}, .state = {}});
    place_.device->memory().wait();
  }
  CuptiRecorder() {
    place_.device->prepare(add);
    launch();
  }

  RecorderPlace place_ = make_recorder_place(add);
  std::unique_ptr<Arena> memory_ = place_.device->memory().allocate(512_B);
  std::unique_ptr<DeviceRecorder> recorder_ = make_cupti_recorder({.records = ProfileRecords::all});
};

TEST_F(CuptiRecorder, SaysWhoIsInTheWayAndRecordsOnceTheyAreGone) {
  {
    const CuptiFault fault("subscribed");
    EXPECT_THAT(recorder_->start(), AllOf(HasSubstr("nsys"), HasSubstr("CUPTI for another tool")));
    // Steps go on, and the probe is told of them.
    recorder_->probe().begin_step(1);
    launch();
    recorder_->probe().end_step();
  }
  ASSERT_EQ(recorder_->start(), "");
  launch();
  EXPECT_FALSE(recorder_->stop().records.empty());
}

TEST_F(CuptiRecorder, SaysWhichPermissionIsMissingAndLeavesThePlaceFree) {
  {
    const CuptiFault fault("no_permission");
    EXPECT_THAT(recorder_->start(),
                AllOf(HasSubstr("kernels cannot be recorded"), HasSubstr("CAP_SYS_ADMIN")));
  }
  EXPECT_EQ(make_cupti_recorder()->start(), "");
}

TEST_F(CuptiRecorder, GoesOnWithoutWhatIsNotNeeded) {
  const CuptiFault fault("no_memory");
  ASSERT_EQ(recorder_->start(), "");
  launch();
  const DeviceRecording recording = recorder_->stop();
  EXPECT_THAT(recording.notes, Contains(HasSubstr("no records of memory")));
  EXPECT_EQ(std::ranges::count(recording.records, RecordKind::kernel, &DeviceRecord::kind), 1);
}

TEST_F(CuptiRecorder, BringsAClockOfItsOwnToTheHosts) {
  const CuptiFault fault("own_clock");
  ASSERT_EQ(recorder_->start(), "");
  const std::int64_t begin = monotonic_ns();
  launch();
  const std::int64_t end = monotonic_ns();
  const DeviceRecording recording = recorder_->stop();
  const auto kernel = std::ranges::find(recording.records, RecordKind::kernel, &DeviceRecord::kind);
  ASSERT_NE(kernel, recording.records.end());
  // The clocks run evenly: what is left is that of reading them.
  constexpr std::int64_t drift_ns = 1'000;
  EXPECT_GE(kernel->start_ns, begin - recording.clock_residual.ns - drift_ns);
  EXPECT_LE(kernel->end_ns, end + recording.clock_residual.ns + drift_ns);
}

TEST_F(CuptiRecorder, WithoutAnyBufferEverythingIsDroppedAndCounted) {
  recorder_ = make_cupti_recorder({.buffers = 0});
  ASSERT_EQ(recorder_->start(), "");
  recorder_->probe().begin_step(1);
  launch();
  recorder_->probe().end_step();
  const DeviceRecording recording = recorder_->stop();
  EXPECT_TRUE(recording.records.empty());
  // The kernel, its call and the link between call and step.
  EXPECT_EQ(recording.dropped, 3);
  EXPECT_THAT(recording.notes,
              testing::ElementsAre("CUPTI: 3 records were dropped: the buffers were full",
                                   "CUPTI: 3 times a buffer was asked for while all 0 of 512 KiB "
                                   "were in use"));
}

TEST_F(CuptiRecorder, WhatIsKeptAndWhatIsDroppedAreAllThatWasMade) {
  constexpr std::size_t launches = 200;
  // A call has 40 bytes, a kernel 216: no kernel ever fits, and of the calls those that find a
  // buffer.
  recorder_ =
      make_cupti_recorder({.records = ProfileRecords::all, .buffers = 1, .buffer_bytes = 128});
  ASSERT_EQ(recorder_->start(), "");
  for (std::size_t i = 0; i < launches; ++i) launch();
  const DeviceRecording recording = recorder_->stop();
  EXPECT_FALSE(recording.records.empty());
  EXPECT_GE(recording.dropped, static_cast<std::int64_t>(launches));
  EXPECT_EQ(recording.records.size() + static_cast<std::size_t>(recording.dropped), 2 * launches);
}

TEST_F(CuptiRecorder, WhatWasDroppedIsNotTheNextRecordings) {
  recorder_ = make_cupti_recorder({.buffers = 0});
  ASSERT_EQ(recorder_->start(), "");
  launch();
  EXPECT_GT(recorder_->stop().dropped, 0);
  recorder_ = make_cupti_recorder();
  ASSERT_EQ(recorder_->start(), "");
  launch();
  EXPECT_EQ(recorder_->stop().dropped, 0);
}

TEST_F(CuptiRecorder, WhatComesLateIsOfItsOwnWindowAndItsBufferIsUsedAgain) {
  recorder_ = make_cupti_recorder({.buffers = 1});
  {
    const CuptiFault fault("late");
    ASSERT_EQ(recorder_->start(), "");
    launch();
    const DeviceRecording recording = recorder_->stop();
    EXPECT_TRUE(recording.records.empty());
    EXPECT_THAT(recording.notes, Contains(HasSubstr("1 buffers were not given back")));
  }
  ASSERT_EQ(recorder_->start(), "");
  launch();
  const DeviceRecording second = recorder_->stop();
  EXPECT_EQ(std::ranges::count(second.records, RecordKind::kernel, &DeviceRecord::kind), 1);
  EXPECT_EQ(second.dropped, 0);
  // The kernel and its call.
  EXPECT_THAT(second.notes, testing::ElementsAre(HasSubstr("2 records of windows before")));
  ASSERT_EQ(recorder_->start(), "");
  launch();
  EXPECT_THAT(recorder_->stop().notes, testing::IsEmpty());
}

TEST_F(CuptiRecorder, SaysHowManyRecordsItCannotRead) {
  const CuptiFault fault("new_kind");
  ASSERT_EQ(recorder_->start(), "");
  launch();
  EXPECT_THAT(recorder_->stop().notes,
              Contains(HasSubstr("1 records are of kinds that are not read")));
}

// An error of the device ends a job while it records: what goes then must not wait for the device.
TEST_F(CuptiRecorder, GoesWithoutWaitingForADeviceThatDoesNotAnswer) {
  ASSERT_EQ(recorder_->start(), "");
  launch();
  const std::int64_t begin = monotonic_ns();
  {
    const CuptiFault fault("hung");
    recorder_.reset();
  }
  EXPECT_LT(monotonic_ns() - begin, 60'000'000'000);
  // The place is free, and what was left behind is not the next one's.
  recorder_ = make_cupti_recorder();
  ASSERT_EQ(recorder_->start(), "");
  EXPECT_TRUE(recorder_->stop().records.empty());
}

TEST_F(CuptiRecorder, MayBeDroppedWhileItRecords) {
  ASSERT_EQ(recorder_->start(), "");
  launch();
  recorder_.reset();
  launch();
  const auto other = make_cupti_recorder();
  ASSERT_EQ(other->start(), "");
  EXPECT_TRUE(other->stop().records.empty());
}

}  // namespace
}  // namespace shardscope::test
