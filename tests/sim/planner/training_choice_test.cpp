#include "sim/planner/training_choice.h"

#include <gtest/gtest.h>

#include "sim/planner/answer/basis.h"
#include "tests/sim/planner/answer/tiny_plan.h"

namespace shardscope::planner {
namespace {

/// Units of several blocks and checkpoints of some blocks are the script's, and not looked for.
bool is_said_by_files(const Choice& choice) {
  return choice.blocks_per_unit <= 1 && choice.checkpointing.every <= 1 &&
         !choice.checkpointing.selective;
}

TEST(ChoiceOf, FindsAChoiceInItsTraining) {
  Inputs inputs = tiny_plan();
  inputs.question.runtimes = {Runtime::fsdp1, Runtime::fsdp2, Runtime::ddp, Runtime::deepspeed};
  inputs.question.precisions = {TrainingPrecision::bf16_mixed, TrainingPrecision::fp32};
  const Basis basis(inputs);
  int found = 0;
  for (const Choice& choice : enumerate(inputs.model, inputs.question).choices) {
    if (!is_said_by_files(choice)) continue;
    const Choice again = choice_of(pytorch_training(choice, basis.trials), inputs.model);
    EXPECT_EQ(again, choice) << text_of(choice) << " is taken for " << text_of(again);
    ++found;
  }
  EXPECT_GT(found, 100);
}

}  // namespace
}  // namespace shardscope::planner
