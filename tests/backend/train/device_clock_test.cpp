// Steps timed by a device's own clock, on a device whose clock is known.
#include <gtest/gtest.h>

#include <vector>

#include "backend/comm/single_communicator.h"
#include "backend/executor/executor.h"
#include "backend/executor/profiled_trace.h"
#include "core/schedule_builder.h"
#include "traces/analysis.h"

namespace shardscope {
namespace {

/// The host's memory, called another's.
class FarMemory final : public DeviceMemory {
 public:
  bool is_host() const override { return false; }
  std::unique_ptr<Arena> allocate(Bytes size) override { return host_memory().allocate(size); }
  void copy_in(std::byte* to, std::span<const std::byte> from) override {
    host_memory().copy_in(to, from);
  }
  void copy_out(std::span<std::byte> to, const std::byte* from) override {
    host_memory().copy_out(to, from);
  }
  void copy(std::byte* to, std::span<const std::byte> from) override {
    host_memory().copy(to, from);
  }
  void wait() override { ++waits; }
  int waits = 0;
};

/// On the device a kernel takes 1 ms and a mark 2 ms; for the host nothing passes.
class SlowDevice final : public Device {
 public:
  std::string description() const override { return "slow"; }
  Bytes workspace(const Kernel&) const override { return {}; }
  void prepare(const Kernel&) override {}
  void run(const Kernel&, const KernelCall&) override { now_ += 1_ms; }
  DeviceMemory& memory() override { return memory_; }
  std::unique_ptr<DeviceTimeline> timeline(std::size_t places) override {
    places_ = places;
    return std::make_unique<Timeline>(*this, places);
  }

  int waits() const { return memory_.waits; }
  std::size_t places() const { return places_; }
  int marks = 0;

 private:
  class Timeline final : public DeviceTimeline {
   public:
    Timeline(SlowDevice& device, std::size_t places) : device_(device), moments_(places) {}
    void mark(std::size_t place) override {
      ++device_.marks;
      moments_.at(place) = device_.now_;
      device_.now_ += 2_ms;
    }
    Duration between(std::size_t from, std::size_t to) const override {
      EXPECT_GT(device_.waits(), 0) << "read before the device was waited for";
      return moments_.at(to) - moments_.at(from);
    }

   private:
    SlowDevice& device_;
    std::vector<Duration> moments_;
  };

  FarMemory memory_;
  Duration now_ = 100_ms;
  std::size_t places_ = 0;
};

/// Two kernels on one buffer.
Schedule two_kernels() {
  ScheduleBuilder builder{Schedule{}};
  const BufferId buffer = builder.add_buffer("buffer", MemoryCategory::parameters, 64_B, {},
                                             ScheduleBuilder::Life::persistent);
  for (const char* name : {"first", "second"})
    builder.add_kernel({.name = name}, {.kind = KernelKind::fill_zero, .elements = 16},
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
