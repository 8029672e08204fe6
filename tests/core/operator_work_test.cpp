#include "core/pytorch/runtimes/record/operator_work.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "core/pytorch/engine/aten/attention.h"
#include "core/pytorch/engine/aten/flex_attention.h"
#include "core/pytorch/engine/aten/foreach.h"
#include "core/pytorch/engine/aten/matmul.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/runtimes/record/schedule_recorder.h"

namespace shardscope::eager {
namespace {

class OperatorWork : public ::testing::Test {
 protected:
  OperatorWork() { s_.observe(recorder_); }
  Tensor make(const Dims& sizes, Dtype dtype = Dtype::bfloat16) {
    return allocate(s_, {dtype, Device::cuda}, sizes);
  }
  /// Of the last operator that was issued.
  DeviceWork last() const {
    const Schedule& schedule = recorder_.schedule();
    return schedule.works[schedule.operations.back().work];
  }
  /// A forward of 2 heads of 64 columns, which share one of keys.
  DeviceWork flex(std::int64_t queries, std::int64_t keys, std::int64_t window = 0) {
    const std::size_t before = recorder_.schedule().operations.size();
    flex_attention_with_sums(s_, make({1, 2, queries, 64}), make({1, 1, keys, 64}),
                             make({1, 1, keys, 64}), window);
    const Schedule& schedule = recorder_.schedule();
    return schedule.works[schedule.operations[before].work];
  }
  std::int64_t flex_pairs(std::int64_t queries, std::int64_t keys, std::int64_t window = 0) {
    return flex(queries, keys, window).flops.count / (2 * 2 * 2 * 64);
  }
  ScheduleRecorder recorder_;
  Session s_;
};

TEST_F(OperatorWork, AProductKeepsItsShape) {
  const Tensor y = addmm(s_, make({7}), make({5, 3}), make({3, 7}));
  EXPECT_EQ(last().kind, WorkKind::matmul);
  EXPECT_EQ(last().matmul, (MatmulShape{.batch = 1, .m = 5, .n = 7, .k = 3}));
  EXPECT_EQ(last().flops, Flops{2 * 5 * 7 * 3});
  // bias, factors and result, two bytes each.
  EXPECT_EQ(last().bytes, Bytes{2 * (7 + 15 + 21 + 35)});
}

TEST_F(OperatorWork, ABatchOfProductsKeepsItsBatch) {
  const Tensor y = bmm(s_, make({4, 5, 3}), make({4, 3, 7}));
  EXPECT_EQ(last().matmul, (MatmulShape{.batch = 4, .m = 5, .n = 7, .k = 3}));
}

/// torch._scaled_mm(a, b, scale_a, scale_b): the scales are no factors.
TEST_F(OperatorWork, AProductOfEightBitsIsThatOfItsFirstTwoOperands) {
  static constexpr Operator op{"aten._scaled_mm.default", OperatorKind::matmul};
  const Tensor a = make({5, 3}, Dtype::uint8), b = make({3, 7}, Dtype::uint8);
  for (const Dims& scale : {Dims{}, Dims{5, 1}}) {
    const Tensor of_a = make(scale, Dtype::float32), of_b = make(Dims{}, Dtype::float32);
    const Tensor y = make({5, 7});
    dispatched(s_, op, {&a, &b, &of_a, &of_b}, {&y});
    EXPECT_EQ(last().matmul, (MatmulShape{.batch = 1, .m = 5, .n = 7, .k = 3}));
    EXPECT_EQ(last().dtype, Dtype::uint8);
  }
}

TEST_F(OperatorWork, CausalAttentionComputesTheHalfThatItSees) {
  const Tensor q = make({2, 8, 256, 64}), k = make({2, 2, 256, 64}), v = make({2, 2, 256, 64});
  Tensor mask;
  const Tensor y = flash_attention(s_, {.query = q, .key = k, .value = v, .causal = true}, mask);
  EXPECT_EQ(last().kind, WorkKind::attention_forward);
  EXPECT_EQ(last().attention, (AttentionShape{.batch = 2,
                                              .heads = 8,
                                              .kv_heads = 2,
                                              .queries = 256,
                                              .keys = 256,
                                              .head_dim = 64,
                                              .library = AttentionLibrary::flash,
                                              .causal = true}));
  // 256 x 257 / 2 scores a head, two products of 2 x 64 flops each: not 256 x 256.
  EXPECT_EQ(last().flops, Flops{2 * 8 * (256 * 257 / 2) * 2 * 2 * 64});
  // What torch.utils.flop_counter counts stays with the operation.
  EXPECT_EQ(recorder_.schedule().operations.back().flops, Flops{2 * 8 * 256 * 256 * 2 * 2 * 64});
}

// Of 8 blocks of queries the first has a block of keys, and the others two: the first query of each
// sees 127 tokens before it. 15 blocks of 128 x 128 pairs, where a causal mask has 1024 x 1025 / 2.
TEST_F(OperatorWork, AWindowIsComputedInBlocksOfKeys) {
  const DeviceWork window = flex(1024, 1024, 128);
  EXPECT_EQ(window.kind, WorkKind::attention_forward);
  EXPECT_EQ(window.flops, Flops{std::int64_t{15} * 128 * 128 * 2 * 2 * 2 * 64});
  EXPECT_EQ(flex_pairs(1024, 1024), 1024 * 1025 / 2);
  // Of 129 tokens the first query of a block reaches the block before its own, of 130 one more:
  // 1 + 2 + 6 x 3.
  EXPECT_EQ(flex_pairs(1024, 1024, 129), 15 * 128 * 128);
  EXPECT_EQ(flex_pairs(1024, 1024, 130), 21 * 128 * 128);
  // Each query sees itself alone: 3 blocks of 128, and 16 queries with 16 keys.
  EXPECT_EQ(flex_pairs(400, 400, 1), 3 * 128 * 128 + 16 * 16);
}

// Blocks on the diagonal are half hidden: 3 blocks of 128 x 128 are more than 256 x 257 / 2.
TEST_F(OperatorWork, AWindowHasNoMorePairsThanACausalMask) {
  constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t window : {std::int64_t{256}, std::int64_t{100'000}, huge})
    EXPECT_EQ(flex_pairs(256, 256, window), 256 * 257 / 2) << window;
}

// Each rank has a part of the queries from the front and one from the back.
TEST_F(OperatorWork, RanksShareTheScoresOfASequence) {
  EXPECT_EQ(flex_pairs(512, 1024), 512 / 2 * 1025);
  for (const std::int64_t window : {0, 128})
    for (const std::int64_t ranks : {2, 4})
      EXPECT_EQ(ranks * flex_pairs(1024 / ranks, 1024, window), flex_pairs(1024, 1024, window));
}

TEST_F(OperatorWork, AListInPlaceIsReadAndWritten) {
  const Tensors parameters{make({100}, Dtype::float32), make({28}, Dtype::float32)};
  const Tensors gradients{make({100}, Dtype::float32), make({28}, Dtype::float32)};
  foreach_in_place(s_, foreach_add_list_, {&parameters, &gradients});
  EXPECT_EQ(last().kind, WorkKind::multi_tensor);
  EXPECT_EQ(last().tensors, 2);
  EXPECT_EQ(last().launches, 1);
  EXPECT_EQ(last().bytes, Bytes{3 * 4 * 128});  // both read, the first one written
}

TEST_F(OperatorWork, AListIsLaunchedInPartsAsMultiTensorApplyDoes) {
  // 100 tensors, two lists: 64 a launch.
  Tensors many;
  for (int i = 0; i < 100; ++i) many.push_back(make({10}, Dtype::float32));
  foreach_in_place(s_, foreach_add_list_, {&many, &many});
  EXPECT_EQ(last().launches, 2);
  // One tensor of 1000 chunks of 65,536: 320 a launch.
  const Tensors large{make({1000, 65536}, Dtype::float32)};
  foreach_in_place(s_, foreach_mul_scalar_, {&large});
  EXPECT_EQ(last().launches, 4);
}

TEST_F(OperatorWork, EqualWorkIsKeptOnce) {
  const Tensor a = make({10}), b = make({10});
  const Tensor x = add(s_, a, b), y = add(s_, b, a), z = add(s_, a, make({1}));
  const Schedule& schedule = recorder_.schedule();
  EXPECT_EQ(schedule.operations[0].work, schedule.operations[1].work);
  EXPECT_NE(schedule.operations[0].work, schedule.operations[2].work);
  EXPECT_EQ(schedule.works.size(), 2U);
}

}  // namespace
}  // namespace shardscope::eager
