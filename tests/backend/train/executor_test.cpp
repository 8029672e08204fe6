#include "backend/executor/executor.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "backend/comm/single/communicator.h"
#include "backend/executor/profiled_trace.h"
#include "core/base/error.h"
#include "core/schedule/schedule_builder.h"
#include "tests/backend/scripted_device.h"
#include "traces/analysis.h"

namespace shardscope {
namespace {

using test::ScriptedDevice;

/// Sets the first operand to the step, and adds it to the second.
void write_step_and_add(const Kernel& kernel, const KernelCall& call) {
  auto* first = static_cast<float*>(call.operands[0]);
  if (kernel.kind() == KernelKind::fill_zero) *first = static_cast<float>(call.state.step);
  if (kernel.kind() == KernelKind::add) *static_cast<float*>(call.operands[1]) += *first;
}

/// transient = step; sum += transient.
Schedule summing_schedule() {
  ScheduleBuilder builder{Schedule{}};
  const BufferId sum = builder.add_buffer("sum", MemoryCategory::parameters, 4_B, {},
                                          ScheduleBuilder::Life::persistent);
  const BufferId transient = builder.add_buffer("transient", MemoryCategory::activations, 4_B);
  builder.add_kernel({.name = "write"}, FillZeroKernel{.elements = 1},
                     {builder.whole(transient, Access::write)});
  builder.add_kernel(
      {.name = "add"}, AddKernel{.elements = 1},
      {builder.whole(transient, Access::read), builder.whole(sum, Access::read_write)});
  Schedule schedule = builder.finish();
  schedule.steps = {{"steady", {0, static_cast<std::uint32_t>(schedule.operations.size())}}};
  return schedule;
}

float sum_of(const Executor& executor) {
  std::array<float, 1> sum{};
  executor.read<float>("sum", sum);
  return sum[0];
}

class ExecutorTest : public testing::Test {
 protected:
  std::unique_ptr<Communicator> world_ = make_single_communicator();
  Schedule schedule_ = summing_schedule();
};

TEST_F(ExecutorTest, RunsKernelsInOrderOnTheirBuffers) {
  ScriptedDevice device(write_step_and_add);
  Executor executor(schedule_, device, *world_, {.check = true});
  EXPECT_EQ(device.prepared, 2);
  executor.run_step({.learning_rate = 0, .step = 1});
  executor.run_step({.learning_rate = 0, .step = 2});
  EXPECT_EQ(sum_of(executor), 3);
}

/// Writes down what it hears.
class Listener : public Probe {
 public:
  void begin_step(std::int64_t step) override { heard += "step" + std::to_string(step) + "("; }
  void end_step() override { heard += ")"; }
  void begin(OperationId id) override { heard += std::to_string(id.value) + "["; }
  void end(OperationId) override { heard += "]"; }

  std::string heard;
};

TEST_F(ExecutorTest, TellsProbesOfStepsAndOperations) {
  Listener listener;
  ScriptedDevice device([&](const Kernel&, const KernelCall&) { listener.heard += "k"; });
  Executor executor(schedule_, device, *world_, {});
  executor.run_step({.learning_rate = 0, .step = 1});
  executor.set_probes({&listener});
  executor.run_step({.learning_rate = 0, .step = 2});
  executor.set_probes({});
  executor.run_step({.learning_rate = 0, .step = 3});
  // 2 is the host's wait at the end of the step.
  EXPECT_EQ(listener.heard, "kkstep2(0[k]1[k]2[])kk");
}

TEST_F(ExecutorTest, TellsProbesOfTheEndOfWhatFails) {
  Listener listener;
  ScriptedDevice device([&](const Kernel& kernel, const KernelCall&) {
    if (kernel.kind() == KernelKind::add)
      throw Error({.where = "device", .what = "it fell off the bus", .way_out = "another one"});
  });
  Executor executor(schedule_, device, *world_, {});
  executor.set_probes({&listener});
  EXPECT_THROW(executor.run_step({.learning_rate = 0, .step = 1}), Error);
  EXPECT_EQ(listener.heard, "step1(0[]1[])");
}

TEST_F(ExecutorTest, PoisonsWhatIsDead) {
  ScriptedDevice device(write_step_and_add);
  Executor executor(schedule_, device, *world_, {.check = true});
  executor.run_step({.learning_rate = 0, .step = 1});
  const std::span<std::byte> dead = executor.bytes(BufferId{1});
  EXPECT_TRUE(std::isnan(*reinterpret_cast<const float*>(dead.data())));
}

TEST_F(ExecutorTest, RecordsTheFirstTwoStepsAndTheLast) {
  ScriptedDevice device(write_step_and_add);
  Executor executor(schedule_, device, *world_, {.check = false, .recorded_steps = 4});
  for (std::int64_t step = 1; step <= 9; ++step)
    executor.run_step({.learning_rate = 0, .step = step});
  const Trace trace = profiled_trace(executor, "scripted", 0);
  std::vector<int> steps;
  for (const StepWindow& window : step_windows(trace)) steps.push_back(window.step);
  EXPECT_EQ(steps, (std::vector<int>{1, 2, 8, 9}));
  // 4 bytes stay, 4 more while the two kernels run.
  EXPECT_EQ(memory_peak(trace, step_windows(trace)[0].window).total, 8_B);
}

using ExecutorDeathTest = ExecutorTest;

TEST_F(ExecutorDeathTest, FindsAWriteBehindABuffer) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  ScriptedDevice device(
      [](const Kernel&, const KernelCall& call) { static_cast<float*>(call.operands[0])[1] = 7; });
  EXPECT_DEATH(
      {
        Executor executor(schedule_, device, *world_, {.check = true});
        executor.run_step({.learning_rate = 0, .step = 1});
      },
      "rank 0: broken invariant: something was written behind buffer 1 \\(transient\\)");
}

TEST_F(ExecutorDeathTest, FindsAnAllocationInAStep) {
  if (!can_count_allocations()) GTEST_SKIP() << "allocations cannot be seen in this build";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  std::unique_ptr<char[]> taken;
  ScriptedDevice device(
      [&](const Kernel&, const KernelCall&) { taken = std::make_unique<char[]>(40); });
  EXPECT_DEATH(
      {
        Executor executor(schedule_, device, *world_, {.check = true});
        executor.run_step({.learning_rate = 0, .step = 1});
      },
      "2 allocations of 80 bytes in all were made inside step 1");
}

TEST_F(ExecutorDeathTest, FindsALifetimeThatTheOperandsContradict) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  ScriptedDevice device(write_step_and_add);
  schedule_.buffers[1].freed_by = OperationId{2};
  EXPECT_DEATH(
      {
        Executor executor(schedule_, device, *world_, {.check = true});
        executor.run_step({.learning_rate = 0, .step = 1});
      },
      "4 bytes are live at operation 2 \\(end of step\\), but the schedule says 8");
}

}  // namespace
}  // namespace shardscope
