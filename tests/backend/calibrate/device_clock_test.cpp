// Calibration of a device that runs ahead of the host and has a clock of its own.
#include <gtest/gtest.h>

#include "backend/calibrate/kernel_timer.h"
#include "backend/calibrate/step_timer.h"
#include "backend/comm/single_communicator.h"
#include "core/schedule.h"
#include "tests/backend/slow_device.h"
#include "tests/core/small_models.h"

namespace shardscope {
namespace {

using test::SlowDevice;

constexpr Kernel some_product{.kind = KernelKind::linear_forward, .rows = 8, .in = 4, .out = 2};
constexpr Kernel some_sum{.kind = KernelKind::sum_of_squares, .elements = 512};

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

TEST_F(TimedByTheDevice, KernelsOfAStepHaveTheirOwnTimes) {
  const Schedule schedule = native_schedule(testing::small_gpt2(1), resolved({}, 1, "test"),
                                            {.batch = 1, .length = 4, .clip = 1}, 0);
  const StepTimes times = time_step(*world_, device_, schedule, 3);
  EXPECT_FALSE(times.kernels.empty());
  for (const KernelSample& sample : times.kernels)
    EXPECT_EQ(sample.time, 3_ms) << name_of(sample.kernel.kind);
}

}  // namespace
}  // namespace shardscope
