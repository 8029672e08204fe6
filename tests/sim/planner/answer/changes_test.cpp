#include "sim/planner/answer/changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sim/planner/answer/tiny_plan.h"

namespace shardscope::planner {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ChangesBetween, OfAChoiceAndItselfThereAreNone) {
  EXPECT_THAT(changes_between(tiny_choice(), tiny_choice()), IsEmpty());
}

// A DDP that becomes FSDP2 prefetches, too: that belongs to the runtime.
TEST(ChangesBetween, AnotherRuntimeIsOneChange) {
  Choice ddp = tiny_choice();
  ddp.runtime = Runtime::ddp;
  ddp.sharding = ShardingStrategy::no_shard;
  ddp.mesh = {.replicate = 4};
  ddp.prefetch = Prefetch::none;
  EXPECT_THAT(changes_between(ddp, tiny_choice()), ElementsAre("fsdp2 full_shard"));
}

TEST(ChangesBetween, SpeaksAsTheFileDoes) {
  Choice from = tiny_choice();
  from.runtime = Runtime::deepspeed;
  Choice to = from;
  to.sharding = ShardingStrategy::shard_grad_op;
  to.prefetch = Prefetch::none;
  to.offload = Offload::optimizer;
  to.checkpointing.every = 1;
  EXPECT_THAT(changes_between(from, to),
              ElementsAre("zero_optimization.stage: 2", "zero_optimization.overlap_comm: false",
                          "activation checkpointing full", "offload_optimizer to cpu"));
  EXPECT_THAT(changes_between(to, from),
              ElementsAre("zero_optimization.stage: 3", "zero_optimization.overlap_comm: true",
                          "no activation checkpointing", "no offload"));
}

// Whether gradients are reduced in every micro-batch says nothing where there is one.
TEST(ChangesBetween, FewerMicroBatchesAreOneChange) {
  Choice from = tiny_choice();
  from.batch = 1;
  from.micro_batches = 2;
  from.reduces_every_micro_batch = true;
  EXPECT_THAT(changes_between(from, tiny_choice()), ElementsAre("one micro-batch of 2"));
  Choice once = from;
  once.reduces_every_micro_batch = false;
  EXPECT_THAT(changes_between(from, once), ElementsAre("gradients reduced in the last alone"));
}

}  // namespace
}  // namespace shardscope::planner
