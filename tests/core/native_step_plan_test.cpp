// The passes between visits and operations, on a step written down by hand: a root and two units, a
// and b, forward and backward.
#include "core/native/step_plan.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace shardscope {
namespace {

constexpr UnitId root = UnitId::of(0), a = UnitId::of(1), b = UnitId::of(2);

/// The backward of b has two operators, of which only the second writes a parameter's gradient.
class StepByHand {
 public:
  explicit StepByHand(int micro_batches = 1) {
    graph_.values = {{.name = "x", .role = ValueRole::activation},
                     {.name = "dw", .role = ValueRole::parameter_gradient}};
    plain_.operands = {{.value = ValueId::of(0)}};
    writing_.operands = {{.value = ValueId::of(0)}, {.value = ValueId::of(1)}};
    for (int m = 0; m < micro_batches; ++m) {
      for (const UnitId unit : {root, a, b}) add(unit, m, Phase::forward, {&plain_});
      add(b, m, Phase::backward, {&plain_, &writing_});
      for (const UnitId unit : {a, root}) add(unit, m, Phase::backward, {&writing_});
    }
  }

  const std::vector<Visit>& visits() const { return visits_; }
  const OperatorGraph& graph() const { return graph_; }

 private:
  void add(UnitId unit, int micro_batch, Phase phase, std::vector<const Operator*> operators) {
    visits_.push_back({unit, micro_batch, phase, std::move(operators)});
  }

  OperatorGraph graph_;
  Operator plain_, writing_;
  std::vector<Visit> visits_;
};

/// "F:a" and "B:b[0,1)" are compute, "gather:a" all else.
std::string text_of(const std::vector<StepAction>& actions, const std::vector<Visit>& visits) {
  constexpr std::array kinds{"", "gather", "release", "begin", "reduce", "await"};
  constexpr std::array units{"root", "a", "b"};
  std::string text;
  for (const StepAction& action : actions) {
    if (!text.empty()) text += ' ';
    const bool computes = action.kind == StepAction::Kind::compute;
    const bool forward = action.phase == Phase::forward;
    text += computes ? (forward ? "F" : "B") : kinds[static_cast<std::size_t>(action.kind)];
    text += std::string(":") + units[action.unit.value];
    if (computes && action.operators.size() < visits[action.visit].operators.size())
      text += "[" + std::to_string(action.operators.begin) + "," +
              std::to_string(action.operators.end) + ")";
  }
  return text;
}

std::string reductions_of(const StepByHand& step, const ReductionRules& rules) {
  return text_of(
      with_reductions(compute_actions(step.visits()), step.visits(), step.graph(), rules),
      step.visits());
}

TEST(NativeStepPlan, ComputesVisitAfterVisit) {
  const StepByHand step;
  EXPECT_EQ(text_of(compute_actions(step.visits()), step.visits()),
            "F:root F:a F:b B:b B:a B:root");
}

// The storage of b begins in the middle of its visit. When the root's begins, b's and a's are being
// reduced: the oldest must have ended. The others are awaited at the end.
TEST(NativeStepPlan, AtMostOneOtherShardedGradientIsInFlight) {
  EXPECT_EQ(reductions_of(StepByHand(), {.gradients_sharded = true}),
            "F:root F:a F:b B:b[0,1) begin:b B:b[1,2) reduce:b begin:a B:a reduce:a "
            "await:b begin:root B:root reduce:root await:a await:root");
}

TEST(NativeStepPlan, WholeGradientsAreNeverAwaitedByCompute) {
  EXPECT_EQ(reductions_of(StepByHand(), {}),
            "F:root F:a F:b B:b[0,1) begin:b B:b[1,2) reduce:b begin:a B:a reduce:a "
            "begin:root B:root reduce:root");
}

// Two micro-batches: the storage stays, and only the last one's gradients are reduced.
TEST(NativeStepPlan, GradientsAddUpOverMicroBatchesAndAreReducedOnce) {
  EXPECT_EQ(reductions_of(StepByHand(2), {.gradients_sharded = true}),
            "F:root F:a F:b B:b[0,1) begin:b B:b[1,2) begin:a B:a begin:root B:root "
            "F:root F:a F:b B:b reduce:b B:a reduce:a B:root reduce:root await:b await:a "
            "await:root");
}

TEST(NativeStepPlan, EveryMicroBatchIsReducedWhereOnlyShardsAreKept) {
  const std::string once =
      "F:root F:a F:b B:b[0,1) begin:b B:b[1,2) reduce:b begin:a B:a reduce:a await:b begin:root "
      "B:root reduce:root";
  // In the second one the first's a and root are still in flight when b begins.
  EXPECT_EQ(reductions_of(StepByHand(2), {.gradients_sharded = true, .every_micro_batch = true}),
            once +
                " F:root F:a F:b B:b[0,1) await:a begin:b B:b[1,2) reduce:b await:root begin:a "
                "B:a reduce:a await:b begin:root B:root reduce:root await:a await:root");
}

std::string gathers_of(const StepByHand& step, const Prefetching& prefetch) {
  return text_of(with_gathers(compute_actions(step.visits()), step.visits(), prefetch),
                 step.visits());
}

constexpr Prefetching none{.forward = 0, .backward = 0};

// The root stays, and so does b, whose backward follows its forward. a is gathered a second time.
TEST(NativeStepPlan, UnitsAreGatheredBeforeTheirVisitsAndReleasedBehindThem) {
  EXPECT_EQ(gathers_of(StepByHand(), none),
            "gather:root F:root gather:a F:a release:a gather:b F:b B:b release:b "
            "gather:a B:a release:a B:root");
}

TEST(NativeStepPlan, PrefetchGathersOneVisitAhead) {
  EXPECT_EQ(gathers_of(StepByHand(), {}),
            "gather:root gather:a F:root gather:b F:a release:a F:b gather:a B:b release:b "
            "B:a release:a B:root");
}

// b's backward follows its forward, where it stays gathered.
TEST(NativeStepPlan, BackwardPreGathersBeforeTheBackwardAndPostBehindIt) {
  EXPECT_EQ(gathers_of(StepByHand(), {.forward = 0}),
            "gather:root F:root gather:a F:a release:a gather:b F:b gather:a B:b release:b "
            "B:a release:a B:root");
  EXPECT_EQ(gathers_of(StepByHand(), {.forward = 0, .backward_post = true}),
            "gather:root F:root gather:a F:a release:a gather:b F:b B:b release:b gather:a "
            "B:a release:a B:root");
}

TEST(NativeStepPlan, PrefetchReachesAsManyVisitsAheadAsAskedFor) {
  EXPECT_EQ(gathers_of(StepByHand(), {.forward = 2, .backward = 2}),
            "gather:root gather:a gather:b F:root F:a release:a gather:a F:b B:b release:b "
            "B:a release:a B:root");
}

// One besides the root: b is not gathered while a is.
TEST(NativeStepPlan, ALimitHoldsPrefetchesBack) {
  EXPECT_EQ(gathers_of(StepByHand(), {.forward = 2, .backward = 2, .limit = 1}),
            "gather:root gather:a F:root F:a release:a gather:b F:b B:b release:b gather:a "
            "B:a release:a B:root");
}

// A gather comes before the wait for an older reduction, so that it runs beside it.
TEST(NativeStepPlan, AGatherIsIssuedBeforeWhatItsVisitAwaits) {
  const StepByHand step;
  const auto reduced = with_reductions(compute_actions(step.visits()), step.visits(), step.graph(),
                                       {.gradients_sharded = true});
  EXPECT_EQ(text_of(with_gathers(reduced, step.visits(), none), step.visits()),
            "gather:root F:root gather:a F:a release:a gather:b F:b B:b[0,1) begin:b B:b[1,2) "
            "release:b reduce:b gather:a begin:a B:a release:a reduce:a await:b begin:root B:root "
            "reduce:root await:a await:root");
}

}  // namespace
}  // namespace shardscope
