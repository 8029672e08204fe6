// What calibration asks of a GPU, and in which order, on the CUDA device's host code behind a
// stand-in for the CUDA runtime.
#include <gtest/gtest.h>

#include <algorithm>

#include "backend/calibrate/copy_timer.h"
#include "backend/calibrate/kernel_timer.h"
#include "backend/comm/single/communicator.h"
#include "backend/cuda/cuda_device.h"
#include "backend/cuda/cuda_probe.h"
#include "core/base/error.h"
#include "tests/backend/cuda/stand_in_device.h"
#include "tests/backend/cuda/stand_in_teacher.h"

namespace shardscope::test {
namespace {

constexpr Kernel some_sum = AddKernel{.elements = 64};
constexpr Kernel some_update = SumOfSquaresKernel{.elements = 512};

class CalibrationOrder : public ::testing::Test {
 protected:
  CalibrationOrder() {
    for (const Kernel& kernel : {some_sum, some_update, Kernel{FillZeroKernel{.elements = 16}}})
      teach(kernel);
    teach_step_state();
    StandInDevice::get().refuse_graphs(false);
    StandInDevice::get().forget_calls();
  }

  static std::vector<std::string> names() {
    std::vector<std::string> result;
    for (const RuntimeCall& call : StandInDevice::get().calls()) result.push_back(call.name);
    return result;
  }
  /// What lies between the last two events that were recorded.
  static std::vector<std::string> timed() {
    const std::vector<std::string> all = names();
    const auto end = std::find(all.rbegin(), all.rend(), "cudaEventRecord");
    const auto begin = std::find(end + 1, all.rend(), "cudaEventRecord");
    std::vector<std::string> result(end + 1, begin);
    std::ranges::reverse(result);
    return result;
  }

  const std::unique_ptr<Device> device_ = make_cuda_device({.use_cublaslt = false});
  const std::unique_ptr<Communicator> world_ = make_single_communicator(device_->memory());
  KernelTimer timer_{*world_, *device_};
};

TEST_F(CalibrationOrder, AShortKernelIsTimedInARowOfAGraph) {
  timer_.time(some_sum, 1_s);
  EXPECT_EQ(timed(), std::vector<std::string>{"cudaGraphLaunch"});
  const std::vector<std::string> all = names();
  const auto begin = std::ranges::find(all, "cudaStreamBeginCapture");
  const auto end = std::ranges::find(all, "cudaStreamEndCapture");
  ASSERT_NE(end, all.end());
  EXPECT_EQ(std::count(begin, end, "shardscope::cuda::Add<float>"), 10);
  EXPECT_EQ(StandInDevice::get().violations(), std::vector<std::string>{});
}

TEST_F(CalibrationOrder, WithoutGraphsItIsTimedInARowOfLaunches) {
  StandInDevice::get().refuse_graphs(true);
  timer_.time(some_sum, 1_s);
  EXPECT_EQ(timed(), std::vector<std::string>(10, "shardscope::cuda::Add<float>"));
}

TEST_F(CalibrationOrder, AKernelThatFindsCachesColdRunsAloneBehindACopyThatEmptiesThem) {
  timer_.time(some_update, 1_s);
  EXPECT_EQ(timed(), std::vector<std::string>{"shardscope::cuda::SumOfSquares<float>"});
  const std::vector<std::string> all = names();
  const auto end = std::find(all.rbegin(), all.rend(), "cudaEventRecord");
  EXPECT_EQ(*(std::find(end + 1, all.rend(), "cudaEventRecord") + 1), "cudaMemcpyAsync");
}

TEST_F(CalibrationOrder, TheDeviceIsWaitedForBeforeItsTimesAreRead) {
  timer_.time(some_sum, 1_ms);
  const std::vector<std::string> all = names();
  for (std::size_t i = 0; i + 2 < all.size(); ++i) {
    if (all[i] == "cudaGraphLaunch") {
      EXPECT_EQ(all[i + 2], "cudaStreamSynchronize");
    }
  }
}

TEST_F(CalibrationOrder, AGraphsLaunchIsMeasuredWhereThereAreGraphs) {
  EXPECT_TRUE(timer_.graph_overhead());
  StandInDevice::get().refuse_graphs(true);
  EXPECT_FALSE(timer_.graph_overhead());
}

TEST_F(CalibrationOrder, CopiesAreWaitedFor) {
  const HostCopies copies = time_host_copies(device_->memory(), 1_MiB);
  EXPECT_GT(copies.to_device.bandwidth.bytes_per_s, 0);
  EXPECT_GT(copies.to_host.bandwidth.bytes_per_s, 0);
  const std::vector<std::string> all = names();
  EXPECT_EQ(std::ranges::count(all, "cudaMemcpyAsync"),
            std::ranges::count(all, "cudaStreamSynchronize"));
}

TEST_F(CalibrationOrder, MoreMemoryThanThereIsIsRefusedWithTheNumbers) {
  try {
    device_->memory().allocate(Bytes{std::int64_t{100} << 30});
    FAIL() << "100 GiB of 80 were given";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::no);
    EXPECT_NE(
        std::string(error.what()).find("100 GiB were asked for, 80.0 GiB of 80.0 GiB are free"),
        std::string::npos)
        << error.what();
  }
}

TEST(CudaProbe, LetsGoOfTheDevice) {
  StandInDevice::get().forget_calls();
  const CudaMemory memory = probe_cuda_memory();
  EXPECT_GT(memory.free, Bytes{});
  EXPECT_GE(memory.total, memory.free);
  EXPECT_EQ(StandInDevice::get().calls().back().name, "cudaDeviceReset");
}

}  // namespace
}  // namespace shardscope::test
