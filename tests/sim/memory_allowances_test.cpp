#include "sim/prediction/memory_allowances.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shardscope::testing {
namespace {

/// 550 MiB of context, known to 30%.
HardwareProfile gpu() {
  HardwareProfile profile;
  profile.device = "cuda";
  profile.context_memory = 550_MiB;
  profile.provenance["context_memory"] = {
      .origin = Origin::assumed, .source = "nvidia-smi", .date = "2026-11-21", .spread = 0.3};
  return profile;
}

PredictedRun run_of(CompileScope compiled) { return {.runtime = "fsdp2", .compiled = compiled}; }

Schedule program() {
  Schedule schedule;
  schedule.memory = MemorySource::caching_allocator;
  return schedule;
}

constexpr double mebibyte = 1 << 20;

// exp(1.645 * 0.3) = 1.638: 351 MiB more than 550, or 550 / 1.638 = 336, which is 214 less.
TEST(MemoryAllowances, OfTheContextFollowItsSpread) {
  const auto found = memory_allowances(program(), run_of(CompileScope::none), gpu(), 40_GiB);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NEAR(static_cast<double>(found[0].above.count), 351 * mebibyte, mebibyte);
  EXPECT_NEAR(static_cast<double>(found[0].below.count), 214 * mebibyte, mebibyte);
  EXPECT_THAT(found[0].source, ::testing::HasSubstr("nvidia-smi"));
}

// The native runtime's schedules do not count the context: all of it may come on top.
TEST(MemoryAllowances, WhatIsNotCountedLiesAbove) {
  Schedule arena;
  arena.memory = MemorySource::arena;
  const auto found = memory_allowances(arena, run_of(CompileScope::none), gpu(), 40_GiB);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].below, Bytes{});
  EXPECT_NEAR(static_cast<double>(found[0].above.count), (550 + 351) * mebibyte, mebibyte);
}

TEST(MemoryAllowances, ACpuThatIsPredictedToTheByteHasNone) {
  HardwareProfile cpu;
  cpu.device = "cpu";
  EXPECT_TRUE(memory_allowances(program(), run_of(CompileScope::none), cpu, 40_GiB).empty());
}

// docs/measured/2026-11-28_memory_band.md: compiled code is off by 2.4% of what is held. Of 100 GiB
// exp(1.645 * 0.024) - 1 = 4.03% are 4.03 GiB.
TEST(MemoryAllowances, CompiledCodeIsUncertainByWhatWasMeasured) {
  HardwareProfile cpu;
  cpu.device = "cpu";
  const auto found =
      memory_allowances(program(), run_of(CompileScope::blocks), cpu, Bytes{100'000'000'000});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].item, "compiled code");
  EXPECT_NEAR(static_cast<double>(found[0].above.count), 4.03e9, 0.01e9);
}

// A model that is compiled in parts is predicted as eager code, which is an upper bound.
TEST(MemoryAllowances, WhatIsPlayedAsEagerCodeLiesBelow) {
  HardwareProfile cpu;
  cpu.device = "cpu";
  const auto found =
      memory_allowances(program(), run_of(CompileScope::model_in_parts), cpu, 40_GiB);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_GT(found[0].below, 10_GiB);
  EXPECT_EQ(found[0].above, Bytes{});
}

}  // namespace
}  // namespace shardscope::testing
