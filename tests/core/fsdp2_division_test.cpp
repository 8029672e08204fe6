#include "core/pytorch/runtimes/fsdp2/division.h"

#include <gtest/gtest.h>

namespace shardscope::eager::fsdp2 {
namespace {

TEST(Fsdp2Division, LeavesFloat32ToTheCollectivesAverage) {
  EXPECT_EQ(gradient_division({.shards = 4, .replicas = 2}),
            (GradientDivision{.before = {},
                              .after = {},
                              .reduce_scatter = ReduceOperation::average,
                              .all_reduce = ReduceOperation::average}));
}

TEST(Fsdp2Division, OneRankOnlySums) {
  EXPECT_EQ(gradient_division({.shards = 1}), GradientDivision{});
}

// 6 ranks: 6 % 1 == 0 and 6 > 1, so 2; 6 % 2 == 0 and 3 > 2, so 4; 6 % 4 != 0. After: 6 / 4.
TEST(Fsdp2Division, SplitsFloat16AroundTheRootOfTheWorld) {
  EXPECT_EQ(gradient_division({.shards = 3, .replicas = 2, .reduce_dtype = Dtype::float16}),
            (GradientDivision{.before = 4.0, .after = 1.5}));
}

TEST(Fsdp2Division, AForcedSumOfFloat32DividesTheShardAfterwards) {
  EXPECT_EQ(gradient_division({.shards = 4, .force_sum = true}),
            (GradientDivision{.before = {}, .after = 4.0}));
}

// Any factor but the number of shards scales each rank's part before it is added.
TEST(Fsdp2Division, AFactorOfItsOwnIsAPremultipliedSum) {
  EXPECT_EQ(gradient_division({.shards = 4, .factor = 4.0}).reduce_scatter,
            ReduceOperation::average);
  EXPECT_EQ(gradient_division({.shards = 4, .replicas = 2, .factor = 8.0}).reduce_scatter,
            ReduceOperation::premultiplied_sum);
}

}  // namespace
}  // namespace shardscope::eager::fsdp2
