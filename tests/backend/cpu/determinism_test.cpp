// The same bits every time, and for any number of threads.
#include <cmath>

#include <gtest/gtest.h>

#include "backend/cpu/cpu_device.h"
#include "tests/backend/cpu/guarded_call.h"

namespace shardscope::test {
namespace {

using Bits = std::vector<float>;

Bits attention_gradients(Device& device) {
  GuardedCall call(AttentionBackwardKernel{{.rows = 2 * 100,
                                            .batch = 2,
                                            .length = 100,
                                            .heads = 6,
                                            .kv_heads = 3,
                                            .head_dim = 20,
                                            .q_stride = 120,
                                            .kv_stride = 60,
                                            .scale = 0.2}});
  call.with(numbers(200 * 120, 1))
      .with(numbers(200 * 120, 2))
      .with(numbers(200 * 60, 3))
      .with(numbers(200 * 60, 4))
      .with(numbers(200 * 120, 5))
      .with(std::vector<float>(1200, 5.0f))
      .with(Bits(200 * 120))
      .with(Bits(200 * 60))
      .with(Bits(200 * 60))
      .run(device);
  return call.result(7);
}

Bits norm_weight_gradient(Device& device) {
  GuardedCall call(NormBackwardKernel{.norm = NormKind::rms_norm, .rows = 333, .width = 100});
  call.with(numbers(33300, 1))
      .with(numbers(33300, 2))
      .with(numbers(100, 3))
      .absent()
      .with(numbers(333, 4))
      .absent()
      .with(Bits(100))
      .absent()
      .run(device);
  return call.result(6);
}

Bits bias_gradient(Device& device) {
  GuardedCall call(LinearBackwardWeightKernel{
      .has_bias = true, .has_weight_gradient = false, .rows = 333, .in = 8, .out = 100});
  call.with(numbers(333 * 8, 1)).with(numbers(33300, 2)).absent().with(Bits(100)).run(device);
  return call.result(3);
}

Bits plain_product(Device& device) {
  GuardedCall call(LinearForwardKernel{.rows = 77, .in = 300, .out = 200});
  call.with(numbers(77 * 300, 1))
      .with(numbers(60000, 2))
      .absent()
      .absent()
      .with(Bits(77 * 200))
      .run(device);
  return call.result(4);
}

Bits loss_gradient(Device& device) {
  GuardedCall call(CrossEntropyKernel{.rows = 77, .classes = 100});
  call.with(std::vector<std::int32_t>(77, 4))
      .with(numbers(7700, 1))
      .with(std::vector<double>{0})
      .absent()
      .run(device);
  Bits bits = call.result(1);
  bits.push_back(static_cast<float>(call.result<double>(2)[0]));
  return bits;
}

void expect_same_for_any_team(const std::function<Bits(Device&)>& run) {
  for (const cpu::KernelTable* table : cpu::usable_kernel_tables()) {
    const Bits alone = run(*make_table_device(*table, 1));
    for (const int threads : {1, 2, 3, 5})
      EXPECT_EQ(run(*make_table_device(*table, threads)), alone)
          << table->instruction_set << ", " << threads << " threads";
  }
}

TEST(Determinism, AttentionGradients) { expect_same_for_any_team(attention_gradients); }
TEST(Determinism, NormWeightGradients) { expect_same_for_any_team(norm_weight_gradient); }
TEST(Determinism, BiasGradients) { expect_same_for_any_team(bias_gradient); }
TEST(Determinism, PlainProducts) { expect_same_for_any_team(plain_product); }
TEST(Determinism, LossAndItsGradient) { expect_same_for_any_team(loss_gradient); }

TEST(Determinism, LibraryProductsRepeat) {
  for (const int threads : {1, 2}) {
    const auto device = make_cpu_device({.threads = threads});
    const Bits first = plain_product(*device);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(plain_product(*device), first);
    EXPECT_EQ(plain_product(*make_cpu_device({.threads = threads})), first);
  }
}

}  // namespace
}  // namespace shardscope::test
