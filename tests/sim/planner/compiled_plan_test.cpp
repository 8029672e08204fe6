// Plans of compiled code and of float8: bounds that stay below what is tried out, and trials that
// say what the prediction of the same training says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/model/huggingface.h"
#include "sim/planner/answer/basis.h"
#include "sim/planner/bounds.h"
#include "sim/planner/choice_prediction.h"
#include "sim/planner/written_choice.h"
#include "tests/sim/planner/answer/tiny_plan.h"

namespace shardscope::planner {
namespace {

using eager::parallel::Float8Recipe;

constexpr std::string_view llama_of_6 = R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
  "hidden_size": 512, "intermediate_size": 1536, "max_position_embeddings": 4096,
  "num_attention_heads": 8, "num_hidden_layers": 6, "num_key_value_heads": 4,
  "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "tie_word_embeddings": false,
  "use_cache": false, "vocab_size": 4096})";

/// What all ways of a plan run as.
struct Kernels {
  std::string name;
  CompileScope compiled = CompileScope::none;
  Float8Recipe float8 = Float8Recipe::none;
  bool torchtitan = false;
};

/// 8 ranks of two nodes on an H100, 16 sequences of 1,024 tokens a step.
Inputs plan_of(const Kernels& kernels) {
  Inputs inputs = tiny_plan();
  inputs.config = JsonValue::parse(llama_of_6, "config.json");
  inputs.model = model_of_config(inputs.config);
  inputs.profile = find_hardware_profile("h100_sxm", "--cluster");
  inputs.profile.ranks_per_node = 4;
  inputs.profile.memory = {};
  Question& question = inputs.question;
  question.world = 8;
  question.runtimes = {Runtime::ddp, Runtime::fsdp1, Runtime::fsdp2, Runtime::deepspeed};
  question.training.length = 1024;
  question.tokens_per_batch = 16 * 1024;
  question.training.session.compute_capability = 90;
  question.training.compiled = kernels.compiled;
  question.training.float8 = kernels.float8;
  if (kernels.compiled == CompileScope::blocks_and_loss)
    question.training.loop.loss = eager::LossPlace::after_model;
  if (!kernels.torchtitan) return inputs;
  question.runtimes = {};
  question.torchtitan = true;
  return inputs;
}

std::vector<Choice> drawn(std::vector<Choice> choices, std::size_t count) {
  std::mt19937 random(11);
  std::ranges::shuffle(choices, random);
  if (choices.size() > count) choices.resize(count);
  return choices;
}

class CompiledPlan : public ::testing::TestWithParam<Kernels> {};

// Eager kernels move and keep more: bounds of these would leave out what compiled code is best at.
TEST_P(CompiledPlan, BoundsAreNoHigherThanTrials) {
  const Inputs inputs = plan_of(GetParam());
  const Basis basis(inputs);
  const std::vector<Choice> choices = drawn(choices_of(inputs, 8).choices, 32);
  const std::vector<Bounds> bounds = bounds_of(choices, basis.trials, 0);
  const std::vector<Bounds> floors = floors_of(choices, basis.trials, 0);
  double tightness = 0;
  int tried = 0;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    Trial trial;
    try {
      trial = try_out(choices[i], basis.trials);
    } catch (const Error&) {
      continue;  // float8 has no FSDP1, no DeepSpeed
    }
    EXPECT_LE(bounds[i].time, trial.time.span) << text_of(choices[i]);
    EXPECT_LE(bounds[i].memory, trial.needed()) << text_of(choices[i]);
    EXPECT_LE(floors[i].time, bounds[i].time) << text_of(choices[i]);
    EXPECT_LE(floors[i].memory, bounds[i].memory) << text_of(choices[i]);
    tightness += bounds[i].time.seconds() / trial.time.span.seconds();
    ++tried;
  }
  ASSERT_GT(tried, 3);
  // A bound of nothing would do no work. Casts of eager float8 take most of its time.
  if (GetParam().float8 == Float8Recipe::none) {
    EXPECT_GT(tightness / tried, 0.3);
  }
}

// A trial plays the step that repeats without the allocator: compiled, as the prediction is.
TEST_P(CompiledPlan, ATrialTakesWhatIsPredicted) {
  const Inputs inputs = plan_of(GetParam());
  const Basis basis(inputs);
  int compared = 0;
  for (const Choice& choice : drawn(choices_of(inputs, 8).choices, 80)) {
    if (is_pipelined(choice) || choice.micro_batches > 8 || choice.offload != Offload::none)
      continue;
    Summary predicted;
    try {
      predicted = predict(choice, basis.trials).summary;
    } catch (const Error&) {
      continue;
    }
    const Trial trial = try_out(choice, basis.trials);
    EXPECT_NEAR(trial.time.span.seconds() / predicted.step_time.seconds(), 1, 0.001)
        << text_of(choice);
    EXPECT_LE(trial.allocated, predicted.memory.peak_reserved) << text_of(choice);
    if (++compared == 6) return;
  }
  EXPECT_GT(compared, 2);
}

INSTANTIATE_TEST_SUITE_P(
    Planner, CompiledPlan,
    ::testing::Values(Kernels{"blocks", CompileScope::blocks},
                      Kernels{"blocks_and_loss", CompileScope::blocks_and_loss},
                      Kernels{"model", CompileScope::model},
                      Kernels{"tensorwise", CompileScope::none, Float8Recipe::tensorwise},
                      Kernels{"compiled_rowwise", CompileScope::blocks, Float8Recipe::rowwise},
                      Kernels{"torchtitan_blocks", CompileScope::blocks, Float8Recipe::none, true},
                      Kernels{"torchtitan_blocks_and_loss", CompileScope::blocks_and_loss,
                              Float8Recipe::none, true},
                      Kernels{"torchtitan_tensorwise", CompileScope::blocks,
                              Float8Recipe::tensorwise, true}),
    [](const auto& test) { return test.param.name; });

// Eager silu(gate) * up keeps silu's output, which a compiled block makes again.
TEST(CompiledChoice, TakesLessTimeAndMemoryThanEagerCode) {
  const Inputs eager = plan_of({"eager"}), compiled = plan_of({"blocks", CompileScope::blocks});
  const Basis of_eager(eager), of_compiled(compiled);
  Choice choice = tiny_choice();
  choice.mesh = {.shard = 8};
  const Trial slow = try_out(choice, of_eager.trials), fast = try_out(choice, of_compiled.trials);
  EXPECT_LT(fast.time.compute, slow.time.compute);
  EXPECT_LT(fast.allocated, slow.allocated);
}

// accelerate's file says it: the model as a whole, or its blocks one by one.
TEST(CompiledChoice, ItsFileSaysWhatIsCompiled) {
  const Inputs inputs = plan_of({"model", CompileScope::model});
  Choice choice = tiny_choice();
  choice.mesh = {.shard = 8};
  WrittenFrom from = written_from(inputs);
  EXPECT_THAT(written(choice, from).text,
              ::testing::AllOf(::testing::HasSubstr("dynamo_backend: INDUCTOR"),
                               ::testing::Not(::testing::HasSubstr("regional"))));
  from.compiled = CompileScope::blocks;
  EXPECT_THAT(written(choice, from).text,
              ::testing::HasSubstr("dynamo_use_regional_compilation: true"));
  from.compiled = CompileScope::none;
  EXPECT_THAT(written(choice, from).text, ::testing::Not(::testing::HasSubstr("dynamo")));
  choice.torchtitan = TorchtitanAxes{};
  from.compiled = CompileScope::blocks_and_loss;
  EXPECT_THAT(written(choice, from).text,
              ::testing::HasSubstr("[compile]\nenable = true\ncomponents = [\"model\", \"loss\"]"));
}

}  // namespace
}  // namespace shardscope::planner
