#include "backend/calibrate/kernel_operands.h"

#include <map>
#include <set>
#include <tuple>

#include <gtest/gtest.h>

#include "backend/calibrate/kernel_grid.h"
#include "backend/calibrate/kernel_timer.h"
#include "backend/comm/single/communicator.h"
#include "backend/cpu/cpu_device.h"
#include "core/native/native_schedule.h"
#include "core/native/resolved_strategy.h"
#include "core/schedule/schedule.h"
#include "tests/core/small_models.h"

namespace shardscope {
namespace {

Schedule schedule_of(const Model& model, OptimizerKind optimizer, Precision precision) {
  const Strategy strategy =
      resolved({.sharding = ShardingStrategy::full_shard, .precision = precision}, 2, "test");
  return native_schedule(model, strategy,
                         {.batch = 2, .length = 8, .optimizer = {.kind = optimizer}, .clip = 1}, 0);
}

/// A kernel that runs by itself gets the operands that a schedule gives it: the same ones present,
/// and at least as large (a schedule's q, k and v may lie in one another's rows).
void expect_the_schedules_operands(const Schedule& schedule) {
  for (const Operation& op : schedule.operations) {
    if (op.kind != OperationKind::compute && op.kind != OperationKind::optimizer) continue;
    const Kernel& kernel = schedule.kernels[op.detail];
    const std::vector<OperandSpec> specs = operand_specs(kernel);
    const std::span<const Operand> operands = schedule.operands_of(op);
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const bool present = i < operands.size() && operands[i].buffer;
      EXPECT_EQ(specs[i].bytes > Bytes{}, present) << schedule.name(op) << ", operand " << i;
      // Slices of optimizer kernels stand for the shard's elements without its padding.
      if (present && schedule.slices_of(op).empty()) {
        EXPECT_GE(specs[i].bytes, operands[i].bytes) << schedule.name(op) << ", operand " << i;
      }
    }
  }
}

constexpr Precision precisions[] = {Precision::fp32, Precision::bf16, Precision::bf16_mixed};

TEST(KernelOperands, AreThoseOfTheScheduleForGpt2) {
  for (const Precision precision : precisions)
    expect_the_schedules_operands(
        schedule_of(testing::small_gpt2(2), OptimizerKind::adamw, precision));
}

TEST(KernelOperands, AreThoseOfTheScheduleForLlama) {
  for (const Precision precision : precisions)
    expect_the_schedules_operands(
        schedule_of(testing::small_llama(2), OptimizerKind::sgd, precision));
}

TEST(KernelGrid, HoldsEveryKindButTheRopeTable) {
  for (const Precision precision : precisions) {
    std::vector<bool> seen(kernel_kind_count);
    for (const Kernel& kernel : kernel_grid(precision))
      seen[static_cast<std::size_t>(kernel.kind())] = true;
    for (int kind = 0; kind < kernel_kind_count; ++kind)
      EXPECT_EQ(seen[static_cast<std::size_t>(kind)],
                static_cast<KernelKind>(kind) != KernelKind::rope_table)
          << name_of(static_cast<KernelKind>(kind));
  }
}

TEST(KernelGrid, HasTheElementTypesThatASchedulesKernelsHave) {
  using Types = std::tuple<Dtype, Dtype, bool>;
  const auto types_of = [](const std::vector<Kernel>& kernels) {
    std::map<KernelKind, std::set<Types>> types;
    for (const Kernel& kernel : kernels)
      types[kernel.kind()].insert(kernel.visit([](const auto& k) -> Types {
        if constexpr (requires { k.has_copy; })
          return {dtype_of(k), gradient_dtype_of(k), k.has_copy};
        else
          return {dtype_of(k), gradient_dtype_of(k), false};
      }));
    return types;
  };
  for (const Precision precision : precisions) {
    auto grid = types_of(kernel_grid(precision));
    for (const auto& model : {testing::small_gpt2(1), testing::small_llama(1)})
      for (const auto& [kind, types] :
           types_of(schedule_of(model, OptimizerKind::adamw, precision).kernels))
        // Zeroing also clears the loss, in float32; tables are made once.
        if (kind != KernelKind::fill_zero && kind != KernelKind::rope_table) {
          EXPECT_EQ(grid[kind], types) << name_of(kind) << " in " << name_of(precision);
        }
  }
}

TEST(KernelTimer, TakesMoreTimeForMoreWork) {
  // 64 times the flops: far beyond what noise can turn round.
  const auto world = make_single_communicator();
  const auto device = make_cpu_device({.threads = 1});
  KernelTimer timer(*world, *device);
  const auto time = [&](std::int64_t size) {
    return timer.time(LinearForwardKernel{.rows = size, .in = size, .out = size}, 1_ms).time;
  };
  EXPECT_GT(time(256), time(64));
}

}  // namespace
}  // namespace shardscope
