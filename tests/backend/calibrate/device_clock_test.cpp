// Calibration of a device that runs ahead of the host and has a clock of its own.
#include <gtest/gtest.h>

#include "backend/calibrate/collective_timer.h"
#include "backend/calibrate/kernel_timer.h"
#include "backend/calibrate/step_timer.h"
#include "backend/comm/single/communicator.h"
#include "core/native/native_schedule.h"
#include "core/native/resolved_strategy.h"
#include "core/schedule/schedule.h"
#include "tests/backend/slow_device.h"
#include "tests/core/small_models.h"

namespace shardscope {
namespace {

using test::SlowDevice;

constexpr Kernel some_product = LinearForwardKernel{.rows = 8, .in = 4, .out = 2};
constexpr Kernel some_sum = SumOfSquaresKernel{.elements = 512};

class TimedByTheDevice : public ::testing::Test {
 protected:
  SlowDevice device_;
  std::unique_ptr<Communicator> world_ = make_single_communicator(device_.memory());
};

TEST_F(TimedByTheDevice, AKernelTakesItsShareOfARow) {
  // 10 launches of 1 ms and one mark of 2 ms between the two moments: 12 ms, a tenth of it each.
  KernelTimer timer(*world_, device_);
  EXPECT_EQ(timer.time(some_product, 1_s).time, Duration{1'200'000});
}

TEST_F(TimedByTheDevice, AKernelThatFindsCachesColdRunsAlone) {
  KernelTimer timer(*world_, device_);
  EXPECT_EQ(timer.time(some_sum, 1_s).time, 3_ms);
}

TEST_F(TimedByTheDevice, RowsAreShortWhereKernelsAreLong) {
  // 6 ms hold two kernels of 3 ms each (one and its mark): three times one in a row.
  KernelTimer timer(*world_, device_);
  EXPECT_EQ(timer.time(some_product, 6_ms).time, 3_ms);
  EXPECT_EQ(device_.runs, 1 + 3);
}

TEST_F(TimedByTheDevice, LaunchesAreTheHosts) {
  // The clock of the device says a millisecond and more; for the host hardly anything happens.
  KernelTimer timer(*world_, device_);
  EXPECT_LT(timer.launch_overhead(), 500_us);
}

/// Collectives of one rank that take the device 1 ms each.
class SlowCommunicator final : public Communicator {
 public:
  explicit SlowCommunicator(SlowDevice& device) : device_(device) {}
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string description() const override { return "slow"; }
  std::unique_ptr<Arena> allocate_arena(Bytes size) override {
    return device_.memory().allocate(size);
  }
  void all_gather(std::span<const std::byte>, std::span<std::byte>) override { take(); }
  void reduce_scatter(std::span<const std::byte>, std::span<std::byte>, Dtype) override { take(); }
  void all_reduce(std::span<std::byte>, Dtype) override { take(); }
  void broadcast(std::span<std::byte>, int) override { take(); }
  void send(std::span<const std::byte>, int) override { take(); }
  void receive(std::span<std::byte>, int) override { take(); }
  void barrier() override {}
  std::unique_ptr<Communicator> split(int) override { return nullptr; }

 private:
  void take() { device_.run(some_sum, {}); }
  SlowDevice& device_;
};

TEST_F(TimedByTheDevice, CollectivesAreTimedInARowByItsClock) {
  // As kernels are: 10 of 1 ms and one mark of 2 ms, a tenth of it each.
  SlowCommunicator world(device_);
  CollectiveTimer timer(world, device_, 1_MiB);
  const CollectiveSample sample = timer.time({OperationKind::all_gather, 1, 1_MiB}, 1_s);
  EXPECT_EQ(sample.time, Duration{1'200'000});
  EXPECT_EQ(sample.bytes, 1_MiB);
}

TEST_F(TimedByTheDevice, WhatDoesNotContendSlowsNothingDown) {
  SlowCommunicator world(device_);
  CollectiveTimer timer(world, device_, 1_MiB);
  const Slowdowns slowdowns = timer.slowdowns(some_product, 1_MiB);
  EXPECT_EQ(slowdowns.compute, 1);
  EXPECT_EQ(slowdowns.collective, 1);
}

TEST_F(TimedByTheDevice, KernelsOfAStepHaveTheirOwnTimes) {
  const Schedule schedule = native_schedule(testing::small_gpt2(1), resolved({}, 1, "test"),
                                            {.batch = 1, .length = 4, .clip = 1}, 0);
  const MeasuredStep times = time_step(*world_, device_, schedule, {}, 3);
  EXPECT_FALSE(times.kernels.empty());
  for (const KernelSample& sample : times.kernels)
    EXPECT_EQ(sample.time, 3_ms) << name_of(sample.kernel.kind());
}

}  // namespace
}  // namespace shardscope
