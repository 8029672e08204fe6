#include "core/schedule/device_work.h"

#include <gtest/gtest.h>

namespace shardscope {
namespace {

TEST(AttentionFlops, QueriesStandAtTheEndOfTheKeys) {
  // 2 queries behind 3 earlier keys see 4 and 5 of them: 9 scores; without a mask 10.
  AttentionShape shape{
      .batch = 1, .heads = 1, .kv_heads = 1, .queries = 2, .keys = 5, .head_dim = 8};
  EXPECT_EQ(attention_flops(shape, false), Flops{10 * 2 * 8 * 2});
  shape.causal = true;
  EXPECT_EQ(attention_flops(shape, false), Flops{9 * 2 * 8 * 2});
  EXPECT_EQ(attention_flops(shape, true), Flops{9 * 2 * 8 * 5});
}

TEST(AttentionFlops, CountedPairsAreTaken) {
  // 7 pairs, neither the 16 of all nor the 10 of a causal mask.
  const AttentionShape shape{.batch = 3,
                             .heads = 2,
                             .kv_heads = 1,
                             .queries = 4,
                             .keys = 4,
                             .head_dim = 8,
                             .causal = true,
                             .pairs = 7};
  EXPECT_EQ(attention_flops(shape, false), Flops{7 * 3 * 2 * 2 * 8 * 2});
  EXPECT_EQ(attention_flops(shape, true), Flops{7 * 3 * 2 * 2 * 8 * 5});
}

TEST(DeviceWork, OfANativeWeightGradientIsAProductOverTheRows) {
  const Kernel kernel =
      LinearBackwardWeightKernel{.dtype = Dtype::bfloat16, .rows = 100, .in = 3, .out = 5};
  const DeviceWork work = device_work(kernel);
  EXPECT_EQ(work.kind, WorkKind::matmul);
  EXPECT_EQ(work.matmul, (MatmulShape{.batch = 1, .m = 5, .n = 3, .k = 100}));
  EXPECT_EQ(work.flops, flops_of(kernel));
  EXPECT_EQ(work.bytes, bytes_of(kernel));
}

TEST(DeviceWork, HashesAlikeWhatIsEqual) {
  const DeviceWork a{.kind = WorkKind::copy, .bytes = 10_B};
  DeviceWork b = a;
  EXPECT_EQ(DeviceWorkHash{}(a), DeviceWorkHash{}(b));
  b.launches = 2;
  EXPECT_NE(DeviceWorkHash{}(a), DeviceWorkHash{}(b));
}

}  // namespace
}  // namespace shardscope
