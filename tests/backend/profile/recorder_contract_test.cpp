// What a recorder of the device owes, on a hand-written set of kernels, copies and sets: run on the
// stand-ins for CUDA and CUPTI, and by profile_gpu_tests on the real ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <set>

#include "backend/executor/step_recorder.h"
#include "backend/profile/cupti_recorder.h"
#include "tests/backend/profile/recorder_place.h"

namespace shardscope::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

constexpr OperationId first{0}, second{1}, third{2};
constexpr std::int64_t elements = 1 << 16;
constexpr Bytes one_buffer{elements * 4};
const Kernel gelu = GeluForwardKernel{{.dtype = Dtype::float32, .rows = 256, .features = 256}};
/// CUPTI interpolates the device's times between a few that it takes on both clocks.
constexpr std::int64_t interpolation_ns = 100'000;
constexpr StepState state{.learning_rate = 0, .step = 1};

class RecorderContract : public testing::Test {
 protected:
  void SetUp() override {
    place_ = make_recorder_place(gelu);
    if (!place_.device) GTEST_SKIP() << place_.why_not;
    device().prepare(gelu);
    in_ = device().memory().allocate(one_buffer);
    out_ = device().memory().allocate(one_buffer);
    // The state of the step comes to the device by a kernel of its own, which is no operation's.
    device().begin_step(state);
    device().streams().make_events(2);
    device().memory().wait();
  }

  Device& device() { return *place_.device; }

  void launch_kernel() {
    const std::array<void*, 3> operands{in_->data(), out_->data(), nullptr};
    device().run(gelu, {.operands = operands, .slices = {}, .state = state});
  }
  void launch_copy() {
    device().memory().copy(out_->data(), {in_->data(), static_cast<std::size_t>(one_buffer.count)});
  }
  /// From now on on `to`, behind what was queued on `from`.
  void go_on(Stream from, Stream to, std::size_t event) {
    device().streams().select(from);
    device().streams().record(event);
    device().streams().select(to);
    device().streams().wait_for(event);
  }
  void wait() {
    device().streams().select(Stream::compute);
    device().memory().wait();
  }

  template <class Launches>
  void in_operation(OperationId operation, const Launches& launches) {
    recorder_->probe().begin(operation);
    launches();
    recorder_->probe().end(operation);
  }
  template <class Operations>
  void in_step(std::int64_t step, const Operations& operations) {
    recorder_->probe().begin_step(step);
    operations();
    wait();
    recorder_->probe().end_step();
  }
  template <class Steps>
  DeviceRecording recording_of(const Steps& steps) {
    EXPECT_EQ(recorder_->start(), "");
    steps();
    return recorder_->stop();
  }
  /// Two operations of which the second works on a stream beside, as a graph.
  std::unique_ptr<DeviceGraph> capture() {
    device().streams().begin_capture();
    recorder_->probe().begin_capture();
    in_operation(first, [&] { launch_kernel(); });
    go_on(Stream::compute, Stream::unshard, 0);
    in_operation(second, [&] { launch_copy(); });
    go_on(Stream::unshard, Stream::compute, 1);
    launch_kernel();  // no operation's
    recorder_->probe().end_capture();
    Capture captured = device().streams().end_capture();
    EXPECT_EQ(captured.why_not, "");
    return std::move(captured.graph);
  }

  RecorderPlace place_;
  std::unique_ptr<Arena> in_, out_;
  std::unique_ptr<DeviceRecorder> recorder_ = make_cupti_recorder();
};

/// How many records of work each operation has.
std::map<OperationId, int> count_by_operation(const DeviceRecording& recording, std::int32_t step) {
  std::map<OperationId, int> counts;
  for (const DeviceRecord& record : recording.records)
    if (is_device_work(record.kind) && record.step == step) ++counts[record.operation];
  return counts;
}

int count_of_work(const DeviceRecording& recording) {
  return static_cast<int>(std::ranges::count_if(
      recording.records, [](const DeviceRecord& record) { return is_device_work(record.kind); }));
}

/// Of one stream, stretch by stretch between any two moments at which a record begins or ends: it
/// is the operation's whose record, of those that run then, began first.
std::map<OperationId, Duration> time_by_stretches(const std::vector<DeviceRecord>& records) {
  std::set<std::int64_t> moments;
  for (const DeviceRecord& record : records)
    if (is_device_work(record.kind)) moments.insert({record.start_ns, record.end_ns});
  std::map<OperationId, Duration> times;
  for (auto begin = moments.begin(); begin != moments.end() && std::next(begin) != moments.end();
       ++begin) {
    const std::int64_t end = *std::next(begin);
    const auto owner = std::ranges::find_if(records, [&](const DeviceRecord& record) {
      return is_device_work(record.kind) && record.start_ns <= *begin && record.end_ns >= end;
    });
    if (owner != records.end()) times[owner->operation] += Duration{end - *begin};
  }
  return times;
}

TEST_F(RecorderContract, EveryLaunchComesOutInItsOperation) {
  const std::int64_t begin = monotonic_ns();
  const DeviceRecording recording = recording_of([&] {
    launch_copy();  // before the step
    in_step(7, [&] {
      in_operation(first, [&] {
        for (int i = 0; i < 3; ++i) launch_kernel();
      });
      in_operation(second, [&] { launch_copy(); });
      in_operation(third, [] {});  // launches nothing
      launch_kernel();             // between operations
    });
  });
  const std::int64_t end = monotonic_ns();
  EXPECT_EQ(recording.dropped, 0);
  EXPECT_THAT(
      count_by_operation(recording, 7),
      testing::UnorderedElementsAre(Pair(first, 3), Pair(second, 1), Pair(OperationId{}, 1)));
  EXPECT_THAT(count_by_operation(recording, 0), ElementsAre(Pair(OperationId{}, 1)));
  for (const DeviceRecord& record : recording.records) {
    EXPECT_GE(record.start_ns, begin - interpolation_ns);
    EXPECT_LE(record.end_ns, end + interpolation_ns);
    EXPECT_LT(record.start_ns, record.end_ns);
    if (record.operation == first) {
      EXPECT_EQ(record.kind, RecordKind::kernel);
      EXPECT_THAT(std::string(recording.name(record)), HasSubstr("elu"));
    }
    if (record.operation == second) {
      EXPECT_EQ(record.copy, CopyKind::device_to_device);
      EXPECT_EQ(record.bytes, one_buffer.count);
    }
  }
  EXPECT_TRUE(std::ranges::is_sorted(recording.records, {}, &DeviceRecord::start_ns));
}

TEST_F(RecorderContract, TheInnermostOfNestedOperationsHasTheLaunch) {
  const DeviceRecording recording = recording_of([&] {
    in_step(1, [&] {
      in_operation(first, [&] {
        launch_kernel();
        in_operation(second, [&] { launch_kernel(); });
        launch_kernel();
      });
    });
  });
  EXPECT_THAT(count_by_operation(recording, 1), ElementsAre(Pair(first, 2), Pair(second, 1)));
}

TEST_F(RecorderContract, StreamsBesideEachOtherAreToldApart) {
  const DeviceRecording recording = recording_of([&] {
    in_step(1, [&] {
      for (int i = 0; i < 8; ++i) {
        device().streams().select(Stream::compute);
        in_operation(first, [&] { launch_kernel(); });
        device().streams().select(Stream::unshard);
        in_operation(second, [&] { launch_copy(); });
      }
      go_on(Stream::unshard, Stream::compute, 0);
    });
  });
  std::map<OperationId, std::set<std::uint32_t>> streams;
  for (const DeviceRecord& record : recording.records)
    if (is_device_work(record.kind)) streams[record.operation].insert(record.stream);
  EXPECT_THAT(count_by_operation(recording, 1), ElementsAre(Pair(first, 8), Pair(second, 8)));
  ASSERT_EQ(streams[first].size(), 1u);
  ASSERT_EQ(streams[second].size(), 1u);
  EXPECT_NE(*streams[first].begin(), *streams[second].begin());
}

TEST_F(RecorderContract, TimeByOperationIsTheStreamsTimeToTheNanosecond) {
  const DeviceRecording recording = recording_of([&] {
    in_step(1, [&] {
      for (int i = 0; i < 20; ++i) {
        in_operation(first, [&] { launch_kernel(); });
        in_operation(second, [&] { launch_copy(); });
      }
    });
  });
  const std::vector<StreamBusy> streams = busy_by_stream(recording);
  ASSERT_EQ(streams.size(), 1u);
  const std::map<OperationId, Duration> expected = time_by_stretches(recording.records);
  EXPECT_EQ(streams[0].by_operation, expected);
  EXPECT_EQ(streams[0].busy, expected.at(first) + expected.at(second));
}

TEST_F(RecorderContract, ReplaysOfAGraphComeOutInTheirOperationsAndSteps) {
  std::unique_ptr<DeviceGraph> graph;
  const DeviceRecording recording = recording_of([&] {
    graph = capture();
    for (const std::int64_t step : {5, 6}) in_step(step, [&] { graph->launch(); });
  });
  for (const std::int32_t step : {5, 6}) {
    EXPECT_THAT(
        count_by_operation(recording, step),
        testing::UnorderedElementsAre(Pair(first, 1), Pair(second, 1), Pair(OperationId{}, 1)))
        << "step " << step;
  }
  EXPECT_EQ(count_of_work(recording), 6);
}

TEST_F(RecorderContract, AGraphMayBeCapturedAnewInEveryRecording) {
  for (int round = 0; round < 3; ++round) {
    std::unique_ptr<DeviceGraph> graph;
    const DeviceRecording recording = recording_of([&] {
      graph = capture();
      in_step(9, [&] { graph->launch(); });
    });
    EXPECT_EQ(count_by_operation(recording, 9).at(first), 1) << "round " << round;
    EXPECT_EQ(count_by_operation(recording, 9).at(second), 1) << "round " << round;
  }
}

TEST_F(RecorderContract, StartsAndStopsFiftyTimes) {
  for (int round = 1; round <= 50; ++round) {
    launch_kernel();  // while nothing is recorded
    wait();
    const DeviceRecording recording = recording_of(
        [&] { in_step(round, [&] { in_operation(first, [&] { launch_kernel(); }); }); });
    ASSERT_EQ(count_of_work(recording), 1) << "round " << round;
    ASSERT_EQ(count_by_operation(recording, round).at(first), 1) << "round " << round;
    ASSERT_EQ(recording.dropped, 0) << "round " << round;
  }
}

// Buffers too small for what is launched: whatever is lost is said, and the launches still run.
TEST_F(RecorderContract, WhatDoesNotFitIsCounted) {
  recorder_ = make_cupti_recorder({.buffers = 1, .buffer_bytes = 64 << 10});
  constexpr int launches = 5'000;
  DeviceRecording recording;
  // The one buffer may be read just in time; not ever again.
  for (int round = 0; round < 20 && recording.dropped == 0; ++round) {
    recording = recording_of([&] {
      in_step(1, [&] {
        in_operation(first, [&] {
          for (int i = 0; i < launches; ++i) launch_copy();
        });
      });
    });
  }
  ASSERT_GT(recording.dropped, 0) << "all of it fitted";
  const int recorded = count_of_work(recording);
  // Calls and links are dropped too.
  EXPECT_GE(recorded + recording.dropped, launches);
  EXPECT_THAT(recording.notes, testing::Contains(HasSubstr("records were dropped")));
}

TEST_F(RecorderContract, NoMoreIsKeptThanWasAskedFor) {
  recorder_ = make_cupti_recorder({.most_records = 10});
  const DeviceRecording recording = recording_of([&] {
    in_step(1, [&] {
      for (int i = 0; i < 30; ++i) launch_kernel();
    });
  });
  EXPECT_EQ(recording.records.size(), 10u);
  EXPECT_GE(recording.dropped, 20);
  EXPECT_THAT(recording.notes, testing::Contains(HasSubstr("beyond the first 10")));
}

TEST_F(RecorderContract, TheHostsCallsAreRecordedWhereAllIsWanted) {
  for (const ProfileRecords level : {ProfileRecords::kernels, ProfileRecords::all}) {
    recorder_ = make_cupti_recorder({.records = level});
    const DeviceRecording recording =
        recording_of([&] { in_step(1, [&] { in_operation(first, [&] { launch_kernel(); }); }); });
    const auto calls = std::ranges::count(recording.records, RecordKind::call, &DeviceRecord::kind);
    EXPECT_EQ(calls > 0, level == ProfileRecords::all);
    EXPECT_EQ(count_of_work(recording), 1);
  }
}

TEST_F(RecorderContract, MemoryThatIsTakenIsRecorded) {
  const DeviceRecording recording = recording_of([&] {
    const auto more = device().memory().allocate(1_MiB);
    wait();
  });
  const std::vector<LibraryMemory> memory = memory_by_library(recording);
  ASSERT_FALSE(memory.empty());
  EXPECT_GE(memory[0].allocated, 1_MiB);
  EXPECT_EQ(memory[0].allocated, memory[0].released);
}

TEST_F(RecorderContract, ASecondRecorderIsToldThatOneIsAtWork) {
  ASSERT_EQ(recorder_->start(), "");
  const auto other = make_cupti_recorder();
  EXPECT_THAT(other->start(), HasSubstr("another profiler is at work"));
  in_step(1, [&] { in_operation(first, [&] { launch_kernel(); }); });
  EXPECT_EQ(count_of_work(recorder_->stop()), 1);
  EXPECT_EQ(other->start(), "");
  other->stop();
}

}  // namespace
}  // namespace shardscope::test
