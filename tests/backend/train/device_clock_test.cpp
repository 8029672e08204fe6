// Steps timed by a device's own clock, on a device whose clock is known.
#include <gtest/gtest.h>

#include <vector>

#include "backend/comm/single/communicator.h"
#include "backend/executor/executor.h"
#include "backend/executor/profiled_trace.h"
#include "core/schedule/schedule_builder.h"
#include "tests/backend/slow_device.h"
#include "traces/analysis.h"

namespace shardscope {
namespace {

using test::SlowDevice;

/// Two kernels on one buffer.
Schedule two_kernels() {
  ScheduleBuilder builder{Schedule{}};
  const BufferId buffer = builder.add_buffer("buffer", MemoryCategory::parameters, 64_B, {},
                                             ScheduleBuilder::Life::persistent);
  for (const char* name : {"first", "second"})
    builder.add_kernel({.name = name}, FillZeroKernel{.elements = 16},
                       {builder.whole(buffer, Access::write)});
  Schedule schedule = builder.finish();
  schedule.steps = {{"steady", {0, static_cast<std::uint32_t>(schedule.operations.size())}}};
  return schedule;
}

class DeviceClock : public ::testing::Test {
 protected:
  DeviceClock() {
    for (const bool timed : {true, false, true})
      executor_.run_step({.learning_rate = 0, .step = ++steps_}, timed);
  }

  Schedule schedule_ = two_kernels();
  SlowDevice device_;
  std::unique_ptr<Communicator> world_ = make_single_communicator(device_.memory());
  Executor executor_{schedule_, device_, *world_, {.check = false, .recorded_steps = 8}};
  std::int64_t steps_ = 0;
};

TEST_F(DeviceClock, GivesTheTimesAtWhichKernelsRan) {
  // By the device: step begins at 0, first starts at 2; 2 for the mark, 1 for the kernel: ends
  // at 5.
  const RecordedStep& step = *executor_.recorder().steps().front();
  ASSERT_GE(step.operations.size(), 2u);
  EXPECT_EQ(step.operations[0].start_ns - step.begin_ns, 2'000'000);
  EXPECT_EQ(step.operations[0].end_ns - step.begin_ns, 5'000'000);
  EXPECT_EQ(step.operations[1].start_ns - step.begin_ns, 7'000'000);
  EXPECT_EQ(step.operations[1].end_ns - step.begin_ns, 10'000'000);
}

TEST_F(DeviceClock, TracesOnlyTimedSteps) {
  std::vector<int> steps;
  for (const StepWindow& window : step_windows(profiled_trace(executor_, "slow", 0)))
    steps.push_back(window.step);
  EXPECT_EQ(steps, (std::vector<int>{1, 3}));
}

TEST_F(DeviceClock, IsReadInPlacesTakenBeforehandAndLeftAloneInOtherSteps) {
  const auto operations = static_cast<int>(schedule_.operations.size());
  EXPECT_EQ(device_.places(), static_cast<std::size_t>(1 + 2 * operations));
  EXPECT_EQ(device_.marks, 2 * (1 + 2 * operations));
}

}  // namespace
}  // namespace shardscope
