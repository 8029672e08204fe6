// Steps of a real training on the stand-ins for CUDA and CUPTI: every kernel and copy comes out in
// the operation that launched it, whether the step is walked or replayed, and the run is the same
// as without.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "backend/cuda/cuda_device.h"
#include "backend/profile/cupti_recorder.h"
#include "backend/profile/recording_trace.h"
#include "backend/train/trainer.h"
#include "tests/backend/cuda/mirror_communicator.h"
#include "tests/backend/cuda/stand_in_device.h"
#include "tests/backend/cuda/stand_in_teacher.h"
#include "tests/backend/train/tiny_models.h"
#include "tests/backend/train/training_fixture.h"
#include "traces/analysis.h"
#include "traces/chrome_reader.h"
#include "traces/chrome_writer.h"
#include "traces/schedule_trace.h"

namespace shardscope::test {
namespace {

bool is_work(const RuntimeCall& call) {
  return call.name.starts_with("shardscope::") || call.name == "cudaMemcpyAsync" ||
         call.name == "cudaMemsetAsync";
}

int count_of_work(const std::vector<RuntimeCall>& calls) {
  return static_cast<int>(std::ranges::count_if(calls, is_work));
}

/// Counts what each operation asks of the runtime.
class CallCounter final : public Probe {
 public:
  void begin(OperationId) override { before_ = count_of_work(StandInDevice::get().calls()); }
  void end(OperationId operation) override {
    const int made = count_of_work(StandInDevice::get().calls()) - before_;
    if (made > 0) counts[operation] = made;
  }

  std::map<OperationId, int> counts;

 private:
  int before_ = 0;
};

class CuptiTraining : public TrainingFixture {
 protected:
  CuptiTraining() {
    StandInDevice::get().use(Haste::first_streams);
    StandInDevice::get().forget_calls();
  }

  Job small_job() const {
    Job one = job(smallest_gpt2, 2, ShardingStrategy::full_shard, "unused");
    one.check = false;
    one.batch = 1;
    one.seq = 8;
    return one;
  }
  std::unique_ptr<Device> make_device() const {
    std::unique_ptr<Device> device =
        make_cuda_device({.use_cublaslt = false, .attention = CudaAttention::own});
    teach_job(job_, 0, 2, *device);
    return device;
  }
  Executor& executor() { return trainer_.executor(); }
  void run_step(bool timed) {
    executor().run_step({.learning_rate = 1e-3, .step = ++step_}, timed);
    EXPECT_EQ(StandInDevice::get().violations(), std::vector<std::string>{});
  }
  template <class Steps>
  DeviceRecording recording_of(const Steps& steps) {
    EXPECT_EQ(recorder_->start(), "");
    executor().set_probes({&calls_, &recorder_->probe()});
    steps();
    executor().set_probes({});
    return recorder_->stop();
  }

  const Job job_ = small_job();
  const std::unique_ptr<Device> device_ = make_device();
  MirrorCommunicator world_{device_->memory()};
  Trainer trainer_{job_, world_, *device_};
  std::int64_t step_ = 0;
  CallCounter calls_;
  std::unique_ptr<DeviceRecorder> recorder_ = make_cupti_recorder();
};

/// What was recorded of a step's operations; the kernel that brings the step's state to the device
/// is queued before the step and is none's.
std::map<OperationId, int> counts_of(const DeviceRecording& recording, std::int32_t step) {
  std::map<OperationId, int> counts;
  for (const DeviceRecord& record : recording.records)
    if (record.operation && record.step == step) ++counts[record.operation];
  return counts;
}

TEST_F(CuptiTraining, WalkedStepsComeOutOperationByOperation) {
  const DeviceRecording recording = recording_of([&] {
    run_step(true);
    run_step(true);
  });
  ASSERT_GT(calls_.counts.size(), 20u);
  EXPECT_EQ(counts_of(recording, 1), calls_.counts);
  EXPECT_EQ(counts_of(recording, 2), calls_.counts);
  EXPECT_EQ(recording.dropped, 0);
}

// Captured in the window's first step and replayed in all of them.
TEST_F(CuptiTraining, ReplayedStepsComeOutOperationByOperation) {
  run_step(false);
  run_step(false);
  const DeviceRecording recording = recording_of([&] {
    executor().forget_graph();
    for (int i = 0; i < 3; ++i) run_step(false);
  });
  EXPECT_EQ(executor().why_no_graph(), "");
  ASSERT_GT(calls_.counts.size(), 20u);
  for (const std::int32_t step : {3, 4, 5})
    EXPECT_EQ(counts_of(recording, step), calls_.counts) << "step " << step;
}

// And those after it: what the window left in the graph goes on without a recorder.
TEST_F(CuptiTraining, WindowsFollowEachOther) {
  for (int window = 0; window < 3; ++window) {
    const DeviceRecording recording = recording_of([&] {
      executor().forget_graph();
      run_step(false);
    });
    EXPECT_EQ(counts_of(recording, static_cast<std::int32_t>(step_)), calls_.counts);
    run_step(false);
  }
}

TEST_F(CuptiTraining, AGraphFromBeforeIsSaidToBelongToNoOperation) {
  recording_of([] {});  // the stand-in library is loaded, and told nothing of the capture
  run_step(false);
  const DeviceRecording recording = recording_of([&] { run_step(false); });
  EXPECT_TRUE(counts_of(recording, 2).empty());
  EXPECT_GT(recording.records.size(), 20u);
}

// All streams of the trace together, and on each: what its operations took is what it was busy.
TEST_F(CuptiTraining, TheTracesStreamsAreBusyForWhatTheirOperationsTook) {
  const DeviceRecording recording = recording_of([&] {
    executor().forget_graph();
    for (int i = 0; i < 2; ++i) run_step(false);
  });
  Trace trace = start_trace(trainer_.schedule(), TraceKind::profiled);
  add_recording(
      trace, trainer_.schedule(), recording,
      {.base_monotonic_ns = recording.records.front().start_ns, .first_step = 1, .last_step = 2});
  std::map<std::uint16_t, Duration> sum;
  std::map<std::uint16_t, std::vector<TimeWindow>> windows;
  std::set<std::pair<std::int32_t, OperationId>> seen;
  for (const Span& span : trace.spans) {
    sum[span.track] = sum[span.track] + span.duration;
    windows[span.track].push_back({span.start, span.end()});
    if (span.operation) seen.insert({span.step, span.operation});
  }
  ASSERT_GE(windows.size(), 3u);  // compute, unshard, reduce
  for (auto& [track, spans] : windows) {
    EXPECT_TRUE(std::ranges::is_sorted(spans, {}, &TimeWindow::begin));
    EXPECT_EQ(IntervalUnion(std::move(spans)).length(), sum[track]) << trace.tracks[track].name;
  }
  EXPECT_EQ(seen.size(), 2 * calls_.counts.size());
}

// With all records, of a walked step: what is written is read again, call by call.
TEST_F(CuptiTraining, TheTraceIsReadAsItWasWritten) {
  recorder_ = make_cupti_recorder({.records = ProfileRecords::all});
  const DeviceRecording recording = recording_of([&] { run_step(true); });
  Trace trace = start_trace(trainer_.schedule(), TraceKind::profiled);
  add_recording(
      trace, trainer_.schedule(), recording,
      {.base_monotonic_ns = recording.records.front().start_ns, .first_step = 1, .last_step = 1});
  sort_measures(trace);
  EXPECT_EQ(parse_chrome_trace(chrome_trace_json(trace), "test").trace, trace);
}

TEST_F(CuptiTraining, TheRunGoesOnUnchanged) {
  const auto losses_of = [&](bool profiled) {
    const std::unique_ptr<Device> device = make_device();
    MirrorCommunicator world(device->memory());
    Trainer trainer(job_, world, *device);
    const auto recorder = make_cupti_recorder({.records = ProfileRecords::all});
    std::vector<double> losses;
    for (int step = 1; step <= 5; ++step) {
      if (profiled && step == 4) {
        EXPECT_EQ(recorder->start(), "");
        trainer.executor().set_probes({&recorder->probe()});
        trainer.executor().forget_graph();
      }
      const StepMetrics metrics = trainer.run_step().metrics;
      losses.push_back(metrics.loss);
      losses.push_back(metrics.gradient_norm);
    }
    if (profiled) recorder->stop();
    return losses;
  };
  EXPECT_EQ(losses_of(true), losses_of(false));
}

}  // namespace
}  // namespace shardscope::test
