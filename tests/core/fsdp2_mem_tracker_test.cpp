// FSDPMemTracker's categories and what DTensor runs unseen, by hand; torch 2.15's own figures are
// compared by `check_recordings memory`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/engine.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/runtimes/common/optimizer.h"
#include "tests/core/fsdp2_chain.h"
#include "tests/recordings/ports/fsdp2_mem_tracker.h"
#include "tests/recordings/ports/sharding_propagation.h"

namespace shardscope::eager {
namespace {

using fsdp2::FsdpMemTracker;
using fsdp2::TrackedAs;
using testing::ElementsAre;

std::int64_t bytes_of(const TrackedMemory& memory, TrackedAs category) {
  return memory.bytes[static_cast<std::size_t>(category)];
}

/// One layer of 64 x 64 floats, 16384 bytes, over two ranks.
struct OneLayer {
  OneLayer() {
    run.sharded.fully_shard({root.get()}, {.mesh = run.sharded.mesh({2})});
    tracker = std::make_unique<FsdpMemTracker>(s, run.sharded);
    s.observe(*tracker);
    tracker->enter(*root);
  }

  std::unique_ptr<FsdpMemTracker> tracker;  // sees the model go
  Session s;
  std::shared_ptr<Module> root = chain(s, {64, 64});
  Fsdp2 run{s, 2, root};
};

TEST(FsdpMemTracker, NamesShardsAndWhatIsGatheredOfThem) {
  OneLayer one;
  EXPECT_EQ(bytes_of(one.tracker->current(), TrackedAs::sharded_parameter), 8192);
  const Tensor output = one.run.forward(64);
  EXPECT_EQ(bytes_of(one.tracker->current(), TrackedAs::unsharded_parameter), 16384);
}

// Half of the layer's 16384 bytes; autograd's own gradient is a temporary before, and gone.
TEST(FsdpMemTracker, NamesTheShardedGradientAfterBackward) {
  OneLayer one;
  one.run.step(64);
  EXPECT_EQ(bytes_of(one.tracker->current(), TrackedAs::sharded_gradient), 8192);
  EXPECT_EQ(bytes_of(one.tracker->current(), TrackedAs::unsharded_gradient), 0);
}

// A module's state is noted once a forward: it is called by the dynamic class' name.
TEST(FsdpMemTracker, NotesTheUnitsStates) {
  OneLayer one;
  one.run.step(64);
  const auto modules = one.tracker->modules();
  ASSERT_EQ(modules.size(), 1U);
  EXPECT_EQ(modules[0].name, "FSDPChain");
  std::vector<std::string_view> moments;
  for (const auto& [moment, taken] : modules[0].snapshots) moments.push_back(moment);
  EXPECT_THAT(moments, ElementsAre("Peak Forward", "Before Pre-Forward", "After Pre-Forward",
                                   "Before Post-Forward", "After Post-Forward", "Peak Backward",
                                   "Before Pre-Backward", "After Pre-Backward",
                                   "Before Post-Backward", "After Post-Backward"));
}

// The wrapper around post_backward has a variable with the unit's last gradient: 16384 bytes more
// than FSDP2 itself would hold when the reduction has been issued.
TEST(FsdpMemTracker, KeepsTheLastGradientUntilPostBackwardReturns) {
  OneLayer one;
  one.run.step(64);
  const auto modules = one.tracker->modules();
  for (const auto& [moment, taken] : modules[0].snapshots)
    if (moment == "After Post-Backward") {
      EXPECT_EQ(bytes_of(taken.front(), TrackedAs::unsharded_gradient), 16384);
    }
}

/// Operators that ran unseen before each that was seen.
struct Unseen : Observer {
  explicit Unseen(fsdp2::ShardingPropagation& from) : propagation(from) {}
  fsdp2::ShardingPropagation& propagation;
  std::vector<std::int64_t> counts;
  void on_operator(Session&, const OperatorCall& call) override {
    if (const std::int64_t count = propagation.operators_before(call)) counts.push_back(count);
  }
};

// Fused AdamW of one parameter: its moments are made by zeros_like, one fake tensor and the
// operator, the second like the first; the step itself takes parameter, gradient, both moments and
// the count: five fake tensors and the operator. The next step finds all of it.
TEST(ShardingPropagation, RunsEachOperatorOnceForShapesThatItHasNotMet) {
  Session s;
  const auto root = chain(s, {64, 64});
  Fsdp2 run(s, 2, root);
  run.sharded.fully_shard({root.get()}, {.mesh = run.sharded.mesh({2})});
  fsdp2::ShardingPropagation propagation(run.sharded);
  Unseen unseen(propagation);
  s.observe(unseen);
  run.step(64);
  const Tensor weight = root->children[0].module->parameter("weight");
  ParameterOptimizer optimizer({weight}, {.implementation = OptimizerImplementation::fused});
  for (int i = 0; i < 2; ++i) {
    propagation.begin_updates();
    optimizer.step(s);
    propagation.end_updates();
  }
  EXPECT_THAT(unseen.counts, ElementsAre(2, 6));
}

}  // namespace
}  // namespace shardscope::eager
