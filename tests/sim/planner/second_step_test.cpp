// The second step of torchtitan's pipelines, written down from the first, beside one that is run.
#include "sim/planner/second_step.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string>

#include "core/model/huggingface.h"
#include "sim/engine/rehearse.h"
#include "sim/planner/answer/basis.h"
#include "sim/planner/torchtitan_pipeline.h"
#include "tests/sim/planner/answer/tiny_plan.h"

namespace shardscope::planner {
namespace {

constexpr std::array both{"1", "steady"};
constexpr std::array first{"1"};

/// 8 blocks on two nodes of four ranks.
Inputs plan_of_pipelines() {
  Inputs inputs = tiny_plan();
  inputs.config = JsonValue::parse(R"({
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
    "hidden_size": 512, "intermediate_size": 1536, "max_position_embeddings": 4096,
    "num_attention_heads": 8, "num_hidden_layers": 8, "num_key_value_heads": 4,
    "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "tie_word_embeddings": false,
    "use_cache": false, "vocab_size": 4096})",
                                   "config.json");
  inputs.model = model_of_config(inputs.config);
  inputs.profile.ranks_per_node = 4;
  inputs.question.runtimes = {};
  inputs.question.torchtitan = true;
  inputs.question.world = 8;
  inputs.question.training.length = 512;
  inputs.question.tokens_per_batch = 16 * 512;
  return inputs;
}

/// One of each schedule, with and without replicas, an axis tensor, and parameters that are let go.
std::vector<Choice> pipelines(const Inputs& inputs) {
  std::vector<Choice> all;
  std::set<std::string> seen;
  for (const Choice& choice : choices_of(inputs, 8).choices) {
    if (choice.mesh.pipeline != 2 || choice.precision != TrainingPrecision::bf16_mixed) continue;
    const std::string kind =
        fmt::format("{} {} {} {}", name_of(choice.pipeline.schedule), choice.mesh.replicate > 1,
                    choice.torchtitan->tensor > 1, zero_stage(choice.sharding));
    if (seen.insert(kind).second) all.push_back(choice);
  }
  return all;
}

Schedule recorded(Choice choice, int micro_batches, const TrialInputs& inputs,
                  std::span<const char* const> steps) {
  choice.batch = 1;
  choice.micro_batches = micro_batches;
  return schedule_of_rank(torchtitan_pipeline(choice, inputs), 1, {.steps = steps});
}

// What few micro-batches say of the first step holds for many: the allocator then holds as much as
// of a second step that is run.
TEST(SecondStep, HoldsWhatTheRecordedOneHolds) {
  const Inputs inputs = plan_of_pipelines();
  const Basis basis(inputs);
  int written = 0;
  for (const Choice& choice : pipelines(inputs)) {
    SCOPED_TRACE(text_of(choice));
    const auto few = first_step_alone(recorded(choice, 8, basis.trials, both));
    const auto most = first_step_alone(recorded(choice, 12, basis.trials, both));
    ASSERT_TRUE(few);
    if (few != most) {
      // LoopedBFS alone is recorded whole.
      EXPECT_EQ(choice.pipeline.schedule, PipelineScheduleKind::looped_bfs);
      continue;
    }
    Schedule whole = recorded(choice, 32, basis.trials, first);
    ASSERT_TRUE(add_second_step(*most, whole));
    const Schedule run = recorded(choice, 32, basis.trials, both);
    EXPECT_EQ(whole.steps[1].actions, run.steps[1].actions);
    const Rehearsal of_written = rehearse(whole, inputs.profile);
    const Rehearsal of_run = rehearse(run, inputs.profile);
    EXPECT_EQ(of_written.reserved, of_run.reserved);
    EXPECT_EQ(of_written.out_of_memory, of_run.out_of_memory);
    // Just too little for the second step.
    const AllocatorChoice tight{.settings = {},
                                .memory = DeviceCapacity{.total = of_run.reserved - Bytes{1}}};
    EXPECT_EQ(rehearse(whole, inputs.profile, tight).out_of_memory,
              rehearse(run, inputs.profile, tight).out_of_memory);
    ++written;
  }
  EXPECT_GT(written, 15);
}

// Rows of the optimizer's states are of the first step alone: it has more of them.
TEST(SecondStep, IsShorterThanTheFirst) {
  const Inputs inputs = plan_of_pipelines();
  const Basis basis(inputs);
  const Schedule run = recorded(pipelines(inputs).front(), 8, basis.trials, both);
  const auto alone = first_step_alone(run);
  ASSERT_TRUE(alone);
  const auto rows = [&](std::size_t step) { return run.steps[step].actions.size(); };
  EXPECT_LT(rows(1), rows(0));
  EXPECT_GT(alone->last_rows, 0U);
}

// Nothing is behind the wait that the second step has beside the first.
TEST(SecondStep, IsNoneWhereTheLastRowWaitsForTheStepBefore) {
  const HostAction work{HostActionKind::dispatch, 0, 0}, made{HostActionKind::record_event, 0, 0},
      waits{HostActionKind::wait_event, 0, 0};
  Schedule schedule;
  schedule.program.events = 1;
  schedule.program.actions = {made, work, work, waits};
  schedule.steps = {{.label = "1", .operations = {}, .actions = {0, 2}},
                    {.label = "steady", .operations = {}, .actions = {2, 4}}};
  EXPECT_FALSE(first_step_alone(schedule));
}

TEST(SecondStep, IsNoneOfARecordingOfOneStep) {
  const Inputs inputs = plan_of_pipelines();
  const Basis basis(inputs);
  EXPECT_FALSE(first_step_alone(recorded(pipelines(inputs).front(), 8, basis.trials, first)));
}

}  // namespace
}  // namespace shardscope::planner
