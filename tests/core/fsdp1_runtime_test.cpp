// FSDP1 at run time. Expected sequences and sizes are worked out by hand from the rules in the
// comments; torch 2.15's own sequences are compared by `check_recordings collectives`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "core/pytorch/engine/checkpoint.h"
#include "core/pytorch/engine/engine.h"
#include "core/pytorch/runtimes/fsdp1/clip.h"
#include "core/pytorch/runtimes/fsdp1/state_dict.h"
#include "tests/core/fsdp1_chain.h"

namespace shardscope::eager {
namespace {

using fsdp1::BackwardPrefetch;
using testing::ElementsAre;
using Names = Sequence::Names;
using EagerModule = eager::Module;

TEST(Fsdp1Runtime, BackwardPreGathersTheUnitBeforeAheadOfTheReduction) {
  Chain chain({});
  const Tensor loss = chain.forward();
  chain.sequence.rows.clear();
  backward(chain.s, loss);
  // The root is still unsharded, and asks for the last block.
  EXPECT_THAT(chain.sequence.collectives(), ElementsAre("AG:L4", "AG:L3", "RS:L4", "AG:L2", "RS:L3",
                                                        "AG:L1", "RS:L2", "RS:L1", "RS:R"));
}

TEST(Fsdp1Runtime, TheLimiterKeepsEventsOfTheLastIteration) {
  // After an iteration with BACKWARD_PRE the frees of L3, L2, L1 and R are left. Forward 2 takes
  // them for R, L1, L2 and L3, so that L4 is the first to wait for this iteration: for L1.
  Chain chain({});
  chain.iteration();
  EXPECT_EQ(chain.model->shared().limiter.size(), 4U);
  chain.sequence.rows.clear();
  chain.forward();
  EXPECT_THAT(chain.sequence.of("wait:"),
              ElementsAre("wait:L3", "wait:L2", "wait:L1", "wait:R", "wait:L1"));
}

TEST(Fsdp1Runtime, WithBackwardPostThreeEventsAreLeft) {
  Chain chain({.options = {.backward_prefetch = BackwardPrefetch::post}});
  chain.iteration();
  EXPECT_EQ(chain.model->shared().limiter.size(), 3U);
}

TEST(Fsdp1Runtime, TheRootStaysGatheredAfterAnEvaluation) {
  Chain chain({});
  {
    const NoGrad no_grad(chain.s);
    chain.forward();
  }
  const auto& units = chain.model->units();
  EXPECT_GT(units[0]->handle->full_padded().storage()->bytes(), Bytes{});
  EXPECT_EQ(units[1]->handle->full_padded().storage()->bytes(), Bytes{});
}

/// Sizes of the storages that are alive when the backward puts a unit's gradients together.
class AtConcatenation : public Observer {
 public:
  std::vector<std::vector<std::int64_t>> alive;

  void on_storage_allocated(Session&, StorageImpl& storage) override {
    sizes_[storage.id()] = storage.bytes().count;
  }
  void on_storage_freed(Session&, StorageImpl& storage) override { sizes_.erase(storage.id()); }
  void on_operator(Session& s, const OperatorCall& call) override {
    if (!s.engine().running() || call.op.name != "aten.cat.default") return;
    alive.emplace_back();
    for (const auto& [id, bytes] : sizes_) alive.back().push_back(bytes);
  }

 private:
  std::map<std::uint64_t, std::int64_t> sizes_;
};

TEST(Fsdp1Runtime, GradientsExistTwiceAtTheConcatenation) {
  // Width 64: a weight's gradient has 16384 bytes, a bias' 256, and the flat one 16640.
  AtConcatenation watcher;  // outlives what it watches
  Chain chain({.blocks = 2, .width = 64});
  chain.s.observe(watcher);
  backward(chain.s, chain.forward());
  ASSERT_EQ(watcher.alive.size(), 3U);
  EXPECT_THAT(watcher.alive[0], testing::IsSupersetOf({16384, 256, 16640}));
}

TEST(Fsdp1Runtime, LazyInitializationAllocatesEachUnitInFullPrecision) {
  // Units of 4 x 4 + 4 elements: 40 bytes in bfloat16, 80 in the float32 that training never uses.
  Chain chain({.options = {.precision = {.parameters = Dtype::bfloat16}}});
  chain.storages.largest = 0;
  chain.forward();
  EXPECT_EQ(chain.storages.largest, 80);
}

TEST(Fsdp1Runtime, NoSyncAccumulatesInTheComputeDtype) {
  Chain chain(
      {.options = {.precision = {.parameters = Dtype::bfloat16, .reduction = Dtype::float32}}});
  chain.model->begin_no_sync(chain.s);
  backward(chain.s, chain.forward());
  chain.model->end_no_sync();
  const Tensor& gradient = chain.model->units()[1]->handle->flat().grad();
  EXPECT_EQ(gradient.dtype(), Dtype::bfloat16);
  EXPECT_EQ(gradient.numel(), 20);
  EXPECT_THAT(chain.sequence.of("RS:"), ElementsAre());
}

TEST(Fsdp1Runtime, ShardGradOpGathersNothingAfterNoSync) {
  Chain chain({.strategy = ShardingStrategy::shard_grad_op});
  chain.model->begin_no_sync(chain.s);
  backward(chain.s, chain.forward());
  chain.model->end_no_sync();
  chain.sequence.rows.clear();
  backward(chain.s, chain.forward());
  EXPECT_THAT(chain.sequence.of("AG:"), ElementsAre());
}

Names gathers_of_the_last_block(bool reentrant) {
  Chain chain({.around = [&](std::shared_ptr<EagerModule> module) {
    return checkpoint_wrapper(std::move(module), {.reentrant = reentrant});
  }});
  chain.iteration();
  return chain.sequence.of("AG:L4");
}

TEST(Fsdp1Runtime, OnlyReentrantCheckpointsOutsideAUnitGatherAThirdTime) {
  EXPECT_EQ(gathers_of_the_last_block(false).size(), 2U);
  EXPECT_EQ(gathers_of_the_last_block(true).size(), 3U);
}

TEST(Fsdp1Runtime, HybridShardsReduceTheShardAmongReplicas) {
  // 2 replicas x 2 shards: the all-reduce carries half of the unit's 20 elements.
  Chain chain({.blocks = 1, .world = 4, .strategy = ShardingStrategy::hybrid_shard});
  chain.sequence.reduced_elements.clear();
  chain.iteration();
  EXPECT_THAT(chain.sequence.of("AR:"), ElementsAre("AR:L1", "AR:R"));
  EXPECT_THAT(chain.sequence.reduced_elements, ElementsAre(10, 10, 10, 10));
  EXPECT_EQ(chain.model->units()[0]->divide_before, 2);
  EXPECT_EQ(chain.model->units()[0]->divide_after, 2);
}

TEST(Fsdp1Runtime, StateDictsGatherInFullPrecision) {
  Chain chain({.options = {.precision = {.parameters = Dtype::bfloat16}}});
  const fsdp1::StateDict state = fsdp1::state_dict(chain.s, *chain.model, {});
  EXPECT_EQ(state.size(), 10U);
  EXPECT_THAT(chain.sequence.gathered_dtypes, testing::Each(Dtype::float32));
  EXPECT_EQ(chain.sequence.of("AG:").size(), 5U);
}

TEST(Fsdp1Runtime, ClippingReducesOneNumber) {
  Chain chain({});
  backward(chain.s, chain.forward());
  chain.sequence.reduced_elements.clear();
  fsdp1::clip_grad_norm(chain.s, *chain.model);
  EXPECT_THAT(chain.sequence.reduced_elements, ElementsAre(1));
}

}  // namespace
}  // namespace shardscope::eager
