// Windows of a training whose steps are replayed as a graph, on the stand-ins for CUDA and CUPTI.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "backend/cuda/cuda_device.h"
#include "backend/profile/cupti_recorder.h"
#include "backend/profile/device_instrument.h"
#include "backend/profile/profile_signal.h"
#include "backend/profile/profiler.h"
#include "backend/train/trainer.h"
#include "tests/backend/cuda/mirror_communicator.h"
#include "tests/backend/cuda/stand_in_device.h"
#include "tests/backend/cuda/stand_in_teacher.h"
#include "tests/backend/profile/cupti_fault.h"
#include "tests/backend/profile/stretch_accounting.h"
#include "tests/backend/train/tiny_models.h"
#include "tests/backend/train/training_fixture.h"
#include "traces/analysis.h"
#include "traces/chrome_reader.h"

namespace shardscope::test {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsFalse;

class DeviceWindows : public TrainingFixture {
 protected:
  DeviceWindows() { StandInDevice::get().use(Haste::first_streams); }

  Job small_job() const {
    Job one = job(smallest_gpt2, 2, ShardingStrategy::full_shard, "windows");
    one.check = false;
    one.batch = 1;
    one.seq = 8;
    one.profile_steps = 1;
    one.profile = {.start = 5, .steps = 3, .every = 0};
    return one;
  }

  /// The schedule's operations for which the device has something to do; of a sum over the ranks
  /// the mirror leaves it as it is.
  static std::set<OperationId> launching(const Schedule& schedule) {
    std::set<OperationId> ids;
    for (std::uint32_t i = 0; i < schedule.operations.size(); ++i) {
      const OperationKind kind = schedule.operations[i].kind;
      if (kind != OperationKind::host && kind != OperationKind::all_reduce)
        ids.insert(OperationId{i});
    }
    return ids;
  }

  /// Losses of ten steps; what the profiler said of timing each is noted.
  std::vector<double> losses_of_run(bool with_windows) {
    const std::unique_ptr<Device> device =
        make_cuda_device({.use_cublaslt = false, .attention = CudaAttention::own});
    teach_job(job_, 0, 2, *device);
    MirrorCommunicator world(device->memory());
    Trainer trainer(job_, world, *device);
    launching_ = launching(trainer.schedule());
    std::filesystem::create_directories(job_.output);
    const Environment environment{.world = 2, .local_world = 2};
    Profiler profiler({.job = job_,
                       .environment = environment,
                       .executor = trainer.executor(),
                       .signal = signal_,
                       .session = nullptr,
                       .deadline = std::chrono::seconds(60),
                       .longest_stall = std::chrono::seconds(60),
                       .device = "cuda: stand-in"});
    if (has_records_)
      profiler.add(make_device_instrument(trainer.schedule(), make_cupti_recorder()));
    std::vector<double> losses;
    for (std::int64_t step = 1; step <= 10; ++step) {
      if (with_windows) timed_.push_back(profiler.before_step(step));
      losses.push_back(trainer.run_step({}, with_windows && timed_.back()).metrics.loss);
      if (with_windows) profiler.after_step(step, {});
    }
    profiler.finish();
    EXPECT_EQ(StandInDevice::get().violations(), std::vector<std::string>{});
    return losses;
  }
  Trace window() const {
    return read_chrome_trace(job_.output / "profiles" / "5-7" / "trace.0.json.gz").trace;
  }

  const Job job_ = small_job();
  ProfileSignal signal_;
  bool has_records_ = true;
  std::vector<bool> timed_;
  std::set<OperationId> launching_;
};

TEST_F(DeviceWindows, AreReplayedAndHoldEachOperationOfEachStep) {
  losses_of_run(true);
  EXPECT_THAT(timed_, Each(IsFalse())) << "no step of the window is walked to be timed";
  const Trace trace = window();
  std::map<int, std::set<OperationId>> operations;
  for (const Span& span : trace.spans)
    if (span.operation && is_on_device(trace, span)) operations[span.step].insert(span.operation);
  EXPECT_EQ(operations.size(), 3u);
  for (const int step : {5, 6, 7}) EXPECT_EQ(operations[step], launching_) << "step " << step;
}

TEST_F(DeviceWindows, ShowMemoryWhenTheOperationsBegin) {
  losses_of_run(true);
  const Trace trace = window();
  ASSERT_GT(trace.memory.size(), 10u);
  EXPECT_TRUE(std::ranges::is_sorted(trace.memory, {}, &MemorySample::time));
  const std::vector<StepWindow> steps = step_windows(trace);
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(memory_peak(trace, steps[1].window).total, memory_peak(trace, steps[2].window).total);
}

TEST_F(DeviceWindows, LeaveLossesAsTheyAre) {
  EXPECT_EQ(losses_of_run(true), losses_of_run(false));
}

TEST_F(DeviceWindows, AreWalkedAndTimedWhereTheDeviceGivesNoRecords) {
  has_records_ = false;
  EXPECT_EQ(losses_of_run(true), losses_of_run(false));
  EXPECT_THAT(timed_, ::testing::ElementsAre(false, false, false, false, true, true, true, false,
                                             false, false));
  const Trace trace = window();
  EXPECT_EQ(step_windows(trace).size(), 3u);
  for (const StepWindow& step : step_windows(trace))
    EXPECT_GT(account(trace, step.window).compute, Duration{});
}

TEST_F(DeviceWindows, TimeIsThatOfItsStretches) {
  losses_of_run(true);
  const Trace trace = window();
  for (const StepWindow& step : step_windows(trace)) {
    const Accounting time = account(trace, step.window);
    EXPECT_EQ(time, account_by_stretches(trace, step.window));
    EXPECT_GT(time.compute, Duration{});
  }
}

TEST_F(DeviceWindows, AreTimedByMarksWhereAnotherProfilerIsAtWork) {
  const CuptiFault fault("subscribed");
  losses_of_run(true);
  EXPECT_EQ(std::ranges::count(timed_, true), 3);
  const Trace trace = window();
  EXPECT_EQ(step_windows(trace).size(), 3u);
  EXPECT_THAT(trace.recording.notes, ::testing::Contains(::testing::AllOf(
                                         HasSubstr("nsys"), HasSubstr("timed by marks"))));
}

}  // namespace
}  // namespace shardscope::test
