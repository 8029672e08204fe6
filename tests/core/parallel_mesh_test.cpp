// Meshes and redistributions of DTensors, and what of a model is wrapped, by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/engine.h"
#include "core/pytorch/parallel/device_mesh.h"
#include "core/pytorch/parallel/training.h"
#include "core/pytorch/runtimes/tensor/distributed_tensor.h"

namespace shardscope::eager::parallel {
namespace {

using ::testing::ElementsAre;

/// Kinds and sizes of collectives as they are issued.
struct Issued : Observer {
  struct Row {
    OperationKind kind;
    std::int64_t in, out;
    bool operator==(const Row&) const = default;
  };
  std::vector<Row> rows;
  std::vector<WorkId> waited;
  void on_collective(Session&, const CollectiveCall& call) override {
    rows.push_back({call.kind, call.elements_in, call.elements_out});
  }
  void on_work_wait(Session&, WorkId work, StreamId) override { waited.push_back(work); }
};
void PrintTo(const Issued::Row& row, std::ostream* out) {
  *out << name_of(row.kind) << " " << row.in << " " << row.out;
}

/// Four ranks, of which this is number 2.
class FourRanks : public ::testing::Test {
 protected:
  FourRanks() { session_.observe(issued_); }
  Tensor tensor(const Dims& sizes) { return allocate(session_, {.dtype = Dtype::bfloat16}, sizes); }
  Tensor moved(const Tensor& local, const Change& change) {
    return redistribute_local(session_, axis_, local, change);
  }

  ProcessGroups groups_{4, 2};
  Issued issued_;
  Session session_;
  Pending pending_;
  MeshAxisContext axis_{.group = &groups_.world(), .pending = &pending_};
};

TEST(DeviceMesh, TheLastAxisVariesFastest) {
  ProcessGroups groups(16, 13);  // 13 = 1*8 + 1*4 + 0*2 + 1
  const DeviceMesh mesh(groups, {{"dp_replicate", 2}, {"dp_shard", 2}, {"cp", 2}, {"tp", 2}});
  EXPECT_THAT(mesh.group("tp").ranks.list(), ElementsAre(12, 13));
  EXPECT_THAT(mesh.group("cp").ranks.list(), ElementsAre(13, 15));
  EXPECT_THAT(mesh.group("dp_shard").ranks.list(), ElementsAre(9, 13));
  EXPECT_THAT(mesh.group("dp_replicate").ranks.list(), ElementsAre(5, 13));
}

TEST(DeviceMesh, FlattensNeighbours) {
  ProcessGroups groups(16, 13);
  DeviceMesh mesh(groups, {{"dp_replicate", 2}, {"dp_shard", 2}, {"cp", 2}, {"tp", 2}});
  EXPECT_THAT(mesh.flatten("dp_shard", "cp").ranks.list(), ElementsAre(9, 11, 13, 15));
}

TEST(DeviceMesh, RefusesAxesThatDoNotMakeUpTheWorld) {
  ProcessGroups groups(8, 0);
  EXPECT_THROW(DeviceMesh(groups, {{"dp_shard", 4}, {"tp", 4}}), Error);
}

TEST_F(FourRanks, PartialSumsAreReducedWhole) {
  const Tensor whole = moved(tensor({2, 8, 16}), {.from = partial, .to = replicated});
  EXPECT_EQ(whole.sizes(), (Dims{2, 8, 16}));
  EXPECT_THAT(issued_.rows, ElementsAre(Issued::Row{OperationKind::all_reduce, 256, 256}));
}

TEST_F(FourRanks, PartialSumsAreScatteredAlongTheSequence) {
  const Tensor part = moved(tensor({2, 8, 16}), {.from = partial, .to = shard(1)});
  EXPECT_EQ(part.sizes(), (Dims{2, 2, 16}));
  EXPECT_THAT(issued_.rows, ElementsAre(Issued::Row{OperationKind::reduce_scatter, 256, 64}));
}

/// 10 columns over 4 ranks: 3, 3, 3, 1. Every rank sends 3, and 2 of the 12 are cut off.
TEST_F(FourRanks, UnevenPartsArePaddedToTheLargest) {
  const Tensor whole = moved(tensor({4, 3}), {.from = shard(-1), .to = replicated, .whole = 10});
  EXPECT_EQ(whole.sizes(), (Dims{4, 10}));
  EXPECT_THAT(issued_.rows, ElementsAre(Issued::Row{OperationKind::all_gather, 12, 48}));
}

TEST(ShardSize, FollowsTorchChunk) {
  EXPECT_EQ(shard_size(10, 4, 2), 3);
  EXPECT_EQ(shard_size(10, 4, 3), 1);
  EXPECT_EQ(shard_size(5, 4, 3), 0);  // 2, 2, 1, none
}

TEST_F(FourRanks, AReplicatedTensorIsCutWithoutACollective) {
  const Tensor part = moved(tensor({8, 4}), {.from = replicated, .to = shard(0)});
  EXPECT_EQ(part.sizes(), (Dims{2, 4}));
  EXPECT_TRUE(issued_.rows.empty());
}

TEST_F(FourRanks, AnotherDimensionIsAnExchange) {
  const Tensor part = moved(tensor({2, 8, 4}), {.from = shard(2), .to = shard(1)});
  EXPECT_EQ(part.sizes(), (Dims{2, 2, 16}));
  EXPECT_THAT(issued_.rows, ElementsAre(Issued::Row{OperationKind::all_to_all, 64, 64}));
}

TEST_F(FourRanks, AResultIsWaitedForOnceWhenItIsUsed) {
  const Tensor whole = moved(tensor({2, 8, 16}), {.from = partial, .to = replicated});
  EXPECT_TRUE(issued_.waited.empty());
  pending_.wait(session_, whole);
  pending_.wait(session_, whole);
  EXPECT_EQ(issued_.waited.size(), 1u);
}

/// Forward needs nothing; the gradient is a partial sum on each rank.
TEST_F(FourRanks, AReplicatedInputSumsItsGradients) {
  const Tensor x = tensor({2, 4});
  x.set_requires_grad(true);
  const Tensor inside = from_local(session_, axis_, x, replicated, partial);
  EXPECT_TRUE(issued_.rows.empty());
  backward(session_, inside, tensor({2, 4}));
  EXPECT_THAT(issued_.rows, ElementsAre(Issued::Row{OperationKind::all_reduce, 8, 8}));
}

/// A row-wise layer's sum is not undone: its gradient is gathered where it is split, and else
/// taken.
TEST_F(FourRanks, ASumsGradientIsNeverMadePartial) {
  const Tensor x = tensor({2, 4});
  x.set_requires_grad(true);
  const Tensor sum =
      redistribute(session_, axis_, x, {.from = partial, .to = replicated}, replicated);
  issued_.rows.clear();
  backward(session_, sum, tensor({2, 4}));
  EXPECT_TRUE(issued_.rows.empty());
}

// torchtitan counts blocks from 1 and wraps those whose number k divides: of five the second and
// the fourth.
TEST(ParallelTraining, CheckpointsBlocksAsTorchtitanCountsThem) {
  Session session;
  ProcessGroups groups(2, 0);
  ParallelSettings settings{
      .shape = {.dim = 8, .layers = 5, .heads = 2, .kv_heads = 2, .hidden = 16, .vocab = 32},
      .mesh = {{"dp_shard", 2}},
      .length = 4};
  settings.checkpoint_every = 2;
  ParallelTraining training(session, groups, settings);
  std::vector<bool> wrapped;
  for (const Module::Child& block : training.module().child("layers").children)
    wrapped.push_back(block.module->class_name == "CheckpointWrapper");
  EXPECT_THAT(wrapped, ElementsAre(false, true, false, true, false));
}

}  // namespace
}  // namespace shardscope::eager::parallel
