#include "sim/planner/choice_prediction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/planner/answer/basis.h"
#include "sim/planner/offload.h"
#include "tests/sim/planner/answer/tiny_plan.h"
#include "traces/memory_fit.h"

namespace shardscope::planner {
namespace {

using ::testing::Contains;
using ::testing::StartsWith;

class ChoicePrediction : public ::testing::Test {
 protected:
  Inputs inputs_ = tiny_plan();
  Basis basis_{inputs_};
};

// 4 ranks, 2 sequences of 64 tokens each.
TEST_F(ChoicePrediction, SaysWhatWasPredicted) {
  const Summary summary = predict(tiny_choice(), basis_.trials).summary;
  EXPECT_EQ(summary.runtime, "fsdp2");
  EXPECT_EQ(summary.strategy, "full_shard");
  EXPECT_EQ(summary.precision, "bf16_mixed");
  EXPECT_EQ(summary.world, 4);
  EXPECT_DOUBLE_EQ(summary.tokens_per_s, 512 / summary.step_time.seconds());
}

TEST_F(ChoicePrediction, SaysItOfTheNativeRuntimeToo) {
  Choice native = tiny_choice();
  native.runtime = Runtime::native;
  native.prefetch = Prefetch::both;
  const Summary summary = predict(native, basis_.trials).summary;
  EXPECT_EQ(summary.runtime, "native");
  EXPECT_EQ(summary.strategy, "full_shard");
  EXPECT_EQ(summary.precision, "bf16_mixed");
  EXPECT_EQ(summary.world, 4);
  EXPECT_DOUBLE_EQ(summary.tokens_per_s, 512 / summary.step_time.seconds());
}

// The figures of 12 micro-batches, of which three are played, and of all 12.
TEST_F(ChoicePrediction, OfManyMicroBatchesThreeAreEnough) {
  Choice choice = tiny_choice();
  choice.batch = 1;
  choice.micro_batches = 12;
  const Summary few = summary_of(choice, basis_.trials);
  const Summary all = predict(choice, basis_.trials).summary;
  EXPECT_EQ(needed_memory(few), needed_memory(all));
  EXPECT_EQ(few.step_time, all.step_time);
  EXPECT_EQ(few.time, all.time);
  EXPECT_NEAR(few.tokens_per_s, all.tokens_per_s, 1e-9 * all.tokens_per_s);
}

TEST_F(ChoicePrediction, SaysWhatIsOffloadedAndHowItIsTimed) {
  Choice choice = tiny_choice();
  EXPECT_FALSE(predict(choice, basis_.trials).summary.host_memory);
  choice.offload = Offload::all;
  const Summary summary = predict(choice, basis_.trials).summary;
  ASSERT_TRUE(summary.host_memory);
  EXPECT_EQ(summary.host_memory,
            host_states(inputs_.model, training_setup(choice, inputs_.model, {})));
  EXPECT_EQ(summary.host_memory_of_node, *summary.host_memory * 2);  // two ranks of a node
  EXPECT_THAT(summary.assumed, Contains(StartsWith("offload: the host's update takes no time")));
}

}  // namespace
}  // namespace shardscope::planner
