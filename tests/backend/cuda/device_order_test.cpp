// Real training runs on the CUDA device's host code, with its kernels emulated behind a stand-in
// for the CUDA runtime: what is asked of the device in which order, and that this order is enough.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "backend/cpu/cpu_device.h"
#include "backend/cuda/cuda_device.h"
#include "backend/cuda/cuda_streams.h"
#include "backend/train/trainer.h"
#include "core/format/atomic_file.h"
#include "tests/backend/cuda/launch_record.h"
#include "tests/backend/cuda/mirror_communicator.h"
#include "tests/backend/cuda/stand_in_device.h"
#include "tests/backend/cuda/stand_in_teacher.h"
#include "tests/backend/train/tiny_models.h"
#include "tests/backend/train/training_fixture.h"

namespace shardscope::test {
namespace {

struct Order {
  ShardingStrategy sharding;
  Haste haste;
  Offload offload = Offload::none;
};
void PrintTo(const Order& order, std::ostream* out) {
  *out << name_of(order.sharding)
       << (order.haste == Haste::first_streams ? ", compute first" : ", compute last")
       << ", offload " << name_of(order.offload);
}

/// Steps 1 and 2 are timed, 3 is captured, 4 is a replay, 5 is timed again.
constexpr int steps = 5;

class DeviceOrder : public TrainingFixture {
 protected:
  DeviceOrder() {
    StandInDevice::get().use(Haste::first_streams);
    StandInDevice::get().refuse_graphs(false);
    StandInDevice::get().refuse_captured_copies(false);
    StandInDevice::get().forget_calls();
  }

  Job small_job(ShardingStrategy sharding) const {
    Job one = job(smallest_gpt2, 2, sharding, "unused");
    one.strategy.precision = Precision::bf16_mixed;
    one.check = false;
    one.batch = 1;
    one.seq = 8;
    one.steps = steps;
    one.profile_steps = 1;
    return one;
  }

  /// A device whose kernels the stand-in knows.
  static std::unique_ptr<Device> device_for(const Job& job) {
    std::unique_ptr<Device> device =
        make_cuda_device({.use_cublaslt = false, .attention = CudaAttention::own});
    teach_job(job, 0, 2, *device);
    return device;
  }

  static std::vector<double> train_on(Device& device, const Job& job) {
    MirrorCommunicator world(device.memory());
    Trainer trainer(job, world, device);
    std::vector<double> figures;
    for (std::int64_t step = 0; step < job.steps; ++step) {
      const StepMetrics metrics = trainer.run_step().metrics;
      figures.push_back(metrics.loss);
      figures.push_back(metrics.gradient_norm);
    }
    return figures;
  }
};

class EveryOrder : public DeviceOrder, public ::testing::WithParamInterface<Order> {};

// Whatever the streams do first, as far as events let them: the losses of all steps, those of the
// captured and of the replayed one with their own learning rates, are the CPU's.
TEST_P(EveryOrder, TrainsAsTheCpuDeviceDoes) {
  StandInDevice::get().use(GetParam().haste);
  Job one = small_job(GetParam().sharding);
  one.strategy.offload = GetParam().offload;
  create_folder(one.output);
  const std::vector<double> ours = train_on(*device_for(one), one);
  EXPECT_EQ(StandInDevice::get().violations(), std::vector<std::string>{});
  const auto cpu = make_cpu_device({.threads = 1, .use_onednn = false});
  const std::vector<double> expected = train_on(*cpu, one);
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(ours[i], expected[i], 0.02 * expected[i]) << "step " << i / 2 + 1;
}

INSTANTIATE_TEST_SUITE_P(
    , EveryOrder,
    ::testing::Values(Order{ShardingStrategy::no_shard, Haste::first_streams},
                      Order{ShardingStrategy::full_shard, Haste::first_streams},
                      Order{ShardingStrategy::full_shard, Haste::last_streams},
                      Order{ShardingStrategy::zero1, Haste::first_streams, Offload::optimizer},
                      Order{ShardingStrategy::zero1, Haste::last_streams, Offload::optimizer},
                      Order{ShardingStrategy::full_shard, Haste::first_streams, Offload::all},
                      Order{ShardingStrategy::full_shard, Haste::last_streams, Offload::all}));

/// A trainer on the stand-in, and the calls of single steps.
class OneStep : public DeviceOrder {
 protected:
  enum class Timed : bool { no, yes };

  std::vector<RuntimeCall> calls_of_step(Timed timed) {
    StandInDevice::get().forget_calls();
    trainer_.executor().run_step({.learning_rate = 1e-3, .step = ++step_}, timed == Timed::yes);
    EXPECT_EQ(StandInDevice::get().violations(), std::vector<std::string>{});
    return StandInDevice::get().calls();
  }

  const Job job_ = small_job(ShardingStrategy::full_shard);
  const std::unique_ptr<Device> device_ = device_for(job_);
  MirrorCommunicator world_{device_->memory()};
  Trainer trainer_{job_, world_, *device_};
  std::int64_t step_ = 0;
};

std::vector<std::string> names_on(const std::vector<RuntimeCall>& calls, Stream stream) {
  std::vector<std::string> names;
  for (const RuntimeCall& call : calls)
    if (call.stream == static_cast<int>(stream)) names.push_back(call.name);
  return names;
}

bool is_launch(const std::string& name) { return name.starts_with("shardscope::"); }

// The first launch brings the state of the step.
TEST_F(OneStep, LaunchesWhatTheScheduleHasInItsOrder) {
  std::vector<std::string> launched = names_on(calls_of_step(Timed::yes), Stream::compute);
  std::erase_if(launched, [](const std::string& name) { return !is_launch(name); });
  std::vector<std::string> expected{"shardscope::cuda::SetStepState"};
  const Schedule& schedule = trainer_.schedule();
  for (const Operation& operation : schedule.operations) {
    if (operation.phase == Phase::init || is_collective(operation.kind) ||
        operation.kind == OperationKind::host)
      continue;
    for (const Launch& launch : launches_of(schedule, operation)) expected.push_back(launch.body);
  }
  EXPECT_EQ(launched, expected);
}

// A gather is a copy to each half here, unless it has its own there; a reduction is one.
TEST_F(OneStep, CollectivesHaveTheStreamsOfTheSchedule) {
  const std::vector<RuntimeCall> calls = calls_of_step(Timed::yes);
  const auto copies = [&](Stream stream) {
    return std::ranges::count(names_on(calls, stream), "cudaMemcpyAsync");
  };
  const auto count = [&](OperationKind kind) {
    return std::ranges::count(trainer_.schedule().operations, kind, &Operation::kind);
  };
  ASSERT_GT(count(OperationKind::all_gather), 0);
  EXPECT_GE(copies(Stream::unshard), count(OperationKind::all_gather));
  EXPECT_LE(copies(Stream::unshard), 2 * count(OperationKind::all_gather));
  EXPECT_EQ(copies(Stream::reduce), count(OperationKind::reduce_scatter));
  EXPECT_EQ(copies(Stream::compute), 0);
  // A stream waits for the begin of the step before anything else.
  EXPECT_EQ(names_on(calls, Stream::unshard).front(), "cudaStreamWaitEvent");
}

TEST_F(OneStep, AllocatesNothingAndWaitsForTheDeviceOnceAtItsEnd) {
  const std::set<std::string> inside{"cudaMemcpyAsync",      "cudaEventRecord",
                                     "cudaStreamWaitEvent",  "cudaStreamBeginCapture",
                                     "cudaStreamEndCapture", "cudaGraphLaunch"};
  for (const Timed timed : {Timed::yes, Timed::no, Timed::no}) {
    const std::vector<RuntimeCall> calls = calls_of_step(timed);
    EXPECT_EQ(calls.back().name, "cudaStreamSynchronize");
    for (std::size_t i = 0; i + 1 < calls.size(); ++i)
      EXPECT_TRUE(is_launch(calls[i].name) || inside.count(calls[i].name)) << calls[i].name;
  }
}

TEST_F(OneStep, CapturesWhatItWouldHaveQueued) {
  std::vector<RuntimeCall> captured = calls_of_step(Timed::no);
  const auto begin = std::ranges::find(captured, "cudaStreamBeginCapture", &RuntimeCall::name);
  const auto end = std::ranges::find(captured, "cudaStreamEndCapture", &RuntimeCall::name);
  ASSERT_NE(end, captured.end());
  captured = {begin + 1, end};

  Executor plain(trainer_.schedule(), *device_, world_,
                 {.check = false, .recorded_steps = 0, .use_graph = false});
  StandInDevice::get().forget_calls();
  plain.run_step({.learning_rate = 1e-3, .step = 1}, false);
  std::vector<RuntimeCall> queued = StandInDevice::get().calls();
  // Before: the state of another step. After: the wait for the device. Events are others.
  ASSERT_EQ(queued.size(), captured.size() + 1);
  queued.pop_back();
  for (std::size_t i = 0; i < queued.size(); ++i) {
    EXPECT_EQ(queued[i].name, captured[i].name) << i;
    EXPECT_EQ(queued[i].stream, captured[i].stream) << i;
  }
}

TEST_F(OneStep, IsReplayedByOneLaunchWithItsOwnState) {
  calls_of_step(Timed::no);
  std::vector<std::string> names;
  for (const RuntimeCall& call : calls_of_step(Timed::no)) names.push_back(call.name);
  EXPECT_EQ(names, (std::vector<std::string>{"shardscope::cuda::SetStepState", "cudaGraphLaunch",
                                             "cudaStreamSynchronize"}));
}

TEST_F(OneStep, GoesOnWithoutAGraphWhereTheDriverRefuses) {
  StandInDevice::get().refuse_graphs(true);
  calls_of_step(Timed::no);
  EXPECT_EQ(trainer_.executor().why_no_graph(), "cudaStreamEndCapture: the stand-in refuses");
  for (const RuntimeCall& call : calls_of_step(Timed::no)) {
    EXPECT_NE(call.name, "cudaGraphLaunch");
    EXPECT_NE(call.name, "cudaStreamBeginCapture");
  }
}

// The step is walked instead, all of it, and so are those after it.
TEST_F(OneStep, GoesOnWithoutAGraphWhereACallMayNotBeCaptured) {
  const std::size_t whole = calls_of_step(Timed::no).size();
  Executor other(trainer_.schedule(), *device_, world_, {});
  StandInDevice::get().refuse_captured_copies(true);
  other.run_step({.learning_rate = 1e-3, .step = 1}, false);
  EXPECT_NE(other.why_no_graph().find("cudaMemcpyAsync"), std::string::npos);
  StandInDevice::get().forget_calls();
  other.run_step({.learning_rate = 1e-3, .step = 1}, false);
  const std::vector<RuntimeCall>& calls = StandInDevice::get().calls();
  EXPECT_EQ(std::ranges::count(calls, "cudaStreamBeginCapture", &RuntimeCall::name), 0);
  EXPECT_EQ(std::ranges::count(calls, "cudaGraphLaunch", &RuntimeCall::name), 0);
  // Less than a captured step by the begin, the end and the launch, and by the state, which is
  // there.
  EXPECT_EQ(calls.size() + 4, whole);
}

/// What the stand-in finds, so that its silence above means something.
class StandIn : public ::testing::Test {
 protected:
  StandIn() {
    StandInDevice::get().forget_calls();
    streams_.make_events(2);
  }
  std::vector<std::string> found() const { return StandInDevice::get().violations(); }

  cuda::CudaStreams streams_{0};
};

TEST_F(StandIn, FindsAWaitForAnEventThatNobodyRecords) {
  streams_.wait_for(0);
  ASSERT_EQ(found().size(), 1u);
  EXPECT_NE(found()[0].find("before it was ever recorded"), std::string::npos);
}

TEST_F(StandIn, FindsAStreamThatACaptureDoesNotHold) {
  streams_.begin_capture();
  streams_.select(Stream::unshard);
  streams_.record(0);
  ASSERT_EQ(found().size(), 1u);
  EXPECT_NE(found()[0].find("no part of it"), std::string::npos);
  streams_.end_capture();
}

TEST_F(StandIn, FindsAStreamThatIsNotJoined) {
  streams_.begin_capture();
  streams_.record(0);
  streams_.select(Stream::unshard);
  streams_.wait_for(0);
  streams_.record(1);
  EXPECT_EQ(streams_.end_capture().graph, nullptr);
  ASSERT_EQ(found().size(), 1u);
  EXPECT_NE(found()[0].find("not joined"), std::string::npos);
}

}  // namespace
}  // namespace shardscope::test
