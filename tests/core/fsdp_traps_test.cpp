// The fifteen traps of the facts on sharded training, and the corrections to them, as tests. Where
// another test holds one already it is named here; the rest stands below, worked out by hand from
// the rule in the comment. Sequences of real runs are compared by `check_recordings`.
//
// Traps
//  1 limiter's stale events      Fsdp1Runtime.TheLimiterKeepsEventsOfTheLastIteration,
//                                Fsdp1Runtime.WithBackwardPostThreeEventsAreLeft
//  2 gradients twice             Fsdp1Runtime.GradientsExistTwiceAtTheConcatenation,
//                                Fsdp2Runtime.GathersInTheComputeDtypeAndReducesInTheReduceDtype
//  3 the root unit               Fsdp1Runtime.TheRootStaysGatheredAfterAnEvaluation,
//                                FsdpTraps.TheRootIsReducedLast
//  4 order of gathers            Fsdp1Runtime.BackwardPreGathersTheUnitBeforeAheadOfTheReduction,
//                                FsdpTraps.BackwardPostGathersAheadOfTheReductionOfTheSameUnit,
//                                FsdpTraps.WithoutPrefetchGathersFollowReductions
//  5 no_sync                     Fsdp1Runtime.NoSyncAccumulatesInTheComputeDtype,
//                                Fsdp1Runtime.ShardGradOpGathersNothingAfterNoSync,
//                                Fsdp2Runtime.AccumulatesUnsynchronizedGradientsInTheReduceDtype
//  6 padding                     FlatParameter.FillsBeforeAParameterAndAtTheEndUpToTheRanks,
//                                Fsdp1.AlignsToSixteenBytesOfTheComputeDtype,
//                                Fsdp2Runtime.PadsEachParameterToAWholeRowForEveryRank
//  7 mixed precision             Fsdp1Runtime.StateDictsGatherInFullPrecision,
//                                FsdpTraps.ShardsAndTheirGradientsStayInFullPrecision
//  8 lazy initialization         Fsdp1Runtime.LazyInitializationAllocatesEachUnitInFullPrecision
//  9 hybrid shards               Fsdp1Runtime.HybridShardsReduceTheShardAmongReplicas,
//                                FsdpTraps.Fsdp2KeepsAllReduceInputsToTheEndOfBackward
// 10 FSDP2's post-backward       FsdpTraps.UnitsWhoseInputsNeedNoGradientAreReducedAtTheEnd,
//                                FsdpTraps.GradientsOfAGroupShareOneBuffer
// 11 reserved is not allocated   CachingAllocator.KeepsBlocksOfOneStreamFromAnother,
//                                CachingAllocator.HandsOutALargeBlockWholeIfTheRestIsOneMiBOrLess,
//                                CachingAllocator.HoldsABlockThatAnotherStreamUses,
//                                BlockSizes.SegmentsAre2Or20MiBOrMultiplesOf2MiB
// 12 iteration 1                 DdpBuckets.FirstIterationHasOneBucket,
//                                FsdpTraps.ForwardPrefetchStartsInTheSecondIteration,
//                                FsdpTraps.OptimizerStateAppearsAtTheFirstStep
// 13 DeepSpeed's constants       DeepSpeedConfig.FillsInTheDefaultsOfStage3,
//                                DeepSpeedSettings.HoldsElementsDevicesAndPrecision,
//                                DeepSpeedLint.KnowsBytesFromElements
// 14 accelerate's defaults       Accelerate.*, AccelerateLint.*, Fsdp1.SizePolicyWrapsARemainder,
//                                AccelerateFsdp2.SizePolicyCountsNestedModulesAndWantsMore
// 15 the step can be the peak    FsdpTraps.ForeachAdamTakesTheSquareRootsOfAllParametersAtOnce,
//                                Fsdp1Runtime.OnlyReentrantCheckpointsOutsideAUnitGatherAThirdTime
//
// Corrections
//  FSDP1  forward_prefetch       FsdpTraps.ForwardPrefetchDelaysFreesInBackward
//         limiter over the end   Fsdp1Runtime.TheLimiterKeepsEventsOfTheLastIteration
//         checkpoints            Fsdp1Runtime.OnlyReentrantCheckpointsOutsideAUnitGatherAThirdTime
//  FSDP2  checkpoints            FsdpTraps.CheckpointsUnderFsdp2GatherNoThirdTime
//         clipping               FsdpTraps.ClippingSumsOneNumberPerParameter
//         an integer             FsdpTraps.AnIntegerMakesAGroupForEveryUnit
//         frozen layers          FsdpTraps.TheLowestTrainableUnitIsReducedAfterTheRoot
//         no reshard             FsdpTraps.WithoutReshardAfterBackwardTheNextForwardGathersNothing
//  DDP    static graph           FsdpTraps.AStaticGraphRebuildsAtTheThirdForward
//         buckets                FsdpTraps.BucketsExistFromTheConstructorOn
//  Accelerate, Trainer           Accelerate.*, TransformersFacts.*, AccelerateFsdp2.*
//  Wrapping                      Fsdp1.FlattensATieThatWasCutTwice,
//                                Fsdp1.LeavesACutTieInTheFirstUnitWithOriginalParameters,
//                                Fsdp1.RanksDisagreeWhereTheSizePolicyCountsTheirOwnPiece,
//                                FlatParameter.NotShardedStillHasTheFillOfItsGroup,
//                                FullyShard.TiedParameterInTwoGroupsFailsAtTheFirstForward
//  Memory, operators, DeepSpeed  check_recordings memory, allocator, operators, collectives
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "core/pytorch/engine/checkpoint.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/engine.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/runtimes/common/optimizer.h"
#include "core/pytorch/runtimes/ddp/distributed_data_parallel.h"
#include "core/pytorch/runtimes/fsdp2/clip_grad_norm.h"
#include "tests/core/fsdp1_chain.h"
#include "tests/core/fsdp2_chain.h"

namespace shardscope::eager {
namespace {

using fsdp1::BackwardPrefetch;
using testing::ElementsAre;

Sequence::Names backward_of(Chain& chain) {
  const Tensor loss = chain.forward();
  chain.sequence.rows.clear();
  backward(chain.s, loss);
  return chain.sequence.collectives();
}

// The root's gradients, of the head among them, wait for the end of the whole backward.
TEST(FsdpTraps, TheRootIsReducedLast) {
  Chain chain({.blocks = 2});
  EXPECT_EQ(backward_of(chain).back(), "RS:R");
}

// The gather of a unit's neighbour is issued before that unit's reduction, after its gradients.
TEST(FsdpTraps, BackwardPostGathersAheadOfTheReductionOfTheSameUnit) {
  Chain chain({.options = {.backward_prefetch = BackwardPrefetch::post}});
  EXPECT_THAT(backward_of(chain), ElementsAre("AG:L4", "AG:L3", "RS:L4", "AG:L2", "RS:L3", "AG:L1",
                                              "RS:L2", "RS:L1", "RS:R"));
}

TEST(FsdpTraps, WithoutPrefetchGathersFollowReductions) {
  Chain chain({.options = {.backward_prefetch = BackwardPrefetch::none}});
  EXPECT_THAT(backward_of(chain), ElementsAre("AG:L4", "RS:L4", "AG:L3", "RS:L3", "AG:L2", "RS:L2",
                                              "AG:L1", "RS:L1", "RS:R"));
}

// 20 elements a unit over two ranks: shards of 10, in float32 under bfloat16 compute, and so their
// gradients.
TEST(FsdpTraps, ShardsAndTheirGradientsStayInFullPrecision) {
  Chain chain({.options = {.precision = {.parameters = Dtype::bfloat16}}});
  backward(chain.s, chain.forward());
  for (const Tensor& parameter : chain.model->parameters()) {
    EXPECT_EQ(parameter.dtype(), Dtype::float32);
    EXPECT_EQ(parameter.numel(), 10);
    EXPECT_EQ(parameter.grad().dtype(), Dtype::float32);
  }
}

/// Storages that were freed, and the inputs of all-reduces, each freed or not when the last was
/// issued.
struct AllReduceInputs : Observer {
  std::vector<std::uint64_t> reduced;
  std::set<std::uint64_t> freed;
  std::size_t freed_before_last = 0;

  void on_collective(Session&, const CollectiveCall& call) override {
    if (call.kind != OperationKind::all_reduce) return;
    freed_before_last = freed.size();
    reduced.push_back(call.inputs.front()->storage->id());
  }
  void on_storage_freed(Session&, StorageImpl& storage) override {
    for (const std::uint64_t id : reduced)
      if (id == storage.id()) freed.insert(id);
  }
};

// bfloat16 reduction of float32 shards: the sharded gradients are casts, and what was all-reduced
// is of no more use, but stays until the end of backward.
TEST(FsdpTraps, Fsdp2KeepsAllReduceInputsToTheEndOfBackward) {
  AllReduceInputs inputs;
  Session s;
  Fsdp2 run(s, 4, chain(s, {4, 4, 4, 4}));
  run.shard_all(
      {.mesh = run.sharded.mesh({2, 2}),
       .mixed_precision = {.param_dtype = Dtype::bfloat16, .reduce_dtype = Dtype::bfloat16}});
  s.observe(inputs);
  run.step(4);
  EXPECT_EQ(inputs.reduced.size(), 3U);
  EXPECT_EQ(inputs.freed_before_last, 0U);
  EXPECT_EQ(inputs.freed.size(), 3U);
}

/// Elements of the reduce-scatters, and of each whether it ran in the final callback.
struct Reductions : Observer, fsdp2::Watcher {
  std::vector<std::pair<std::int64_t, bool>> rows;
  bool in_final_callback = false;

  void on_collective(Session&, const CollectiveCall& call) override {
    if (call.kind == OperationKind::reduce_scatter)
      rows.emplace_back(call.elements_in, in_final_callback);
  }
  void on_enter(Session&, const fsdp2::Visit& visit) override {
    in_final_callback = in_final_callback || visit.site == fsdp2::Site::final_callback;
  }
  void on_leave(Session&, const fsdp2::Visit& visit) override {
    if (visit.site == fsdp2::Site::final_callback) in_final_callback = false;
  }
};

// Layers of 2 x 4, 8 x 2 and 4 x 8 elements. The batch needs no gradient, so nothing tells the
// first layer that its own are there.
TEST(FsdpTraps, UnitsWhoseInputsNeedNoGradientAreReducedAtTheEnd) {
  Reductions seen;
  Session s;
  Fsdp2 run(s, 2, chain(s, {4, 2, 8, 4}));
  run.sharded.watch(seen);
  run.shard_all({});
  s.observe(seen);
  run.step(4);
  EXPECT_THAT(seen.rows,
              ElementsAre(std::pair(32, false), std::pair(16, false), std::pair(8, true)));
}

// The same with the first layer frozen: the second is the lowest with gradients, and its inputs
// need none. A root with a parameter of its own would come before it.
TEST(FsdpTraps, TheLowestTrainableUnitIsReducedAfterTheRoot) {
  Reductions seen;
  Session s;
  const auto root = chain(s, {4, 2, 8, 4});
  root->children[0].module->parameter("weight").set_requires_grad(false);
  Fsdp2 run(s, 2, root);
  run.sharded.watch(seen);
  run.sharded.fully_shard({root->children[1].module.get()}, {.mesh = run.sharded.mesh({2})});
  run.sharded.fully_shard({root.get()}, {.mesh = run.sharded.mesh({2})});
  s.observe(seen);
  run.step(4);
  EXPECT_THAT(seen.rows, ElementsAre(std::pair(32, true), std::pair(16, true)));
}

TEST(FsdpTraps, GradientsOfAGroupShareOneBuffer) {
  Session s;
  const auto root = chain(s, {4, 4, 4});
  Fsdp2 run(s, 2, root);
  run.sharded.fully_shard({root.get()}, {.mesh = run.sharded.mesh({2})});
  run.step(4);
  const auto& parameters = run.sharded.state_of(*root)->group()->parameters();
  ASSERT_EQ(parameters.size(), 2U);
  EXPECT_EQ(parameters[0]->sharded_param().grad().storage(),
            parameters[1]->sharded_param().grad().storage());
}

Sequence::Names forward_of(Chain& chain) {
  chain.sequence.rows.clear();
  chain.forward();
  Sequence::Names rows;
  for (const std::string& row : chain.sequence.rows)
    if (!row.starts_with("wait")) rows.push_back(row);
  return rows;
}

// The order is known after one forward; then each unit gathers the next before it computes.
TEST(FsdpTraps, ForwardPrefetchStartsInTheSecondIteration) {
  Chain chain({.blocks = 2, .options = {.forward_prefetch = true}});
  EXPECT_THAT(forward_of(chain), ElementsAre("AG:R", "AG:L1", "free:L1", "AG:L2", "free:L2"));
  chain.iteration();
  EXPECT_THAT(forward_of(chain), ElementsAre("AG:R", "AG:L1", "AG:L2", "free:L1", "free:L2"));
}

std::ptrdiff_t place_in_second_backward(const fsdp1::Options& options, const std::string& row) {
  Chain chain({.options = options});
  chain.iteration();
  backward_of(chain);
  const Sequence::Names& rows = chain.sequence.rows;
  return std::find(rows.begin(), rows.end(), row) - rows.begin();
}

// AG:L2 B:L3 free:L4 RS:L4, where without it L4 is freed before L2 is gathered.
TEST(FsdpTraps, ForwardPrefetchDelaysFreesInBackward) {
  const fsdp1::Options ahead{.forward_prefetch = true};
  EXPECT_LT(place_in_second_backward({}, "free:L4"), place_in_second_backward({}, "AG:L2"));
  EXPECT_GT(place_in_second_backward(ahead, "free:L4"), place_in_second_backward(ahead, "AG:L2"));
}

// Moments of a parameter are made by the first step, so that the first forward and backward do
// without.
TEST(FsdpTraps, OptimizerStateAppearsAtTheFirstStep) {
  Session s;
  const auto root = chain(s, {4, 4});
  ParameterOptimizer optimizer({root->children[0].module->parameter("weight")}, {});
  backward(s, sum(s, call_one(s, *root, {input(s, 4)})));
  EXPECT_FALSE(optimizer.states()[0].first_moment.defined());
  optimizer.step(s);
  EXPECT_EQ(optimizer.states()[0].first_moment.numel(), 16);
}

/// The most bytes that were alive at once since it began to watch.
struct MostAlive : Observer {
  std::map<std::uint64_t, std::int64_t> sizes;
  std::int64_t alive = 0, most = 0;
  void on_storage_allocated(Session&, StorageImpl& storage) override {
    if (storage.device() != Device::cuda) return;
    sizes[storage.id()] = storage.bytes().count;
    most = std::max(most, alive += storage.bytes().count);
  }
  void on_storage_freed(Session&, StorageImpl& storage) override {
    if (const auto node = sizes.extract(storage.id())) alive -= node.mapped();
  }
};

std::int64_t most_alive_in_a_step(OptimizerImplementation implementation) {
  MostAlive most;
  Session s;
  const auto root = chain(s, {4, 4, 4});
  Tensors parameters;
  for (const Module::Child& child : root->children)
    parameters.push_back(child.module->parameter("weight"));
  ParameterOptimizer optimizer(parameters, {.implementation = implementation});
  for (int i = 0; i < 2; ++i) {
    backward(s, sum(s, call_one(s, *root, {input(s, 4)})));
    if (i == 1) s.observe(most);
    optimizer.step(s);
  }
  return most.most;
}

// Two weights of 16 floats: 128 bytes of square roots at once, where the fused kernel needs none.
TEST(FsdpTraps, ForeachAdamTakesTheSquareRootsOfAllParametersAtOnce) {
  EXPECT_EQ(most_alive_in_a_step(OptimizerImplementation::foreach), 128);
  EXPECT_EQ(most_alive_in_a_step(OptimizerImplementation::fused), 0);
}

std::ptrdiff_t gathers_of(const Collectives& seen) {
  return std::count_if(seen.rows.begin(), seen.rows.end(),
                       [](const std::string& row) { return row.starts_with("all_gather"); });
}

// The recomputation finds what backward has gathered: two gathers a unit, checkpointed or not.
TEST(FsdpTraps, CheckpointsUnderFsdp2GatherNoThirdTime) {
  for (const bool outside : {false, true}) {
    Session s;
    const auto root = chain(s, {4, 4, 4});
    Fsdp2 run(s, 2, root);
    for (Module::Child& child : root->children) {
      if (!outside) child.module = checkpoint_wrapper(child.module, {});
      run.sharded.fully_shard({child.module.get()}, {.mesh = run.sharded.mesh({2})});
      if (outside) child.module = checkpoint_wrapper(child.module, {});
    }
    run.sharded.fully_shard({root.get()}, {.mesh = run.sharded.mesh({2})});
    Collectives seen;
    s.observe(seen);
    const Tensor batch = input(s, 4);
    batch.set_requires_grad(true);
    backward(s, sum(s, call_one(s, *root, {batch})));
    EXPECT_EQ(gathers_of(seen), 4);
  }
}

// Two parameters: the 2-norm all-reduces a vector of two, the infinity norm one number when it is
// asked for.
TEST(FsdpTraps, ClippingSumsOneNumberPerParameter) {
  for (const double order : {2.0, std::numeric_limits<double>::infinity()}) {
    Session s;
    const auto root = chain(s, {4, 4, 4});
    Fsdp2 run(s, 2, root);
    run.shard_all({});
    run.step(4);
    Collectives seen;
    s.observe(seen);
    Tensors parameters;
    for (const NamedParameter& named : named_parameters_of(*root))
      parameters.push_back(named.tensor());
    fsdp2::clip_grad_norm(s, parameters, run.groups.world(), order);
    EXPECT_THAT(seen.rows,
                ElementsAre(order == 2 ? "all_reduce 2 2 float32" : "all_reduce 1 1 float32"));
  }
}

TEST(FsdpTraps, AnIntegerMakesAGroupForEveryUnit) {
  Session s;
  Fsdp2 run(s, 4, chain(s, {4, 4, 4}));
  const std::size_t before = run.groups.all().size();
  run.shard_all({.mesh = run.sharded.mesh({4}), .reshard_after_forward = 2});
  // Two layers have parameters; the root has none, but asks for a group all the same.
  EXPECT_GE(run.groups.all().size(), before + 2);
}

// Two layers and an iteration: gathered once in forward, and kept until it is told otherwise.
TEST(FsdpTraps, WithoutReshardAfterBackwardTheNextForwardGathersNothing) {
  Session s;
  const auto root = chain(s, {4, 4, 4});
  Fsdp2 run(s, 2, root);
  run.shard_all({});
  run.sharded.set(*root, [](auto& switches) { switches.reshard_after_backward = false; });
  Collectives seen;
  s.observe(seen);
  run.step(4);
  EXPECT_EQ(gathers_of(seen), 4);
  run.step(4);
  EXPECT_EQ(gathers_of(seen), 6);  // of backward, after this forward's reshard
}

// Caps that give every layer a bucket of its own take effect at the third forward.
TEST(FsdpTraps, AStaticGraphRebuildsAtTheThirdForward) {
  Session s;
  ProcessGroups groups(2, 0);
  ddp::Options options;
  options.buckets.bucket_cap_mib = 64.0 / 1048576;
  options.buckets.static_graph = true;
  ddp::DistributedDataParallel model(s, chain(s, {4, 4, 4, 4}), groups.world(), options);
  std::vector<std::size_t> buckets;
  for (int i = 0; i < 3; ++i) {
    backward(s, sum(s, call_one(s, *model.module(), {input(s, 4)})));
    buckets.push_back(model.reducer().buckets().size());
  }
  EXPECT_THAT(buckets, ElementsAre(1U, 1U, 3U));
}

// 3 x 16 floats: PyTorch's own tracker misses them until the first backward.
TEST(FsdpTraps, BucketsExistFromTheConstructorOn) {
  MostAlive alive;
  Session s;
  ProcessGroups groups(2, 0);
  const auto root = chain(s, {4, 4, 4, 4});
  s.observe(alive);
  const ddp::DistributedDataParallel model(s, root, groups.world(), {});
  EXPECT_EQ(alive.alive, 192);
}

}  // namespace
}  // namespace shardscope::eager
