// The memory of a window, side by side.
#include "backend/profile/memory_instrument.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>

#include "backend/comm/single/communicator.h"
#include "backend/executor/profiled_trace.h"
#include "core/schedule/schedule_builder.h"
#include "tests/backend/scripted_device.h"
#include "tests/sanitizers/sanitized.h"

namespace shardscope {
namespace {

using ::testing::ElementsAre;

MemoryHolder on_device(std::string owner, Bytes held) {
  return {.owner = std::move(owner), .place = MemoryHolder::Place::device, .held = held};
}

TEST(MemoryMarks, AreWhatEachPartTook) {
  const std::vector<MemoryMark> marks{{"CUDA context", 400_MiB},
                                      {"communicator", 420_MiB},
                                      {"communicator's groups", 420_MiB},
                                      {"arena", 1420_MiB}};
  EXPECT_THAT(
      holders_of(marks, 1500_MiB),
      ElementsAre(
          on_device("CUDA context", 400_MiB), on_device("communicator", 20_MiB),
          on_device("arena", 1000_MiB),
          on_device(
              "since then: connections of the communicator, code loaded late, other processes",
              80_MiB)));
  EXPECT_THAT(holders_of(std::vector<MemoryMark>{}, 5_MiB), ElementsAre());
}

constexpr Bytes large = 8_MiB;

/// One kernel on a buffer of 8 MiB.
Schedule one_kernel() {
  ScheduleBuilder builder{Schedule{}};
  const BufferId sum = builder.add_buffer("sum", MemoryCategory::parameters, large, {},
                                          ScheduleBuilder::Life::persistent);
  builder.add_kernel({.name = "write"}, FillZeroKernel{.elements = 1},
                     {builder.whole(sum, Access::write)});
  Schedule schedule = builder.finish();
  schedule.steps = {{"steady", {0, static_cast<std::uint32_t>(schedule.operations.size())}}};
  return schedule;
}

Trace window_of_two_steps(Executor& executor, std::vector<MemoryMark> before) {
  MemoryInstrument memory(executor, std::move(before));
  executor.set_probes({memory.probe()});
  memory.start();
  for (const std::int64_t step : {1, 2}) executor.run_step({.learning_rate = 0, .step = step});
  memory.stop();
  executor.set_probes({});
  Trace trace = profiled_trace(executor, "tested", 0);
  memory.add_to(trace, {.base_monotonic_ns = executor.recorder().base_monotonic_ns(),
                        .first_step = 1,
                        .last_step = 2});
  return trace;
}

TEST(MemoryInstrument, ShowsTheResidentSizeOverTime) {
  if (test::is_sanitized) GTEST_SKIP() << "a sanitizer's allocator keeps what is freed";
  const Schedule schedule = one_kernel();
  const auto world = make_single_communicator();
  // Not the arena's, whose huge pages are there from the start. Touched in the first step.
  const auto memory = std::make_unique_for_overwrite<std::byte[]>(large.count);
  test::ScriptedDevice device([&](const Kernel&, const KernelCall&) {
    for (std::int64_t at = 0; at < large.count; at += 4096) memory[at] = std::byte{1};
  });
  Executor executor(schedule, device, *world, {.recorded_steps = 2});
  const Trace trace = window_of_two_steps(executor, {});
  ASSERT_EQ(trace.counters.size(), 2U);
  EXPECT_EQ(trace.counters[0].name, "resident_bytes");
  const auto& samples = trace.counters[0].samples;
  ASSERT_EQ(samples.size(), 3U);
  EXPECT_GT(samples[1].value - samples[0].value, 7 << 20);
  EXPECT_LT(samples[2].value - samples[1].value, 2 << 20);
  EXPECT_LT(samples[1].time, samples[2].time);
}

TEST(MemoryInstrument, PutsTheArenaBesideTheHeap) {
  if (test::is_sanitized) GTEST_SKIP() << "a sanitizer's allocator keeps what is freed";
  const Schedule schedule = one_kernel();
  const auto world = make_single_communicator();
  test::ScriptedDevice device([](const Kernel&, const KernelCall& call) {
    auto* bytes = static_cast<std::byte*>(call.operands[0]);
    for (std::int64_t at = 0; at < large.count; at += 4096) bytes[at] = std::byte{1};
  });
  Executor executor(schedule, device, *world, {.recorded_steps = 2});
  const Trace trace = window_of_two_steps(executor, {});
  int found = 0;
  for (const MemoryHolder& holder : trace.recording.memory) {
    EXPECT_EQ(holder.place, MemoryHolder::Place::host);
    ASSERT_TRUE(holder.held);
    if (holder.owner == "arena") {
      ++found;
      EXPECT_EQ(holder.planned, executor.arena_bytes());
      EXPECT_GE(*holder.held, large);
      EXPECT_EQ(holder.recorded, std::nullopt);
    } else if (holder.owner == "heap and stacks") {
      ++found;
      EXPECT_EQ(holder.planned, std::nullopt);
      EXPECT_GT(*holder.recorded, 0_B);
    }
  }
  EXPECT_EQ(found, 2);
}

/// Says how much is in use, as a GPU does: 100 MiB, and what was allocated.
class CountingMemory final : public DeviceMemory {
 public:
  bool is_host() const override { return false; }
  std::unique_ptr<Arena> allocate(Bytes size) override {
    in_use_ += size;
    return host_memory().allocate(size);
  }
  void copy_in(std::byte* to, std::span<const std::byte> from) override {
    host_memory().copy_in(to, from);
  }
  void copy_out(std::span<std::byte> to, const std::byte* from) override {
    host_memory().copy_out(to, from);
  }
  void copy(std::byte* to, std::span<const std::byte> from) override {
    host_memory().copy(to, from);
  }
  void wait() override {}
  std::optional<Bytes> in_use() const override { return in_use_; }
  void take(Bytes bytes) { in_use_ += bytes; }

 private:
  Bytes in_use_ = 100_MiB;
};

/// Whose kernels take 3 MiB when they are prepared, and 1 MiB when they first run.
class CountingDevice final : public Device {
 public:
  std::string description() const override { return "counting"; }
  Bytes workspace(const Kernel&) const override { return {}; }
  void prepare(const Kernel&) override { memory_.take(3_MiB); }
  void run(const Kernel&, const KernelCall& call) override {
    if (call.state.step == 1) memory_.take(1_MiB);
  }
  DeviceMemory& memory() override { return memory_; }

 private:
  CountingMemory memory_;
};

TEST(MemoryInstrument, NamesWhatTheDevicesMemoryWentTo) {
  const Schedule schedule = one_kernel();
  CountingDevice device;
  std::vector<MemoryMark> before;
  note(before, "CUDA context", device.memory());
  const auto world = make_single_communicator(device.memory());
  Executor executor(schedule, device, *world, {.recorded_steps = 2});
  const Trace trace = window_of_two_steps(executor, before);
  std::vector<MemoryHolder> of_device;
  for (const MemoryHolder& holder : trace.recording.memory)
    if (holder.place == MemoryHolder::Place::device) of_device.push_back(holder);
  MemoryHolder arena = on_device("arena", executor.arena_bytes());
  arena.planned = executor.arena_bytes();
  EXPECT_THAT(
      of_device,
      ElementsAre(
          on_device("CUDA context", 100_MiB), on_device("kernels and their libraries", 3_MiB),
          arena,
          on_device(
              "since then: connections of the communicator, code loaded late, other processes",
              1_MiB)));
  EXPECT_THAT(trace.recording.memory,
              ::testing::Not(::testing::Contains(::testing::AllOf(
                  ::testing::Field(&MemoryHolder::owner, "arena"),
                  ::testing::Field(&MemoryHolder::place, MemoryHolder::Place::host)))));
}

}  // namespace
}  // namespace shardscope
