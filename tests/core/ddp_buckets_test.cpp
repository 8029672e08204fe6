#include "core/pytorch/plans/ddp_buckets.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/core/module_rows.h"

namespace shardscope {
namespace {

using testing::parameter_of;
using testing::tie;
using testing::tree_of_rows;

using Indices = std::vector<std::vector<std::int64_t>>;

std::vector<BucketTensor> tensors(const std::vector<std::int64_t>& bytes) {
  std::vector<BucketTensor> list;
  for (const std::int64_t count : bytes) list.push_back({.bytes = {count}, .index = {}});
  return list;
}

Indices indices_of(const std::vector<Bucket>& buckets) {
  Indices indices;
  for (const Bucket& bucket : buckets) indices.push_back(bucket.tensors);
  return indices;
}

Indices assigned(const std::vector<BucketTensor>& list, const std::vector<Bytes>& limits) {
  return indices_of(assign_buckets(list, limits, BucketOrder::by_first_index));
}

TEST(AssignBuckets, ClosesOnceTheLimitIsReachedSoItOvershoots) {
  // A bucket that may not overshoot would be {0}, {1}, {2}, {3}.
  EXPECT_EQ(assigned(tensors({400, 400, 400, 400}), {401_B}), (Indices{{0, 1}, {2, 3}}));
  EXPECT_EQ(assigned(tensors({400, 400, 400, 400}), {400_B}), (Indices{{0}, {1}, {2}, {3}}));
}

TEST(AssignBuckets, FirstLimitOnceThenTheLast) {
  EXPECT_EQ(assigned(tensors({400, 400, 400, 400, 400}), {400_B, 800_B}),
            (Indices{{0}, {1, 2}, {3, 4}}));
}

TEST(AssignBuckets, EveryDtypeFillsItsOwnAndStartsAtTheFirstLimit) {
  std::vector<BucketTensor> list = tensors({400, 400, 400, 100, 600});
  for (const std::size_t i : {1, 3, 4}) list[i].dtype = Dtype::bfloat16;
  const std::vector<Bytes> limits{400_B, 1000_B};
  const std::vector<Bucket> buckets = assign_buckets(list, limits, BucketOrder::by_first_index);
  EXPECT_EQ(indices_of(buckets), (Indices{{0}, {1}, {2}, {3, 4}}));
  EXPECT_EQ(buckets[1].limit, 400_B);
  EXPECT_EQ(buckets[3].limit, 1000_B);
}

TEST(AssignBuckets, SparseGradientsStandAlone) {
  std::vector<BucketTensor> list = tensors({400, 800, 400, 200});
  list[1].sparse = true;
  EXPECT_EQ(assigned(list, {800_B}), (Indices{{0, 2}, {1}, {3}}));
}

TEST(AssignBuckets, GivenIndicesKeepTheOrderOfClosing) {
  std::vector<BucketTensor> list = tensors({100, 100, 900});
  for (std::size_t i = 0; i < 3; ++i) list[i].index = static_cast<std::int64_t>(7 - i);
  list[0].dtype = Dtype::bfloat16;
  const std::vector<Bytes> limits{500_B};
  // bfloat16 (7) never closes, so it comes last although it was first.
  EXPECT_EQ(indices_of(assign_buckets(list, limits, BucketOrder::as_closed)),
            (Indices{{6, 5}, {7}}));
}

TEST(AssignBuckets, RefusesNothing) {
  const std::vector<Bytes> limits{1_B};
  EXPECT_THROW(assign_buckets({}, limits, BucketOrder::as_closed), Refusal);
  EXPECT_THROW(assign_buckets(tensors({1}), {}, BucketOrder::as_closed), Refusal);
}

/// 400,000, 800,000, 400,000 and 30,000,000 bytes in float32.
ModuleTree net() {
  return tree_of_rows({{"", "Net"},
                       {"a", "Linear", {{"weight", {100'000}}}},
                       {"b", "Linear", {{"weight", {200'000}}}},
                       {"c", "Linear", {{"weight", {100'000}}}},
                       {"d", "Linear", {{"weight", {7'500'000}}}}});
}

TEST(DdpBuckets, FirstIterationHasOneBucket) {
  EXPECT_EQ(indices_of(ddp_buckets(net(), {}).buckets), (Indices{{0, 1, 2, 3}}));
}

TEST(DdpBuckets, LookingForUnusedParametersBucketsFromTheStart) {
  // 1 MiB = 1,048,576 bytes: a and b close the first bucket, which is reduced last; c and d reach
  // 25 MiB = 26,214,400.
  const DdpBuckets ddp = ddp_buckets(net(), {.find_unused_parameters = true});
  EXPECT_EQ(indices_of(ddp.buckets), (Indices{{2, 3}, {0, 1}}));
  EXPECT_EQ(bytes_of(net(), ddp, ddp.buckets[0]), 30'400'000_B);
  EXPECT_EQ(ddp.cap, 25_MiB);
}

TEST(DdpBuckets, OwnLimitHoldsForTheFirstBucketToo) {
  // 0.5 MiB = 524,288 bytes.
  const DdpOptions options{.bucket_cap_mib = 0.5, .find_unused_parameters = true};
  EXPECT_EQ(indices_of(ddp_buckets(net(), options).buckets), (Indices{{2, 3}, {0, 1}}));
  EXPECT_EQ(ddp_buckets(net(), options).cap, 524'288_B);
}

TEST(DdpBuckets, ListedLimitsHoldFromTheFirstIteration) {
  const DdpOptions options{.bucket_caps_mib = {0.25, 2}};  // 262,144 and 2,097,152 bytes
  EXPECT_EQ(indices_of(ddp_buckets(net(), options).buckets), (Indices{{1, 2, 3}, {0}}));
  EXPECT_EQ(ddp_buckets(net(), options).cap, 2_MiB);
}

TEST(DdpBuckets, SharedOnceAndFrozenNever) {
  ModuleTree tree = net();
  tie(tree, "a.weight", "c.weight");
  parameter_of(tree, "b.weight").trainable = false;
  EXPECT_EQ(ddp_buckets(tree, {}).parameters, (std::vector<std::int32_t>{0, 3}));
  for (TreeParameter& parameter : tree.parameters) parameter.trainable = false;
  EXPECT_THROW(ddp_buckets(tree, {}), Refusal);
}

TEST(DdpBuckets, UnusedParametersNeedOneOfTwoOptions) {
  EXPECT_TRUE(refused_unused_parameters({}).has_value());
  EXPECT_FALSE(refused_unused_parameters({.find_unused_parameters = true}).has_value());
  EXPECT_FALSE(refused_unused_parameters({.static_graph = true}).has_value());
}

}  // namespace
}  // namespace shardscope
