// FSDP2 and DistributedDataParallel at run time. Expected sizes and sequences are worked out by
// hand from the rules in the comments; torch 2.15's own sequences are compared by `check_recordings
// collectives`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/pytorch/engine/engine.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/runtimes/ddp/distributed_data_parallel.h"
#include "tests/core/fsdp2_chain.h"

namespace shardscope::eager {
namespace {

using testing::ElementsAre;

// A (1, 5) weight on 8 ranks: every rank stores one padded row, so that 8 rows are gathered and
// reduced where one has values.
TEST(Fsdp2Runtime, PadsEachParameterToAWholeRowForEveryRank) {
  Session s;
  Fsdp2 run(s, 8, chain(s, {5, 1}));
  run.shard_all({});
  Collectives seen;
  s.observe(seen);
  run.step(5);
  EXPECT_THAT(seen.rows, ElementsAre("all_gather 5 40 float32", "all_gather 5 40 float32",
                                     "reduce_scatter 40 5 float32"));
}

// The root's own default is not to reshard after forward; what it is told explicitly it does.
TEST(Fsdp2Runtime, OnlyAnExplicitTrueFreesTheRootAfterForward) {
  for (const bool explicitly : {false, true}) {
    Session s;
    const auto root = chain(s, {4, 4});
    Fsdp2 run(s, 2, root);
    fsdp2::Options options{.mesh = run.sharded.mesh({2})};
    if (explicitly) options.reshard_after_forward = true;
    run.sharded.fully_shard({root.get()}, options);
    const Tensor output = run.forward(4);
    EXPECT_EQ(run.sharded.state_of(*root)->group()->is_unsharded(), !explicitly);
  }
}

// bfloat16 compute, float32 reduction: a micro-batch without synchronization leaves unsharded
// gradients in float32 (FSDP1 would keep them in bfloat16).
TEST(Fsdp2Runtime, AccumulatesUnsynchronizedGradientsInTheReduceDtype) {
  Session s;
  const auto root = chain(s, {4, 4});
  Fsdp2 run(s, 2, root);
  run.shard_all(
      {.mixed_precision = {.param_dtype = Dtype::bfloat16, .reduce_dtype = Dtype::float32}});
  run.sharded.set_requires_gradient_sync(*root, false);
  run.step(4);
  const auto& parameters = run.sharded.state_of(*root->children[0].module)->group()->parameters();
  EXPECT_EQ(parameters[0]->unsharded_param().dtype(), Dtype::bfloat16);
  EXPECT_EQ(parameters[0]->unsharded_param().grad().dtype(), Dtype::float32);
  EXPECT_FALSE(parameters[0]->sharded_param().grad().defined());
}

// In the synchronized backward gradients stay in bfloat16 until the copy-in widens them, so that
// only the reduction runs in float32.
TEST(Fsdp2Runtime, GathersInTheComputeDtypeAndReducesInTheReduceDtype) {
  Session s;
  Fsdp2 run(s, 2, chain(s, {4, 4}));
  run.shard_all(
      {.mixed_precision = {.param_dtype = Dtype::bfloat16, .reduce_dtype = Dtype::float32}});
  Collectives seen;
  s.observe(seen);
  run.step(4);
  EXPECT_THAT(seen.rows, ElementsAre("all_gather 8 16 bfloat16", "all_gather 8 16 bfloat16",
                                     "reduce_scatter 16 8 float32"));
}

// 8 shards kept in pieces over 2 ranks: forward gathers 16 elements from all ranks, backward from
// the pair.
TEST(Fsdp2Runtime, AnIntegerGathersTheBackwardFromASmallerGroup) {
  Session s;
  Fsdp2 run(s, 8, chain(s, {2, 8}));
  run.shard_all({.reshard_after_forward = 2});
  Collectives seen;
  s.observe(seen);
  run.step(2);
  EXPECT_THAT(seen.rows, ElementsAre("all_gather 2 16 float32", "all_gather 8 16 float32",
                                     "reduce_scatter 16 2 float32"));
}

// The first iteration has a single bucket. Rebuilt with caps of 64 bytes in the order of readiness,
// the last layer's 4 x 4 floats (64 bytes) fill the first, the others' one each.
TEST(DdpRuntime, RebuildsItsOneBucketInTheOrderOfReadiness) {
  Session s;
  ProcessGroups groups(2, 0);
  ddp::Options options;
  options.buckets.bucket_cap_mib = 64.0 / 1048576;
  ddp::DistributedDataParallel model(s, chain(s, {4, 4, 4, 4}), groups.world(), options);
  EXPECT_EQ(model.reducer().buckets().size(), 1U);
  for (int i = 0; i < 2; ++i) backward(s, sum(s, call_one(s, *model.module(), {input(s, 4)})));
  std::vector<std::size_t> order;
  for (const ddp::Reducer::Bucket& bucket : model.reducer().buckets())
    order.insert(order.end(), bucket.variables.begin(), bucket.variables.end());
  EXPECT_EQ(model.reducer().buckets().size(), 3U);
  EXPECT_THAT(order, ElementsAre(2U, 1U, 0U));
}

// With gradient_as_bucket_view a gradient is its bucket's memory; without it both exist.
TEST(DdpRuntime, BucketViewsAreTheGradients) {
  for (const bool views : {false, true}) {
    Session s;
    ProcessGroups groups(2, 0);
    const auto root = chain(s, {4, 4});
    ddp::DistributedDataParallel model(s, root, groups.world(), {.gradient_as_bucket_view = views});
    backward(s, sum(s, call_one(s, *model.module(), {input(s, 4)})));
    const Tensor& gradient = root->children[0].module->parameter("weight").grad();
    EXPECT_EQ(gradient.storage() == model.reducer().buckets()[0].gradients.storage(), views);
  }
}

// Under no_sync nothing is reduced, and the next forward sends no buffers either.
TEST(DdpRuntime, NoSyncIssuesNothing) {
  Session s;
  ProcessGroups groups(2, 0);
  ddp::DistributedDataParallel model(s, chain(s, {4, 4}), groups.world(), {});
  Collectives seen;
  s.observe(seen);
  {
    const ddp::DistributedDataParallel::NoSync no_sync(model);
    backward(s, sum(s, call_one(s, *model.module(), {input(s, 4)})));
  }
  EXPECT_TRUE(seen.rows.empty());
}

}  // namespace
}  // namespace shardscope::eager
