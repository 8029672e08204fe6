// Pipelines as choices: their words, what is enumerated, and that their figures are the
// simulator's.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <numeric>
#include <set>
#include <string>

#include "core/base/error.h"
#include "core/model/huggingface.h"
#include "core/native/job.h"
#include "sim/planner/answer/answer.h"
#include "sim/planner/answer/reasons.h"
#include "sim/planner/bounds.h"
#include "sim/planner/choice_json.h"
#include "sim/planner/enumerate_pipelines.h"
#include "sim/planner/pipeline_layers.h"
#include "sim/planner/pipeline_trial.h"
#include "sim/planner/written_choice.h"
#include "tests/core/small_models.h"
#include "tests/core/temporary_folder.h"
#include "tests/sim/planner/answer/tiny_plan.h"
#include "tests/sim/planner/question.h"

namespace shardscope::planner {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

using enum PipelineScheduleKind;

/// Of a step of so many sequences.
Enumeration pipelines(int blocks, int world, std::int64_t sequences) {
  const Question of = question({Runtime::native}, world, sequences * 8);
  return enumerate_pipelines(testing::small_llama(blocks), of, Runtime::native, of.precisions);
}

Choice pipeline_choice() {
  return {.sharding = ShardingStrategy::full_shard,
          .mesh = {.pipeline = 2, .shard = 4},
          .pipeline = {.schedule = interleaved_1f1b, .stages_per_rank = 2},
          .prefetch = Prefetch::both,
          .batch = 2,
          .micro_batches = 8,
          .precision = TrainingPrecision::fp32};
}

TEST(PipelineChoice, SaysScheduleStagesAndWhatIsInside) {
  Choice choice = pipeline_choice();
  EXPECT_EQ(text_of(choice),
            "native Interleaved1F1B pipeline of 2 x 2, full_shard inside, batch 2 x 8, fp32");
  choice.mesh = {.pipeline = 4};
  choice.sharding = ShardingStrategy::no_shard;
  choice.pipeline = {.schedule = gpipe,
                     .balance = StageBalance::work,
                     .checkpoint = PipelineCheckpoint::except_last};
  EXPECT_EQ(text_of(choice),
            "native GPipe pipeline of 4, batch 2 x 8, layers by work, stages checkpointed "
            "except_last, fp32");
}

TEST(PipelineChoice, IsReadBackFromItsJson) {
  const TemporaryFolder folder;
  for (const Choice& choice : {pipeline_choice(), tiny_choice()}) {
    std::ofstream(folder.path() / "choice.json") << choice_json(choice);
    EXPECT_EQ(read_choice(folder.path() / "choice.json"), choice);
  }
}

TEST(PipelineChoice, TheJobSaysAllOfIt) {
  Job job;
  job.model = "model";
  const Model model = testing::small_llama(4);
  const WrittenChoice file = written(pipeline_choice(), {.job = job, .model = model});
  EXPECT_THAT(file.text,
              AllOf(HasSubstr("\"Interleaved1F1B\""), HasSubstr("\"stages_per_rank\": 2"),
                    HasSubstr("\"accumulate\": 8"), HasSubstr("\"ranks\": 8"),
                    HasSubstr("\"data\": [\n    \"data\"\n  ]")));
}

// 12 ranks, 8 blocks: 2, 3, 4 and 6 stages; two stages a rank on 2, 3 and 4 of them. 12 stages are
// too many.
TEST(EnumeratePipelines, StagesDivideTheRanksAndTheLayersSuffice) {
  std::set<int> single, interleaved;
  const Enumeration all = pipelines(8, 12, 144);
  for (const Choice& choice : all.choices) {
    EXPECT_EQ(choice.mesh.world(), 12) << text_of(choice);
    if (choice.pipeline.schedule == one_f_one_b) single.insert(choice.mesh.pipeline);
    if (choice.pipeline.schedule == interleaved_1f1b) interleaved.insert(choice.mesh.pipeline);
  }
  EXPECT_THAT(single, ElementsAre(2, 3, 4, 6));
  EXPECT_THAT(interleaved, ElementsAre(2, 3, 4));
  EXPECT_THAT(all.dropped, Contains(Field(&Dropped::why, HasSubstr("the model's 8 layers"))));
}

// 16 sequences a step on 4 ranks: each stage of 2 has 8 of them for each of its ranks, as 2, 4 or 8
// micro-batches; of 4 stages 16, as 4, 8 or 16. All take the tokens that were asked for.
TEST(EnumeratePipelines, MicroBatchesAreAtLeastAsManyAsTheStages) {
  std::set<int> of_two, of_four;
  for (const Choice& choice : pipelines(4, 4, 16).choices) {
    const int copies = choice.mesh.replicate * choice.mesh.shard;
    EXPECT_EQ(choice.batch * choice.micro_batches * copies, 16) << text_of(choice);
    if (choice.pipeline.schedule == one_f_one_b)
      (choice.mesh.pipeline == 2 ? of_two : of_four).insert(choice.micro_batches);
  }
  EXPECT_THAT(of_two, ElementsAre(2, 4, 8));
  EXPECT_THAT(of_four, ElementsAre(4, 8, 16));
}

// The two ranks of a stage share parameters, gradients or states as two ranks can.
TEST(EnumeratePipelines, EveryShardingThatTheRanksOfAStageCanHaveIsInside) {
  std::set<std::string_view> inside;
  for (const Choice& choice : pipelines(4, 4, 16).choices)
    if (choice.mesh.pipeline == 2) inside.insert(name_of(choice.sharding));
  EXPECT_THAT(inside, ElementsAre("full_shard", "no_shard", "shard_grad_op", "zero1"));
}

TEST(EnumeratePipelines, StagesRunAgainUnderGpipeAlone) {
  for (const Choice& choice : pipelines(4, 2, 8).choices)
    if (choice.pipeline.checkpoint != PipelineCheckpoint::never) {
      EXPECT_EQ(choice.pipeline.schedule, gpipe);
      EXPECT_EQ(choice.checkpointing, eager::CheckpointChoice{});
    }
}

TEST(EnumeratePipelines, WhatThereIsNotIsSaid) {
  const Enumeration alone = pipelines(4, 1, 8);
  EXPECT_THAT(alone.choices, IsEmpty());
  EXPECT_THAT(alone.dropped,
              ElementsAre(Dropped{"native pipeline", "a pipeline needs 2 ranks or more"}));
  // 1024 sequences on 2 ranks: 1024 micro-batches in 2 stages are 2048 forwards, and 4096 in 4.
  const Enumeration many = pipelines(4, 2, 1024);
  for (const Choice& choice : many.choices)
    EXPECT_LE(choice.micro_batches * choice.mesh.pipeline * choice.pipeline.stages_per_rank, 2048);
  EXPECT_THAT(many.dropped, Contains(Field(&Dropped::why, HasSubstr("more than 2048 forwards"))));
}

/// Four ranks that may be stages, four sequences each, fp32.
Inputs native_plan() {
  Inputs inputs = tiny_plan();
  inputs.question.runtimes = {Runtime::native};
  inputs.question.precisions = {TrainingPrecision::fp32};
  inputs.question.tokens_per_batch = 4 * 4 * 64;
  inputs.job.model = "model";
  return inputs;
}

TEST(PlanOfPipelines, TheyStandAmongThePlacesWithTheirBubble) {
  Inputs inputs = native_plan();
  inputs.places = 50;
  const Answer all = answer(inputs, {});
  std::set<std::string> kinds;
  for (const Candidate& place : all.candidates) {
    if (!is_pipelined(place.choice)) continue;
    kinds.insert(kind_of(place.choice));
    const auto& pipeline = place.summary.pipeline;
    ASSERT_TRUE(pipeline);
    EXPECT_EQ(pipeline->micro_batches, place.choice.micro_batches);
    EXPECT_GT(pipeline->bubble_share, 0);
    EXPECT_LT(pipeline->bubble_share, 1);
    // What is shown is the rank that needs most.
    for (const StageSummary& rank : pipeline->ranks)
      EXPECT_LE(rank.reserved, place.summary.memory.peak_reserved);
  }
  EXPECT_THAT(kinds, ElementsAre("native 1F1B pipeline", "native GPipe pipeline",
                                 "native InterleavedZeroBubble pipeline"));
}

TEST(PlanOfPipelines, ThePlacesFiguresAreThoseOfTheirTrials) {
  Inputs inputs = native_plan();
  inputs.pipelines = PipelinesAsked::alone;
  const Basis basis(inputs);
  for (const Candidate& place : answer(inputs, {}).candidates) {
    const Trial trial = try_out(place.choice, basis.trials);
    EXPECT_EQ(trial.time.span, place.summary.step_time) << text_of(place.choice);
    EXPECT_LE(trial.allocated, place.summary.memory.peak_reserved) << text_of(place.choice);
    EXPECT_EQ(simulate_fully(place.choice, basis.trials).reserved,
              place.summary.memory.peak_reserved)
        << text_of(place.choice);
  }
}

/// Four blocks of 53,248 elements in products, and a head of 2,048,000.
constexpr std::string_view large_head = R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
  "hidden_size": 64, "intermediate_size": 192, "max_position_embeddings": 256,
  "num_attention_heads": 4, "num_hidden_layers": 4, "num_key_value_heads": 4,
  "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "tie_word_embeddings": false,
  "use_cache": false, "vocab_size": 32000})";

// The head takes longer than all blocks: the last stage has as few of them as may be.
TEST(PlanOfPipelines, LayersAreDealtOutByTime) {
  Inputs inputs = native_plan();
  inputs.model = model_of_config(JsonValue::parse(large_head, "config.json"));
  const Basis basis(inputs);
  std::vector<Choice> choices = choices_of(inputs, 4).choices;
  const std::size_t before = choices.size();
  add_layers_by_time(choices, basis.trials, 0, {});
  EXPECT_GT(choices.size(), before);
  int lists = 0;
  for (const Choice& choice : choices) {
    const std::vector<int>& layers = choice.pipeline.layers;
    if (layers.empty() || choice.pipeline.schedule != one_f_one_b) continue;
    ++lists;
    EXPECT_EQ(std::accumulate(layers.begin(), layers.end(), 0), 4);
    EXPECT_LE(layers.back(), 1);
    EXPECT_THAT(text_of(choice), HasSubstr("layers " + text_of_stages(choice.pipeline)));
  }
  EXPECT_GT(lists, 0);
}

// A stage that runs its forward again does not run head and loss again, which take longer here than
// all of its blocks.
TEST(PlanOfPipelines, BoundsOfStagesThatRunAgainAreNoHigherThanTrials) {
  Inputs inputs = native_plan();
  inputs.model = model_of_config(JsonValue::parse(large_head, "config.json"));
  const Basis basis(inputs);
  std::vector<Choice> choices = choices_of(inputs, 4).choices;
  std::erase_if(choices, [](const Choice& choice) {
    return choice.pipeline.checkpoint == PipelineCheckpoint::never;
  });
  ASSERT_FALSE(choices.empty());
  const std::vector<Bounds> bounds = bounds_of(choices, basis.trials, 0);
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const Trial trial = try_out(choices[i], basis.trials);
    EXPECT_LE(bounds[i].time, trial.time.span) << text_of(choices[i]);
    EXPECT_LE(bounds[i].memory, trial.needed()) << text_of(choices[i]);
  }
}

/// The same of fsdp2, whose pipelines torchtitan runs.
Inputs torchtitan_plan() {
  Inputs inputs = native_plan();
  inputs.question.runtimes = {Runtime::fsdp2};
  inputs.question.precisions = {TrainingPrecision::bf16_mixed, TrainingPrecision::fp32};
  inputs.pipelines = PipelinesAsked::alone;
  return inputs;
}

// Three blocks on four ranks: pipelines of 2 alone, with one stage a rank. Mixed precision is
// FSDP2's.
TEST(PlanOfPipelines, OfTorchtitanAreThoseThatItRuns) {
  const Enumeration all = choices_of(torchtitan_plan(), 4);
  std::set<PipelineScheduleKind> schedules;
  std::set<std::string_view> inside;
  for (const Choice& choice : all.choices) {
    EXPECT_EQ(choice.runtime, Runtime::fsdp2);
    EXPECT_EQ(choice.mesh, (Mesh{.pipeline = 2, .shard = 2}));
    schedules.insert(choice.pipeline.schedule);
    inside.insert(name_of(choice.sharding));
  }
  EXPECT_THAT(schedules, ElementsAre(gpipe, one_f_one_b, interleaved_zero_bubble));
  EXPECT_THAT(inside, ElementsAre("full_shard", "shard_grad_op"));
  for (const Choice& choice : all.choices) {
    if (choice.pipeline.schedule != interleaved_zero_bubble) continue;
    EXPECT_EQ(name_of(choice.sharding), "shard_grad_op");
    EXPECT_EQ(choice.checkpointing, eager::CheckpointChoice{});
  }
  EXPECT_THAT(all.dropped, Contains(Field(&Dropped::why, HasSubstr("loses gradients"))));
  EXPECT_THAT(all.dropped, Contains(Field(&Dropped::why, HasSubstr("for each of their weights"))));
  const std::string text = text_of(all.choices.front());
  EXPECT_THAT(text, HasSubstr("fsdp2 GPipe pipeline of 2, full_shard inside, batch 4 x 2"));
}

// A rank without another one in its stage has no FSDP2, and so no mixed precision.
TEST(PlanOfPipelines, OfTorchtitanHaveMixedPrecisionOnlyUnderFsdp2) {
  Inputs inputs = torchtitan_plan();
  inputs.question.tokens_per_batch = 2 * 4 * 64;
  const Enumeration all = choices_of(inputs, 2);
  ASSERT_FALSE(all.choices.empty());
  for (const Choice& choice : all.choices) EXPECT_EQ(choice.precision, TrainingPrecision::fp32);
  EXPECT_THAT(all.dropped, Contains(Field(&Dropped::why, HasSubstr("only with FSDP2"))));
}

void expect_bounds_below_trials(const Inputs& inputs) {
  const Basis basis(inputs);
  const std::vector<Choice> choices = choices_of(inputs, 4).choices;
  ASSERT_FALSE(choices.empty());
  const std::vector<Bounds> bounds = bounds_of(choices, basis.trials, 0);
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const Trial trial = try_out(choices[i], basis.trials);
    EXPECT_GT(bounds[i].time, Duration{}) << text_of(choices[i]);
    EXPECT_LE(bounds[i].time, trial.time.span) << text_of(choices[i]);
    EXPECT_LE(bounds[i].memory, trial.needed()) << text_of(choices[i]);
  }
}

TEST(PlanOfPipelines, BoundsOfTorchtitansAreNoHigherThanTrials) {
  Inputs inputs = torchtitan_plan();
  expect_bounds_below_trials(inputs);
  // A host that decides, and whose backward is twice as fast as its forward.
  inputs.profile.host = HostCosts{.operation = Duration{100'000}, .view = {}, .backward = 0.5};
  expect_bounds_below_trials(inputs);
}

// Four blocks: two stages a rank as well.
TEST(PlanOfPipelines, BoundsOfTorchtitansWithSeveralStagesAreNoHigherThanTrials) {
  Inputs inputs = torchtitan_plan();
  inputs.model = model_of_config(JsonValue::parse(large_head, "config.json"));
  const std::vector<Choice> choices = choices_of(inputs, 4).choices;
  EXPECT_TRUE(std::ranges::any_of(
      choices, [](const Choice& one) { return one.pipeline.stages_per_rank == 2; }));
  expect_bounds_below_trials(inputs);
}

TEST(PlanOfPipelines, TheyAreLeftOutOrAskedForAlone) {
  Inputs inputs = native_plan();
  const auto count = [&] {
    return std::ranges::count_if(choices_of(inputs, 4).choices, is_pipelined);
  };
  const auto all = static_cast<std::ptrdiff_t>(choices_of(inputs, 4).choices.size());
  EXPECT_GT(count(), 0);
  EXPECT_LT(count(), all);
  inputs.pipelines = PipelinesAsked::alone;
  EXPECT_EQ(count(), static_cast<std::ptrdiff_t>(choices_of(inputs, 4).choices.size()));
  inputs.pipelines = PipelinesAsked::not_at_all;
  EXPECT_EQ(count(), 0);
  inputs.pipelines = PipelinesAsked::alone;
  EXPECT_THROW(choices_of(inputs, 1), Error);
  inputs.question.runtimes = {Runtime::ddp};
  EXPECT_THROW(choices_of(inputs, 4), Error);
}

TEST(PlanOfPipelines, ThoseOfTorchtitanAreWeighedOnlyWhereAsked) {
  Inputs inputs = torchtitan_plan();
  const auto count = [&] {
    return std::ranges::count_if(choices_of(inputs, 4).choices, is_pipelined);
  };
  EXPECT_GT(count(), 0);
  inputs.pipelines = PipelinesAsked::beside;
  EXPECT_GT(count(), 0);
  inputs.pipelines = PipelinesAsked::as_usual;
  EXPECT_EQ(count(), 0);
}

/// 100 ms, of which a mean of 30 are compute and 70 the bubble; the one rank that is shown computes
/// 40 ms.
Summary with_a_bubble() {
  Summary summary = summary_with({40, 0, 4_GiB});
  summary.time.idle = 60_ms;
  summary.step_time = summary.time.span = 100_ms;
  summary.pipeline = PipelineSummary{.schedule = "1F1B", .bubble_share = 0.7};
  summary.pipeline->ranks = {{.rank = 0, .stages = {0}, .compute = 40_ms, .idle = 60_ms},
                             {.rank = 1, .stages = {1}, .compute = 20_ms, .idle = 80_ms}};
  return summary;
}

TEST(WhyNotBest, TheBubbleDecidesWhereItGrewMost) {
  EXPECT_EQ(why_not_best(summary_with({60, 20, 4_GiB}), with_a_bubble(), Objective::time),
            "25.0% slower: 70.0 ms more bubble (70.0% of its step); as much memory");
}

}  // namespace
}  // namespace shardscope::planner
