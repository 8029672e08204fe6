// torchtitan's loop as choices: its words, the grids of axes that are enumerated, bounds that no
// simulation falls below, and files that lead back to the same figures.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "core/base/error.h"
#include "core/model/huggingface.h"
#include "sim/planner/answer/answer.h"
#include "sim/planner/answer/rounds.h"
#include "sim/planner/bounds.h"
#include "sim/planner/choice_json.h"
#include "sim/planner/estimate.h"
#include "sim/planner/torchtitan_pipeline.h"
#include "sim/planner/torchtitan_probe.h"
#include "sim/planner/written_choice.h"
#include "tests/core/complaint.h"
#include "tests/core/temporary_folder.h"
#include "tests/sim/planner/answer/tiny_plan.h"
#include "tests/sim/planner/bounds_hold.h"
#include "tests/sim/planner/equal_schedules.h"

namespace shardscope::planner {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::Not;

/// 16 blocks of 8 heads of keys and values.
constexpr std::string_view llama_of_16 = R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
  "hidden_size": 512, "intermediate_size": 1536, "max_position_embeddings": 4096,
  "num_attention_heads": 8, "num_hidden_layers": 16, "num_key_value_heads": 4,
  "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "tie_word_embeddings": false,
  "use_cache": false, "vocab_size": 4096})";

/// 4 blocks of Llama-3-8B.
constexpr std::string_view wide_llama = R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
  "hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 8192,
  "num_attention_heads": 32, "num_hidden_layers": 4, "num_key_value_heads": 8,
  "rms_norm_eps": 1e-05, "rope_theta": 500000.0, "tie_word_embeddings": false,
  "use_cache": false, "vocab_size": 128256})";

/// Two nodes of four ranks, 16 sequences of 512 tokens a step.
Inputs plan_of_axes() {
  Inputs inputs = tiny_plan();
  inputs.config = JsonValue::parse(llama_of_16, "config.json");
  inputs.model = model_of_config(inputs.config);
  inputs.profile.ranks_per_node = 4;
  inputs.question.runtimes = {};
  inputs.question.torchtitan = true;
  inputs.question.world = 8;
  inputs.question.training.length = 512;
  inputs.question.tokens_per_batch = 16 * 512;
  return inputs;
}

Choice choice_of_axes() {
  return {.runtime = Runtime::fsdp2,
          .sharding = ShardingStrategy::shard_grad_op,
          .mesh = {.pipeline = 2, .shard = 2},
          .pipeline = {.schedule = PipelineScheduleKind::interleaved_1f1b, .stages_per_rank = 2},
          .prefetch = Prefetch::pre,
          .batch = 2,
          .micro_batches = 4,
          .checkpointing = {.every = 2},
          .torchtitan = TorchtitanAxes{.context = 1, .tensor = 2}};
}

TEST(TorchtitanChoice, SaysItsAxes) {
  Choice choice = choice_of_axes();
  EXPECT_EQ(text_of(choice),
            "torchtitan pipeline 2 x shard 2 x tensor 2, Interleaved1F1B with 2 stages a rank, "
            "batch 2 x 4, parameters kept after forward, checkpointing every:2, bf16_mixed");
  EXPECT_EQ(world_of(choice), 8);
  choice.mesh = {.replicate = 2, .shard = 4};
  choice.sharding = ShardingStrategy::hybrid_shard;
  choice.torchtitan = {.context = 8, .tensor = 1};
  EXPECT_EQ(strategy_text(choice), "torchtitan replicate 2 x shard 4 x context 8");
  EXPECT_EQ(mesh_text(choice), "replicate=2,shard=4,context=8,tensor=1");
  EXPECT_EQ(world_of(choice), 64);
}

// The third of three steps is written down as a copy of the second. Of four steps it is run.
TEST(TorchtitanChoice, TheStepThatRepeatsIsTheRecordedOne) {
  static constexpr std::array three{"1", "2", "3"};
  static constexpr std::array four{"1", "2", "3", "4"};
  const Inputs inputs = plan_of_axes();
  const Basis basis(inputs);
  std::set<std::string> seen;
  for (const Choice& choice : choices_of(inputs, 8).choices) {
    if (choice.precision != TrainingPrecision::bf16_mixed || choice.micro_batches == 1) continue;
    const std::string kind =
        fmt::format("{} {} {} {} {} {}", name_of(choice.pipeline.schedule), choice.mesh.pipeline,
                    choice.mesh.replicate > 1, choice.torchtitan->context,
                    choice.torchtitan->tensor > 1, zero_stage(choice.sharding));
    if (!seen.insert(kind).second) continue;
    SCOPED_TRACE(text_of(choice));
    const TorchtitanPipeline pipeline = torchtitan_pipeline(choice, basis.trials);
    const int last = choice.mesh.pipeline - 1;
    expect_equal_up_to(2, schedule_of_rank(pipeline, last, {.steps = three}),
                       schedule_of_rank(pipeline, last, {.steps = four}));
  }
  EXPECT_GT(seen.size(), 20U);
}

TEST(TorchtitanChoice, IsReadBackFromItsJson) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "choice.json";
  std::string text = choice_json(choice_of_axes());
  std::ofstream(path) << text;
  EXPECT_EQ(read_choice(path), choice_of_axes());
  const std::string axis = ",tensor=2";
  text.replace(text.find(axis), axis.size(), ",tensor=0");
  std::ofstream(path) << text;
  EXPECT_THROW(read_choice(path), Error);
}

// torchtitan 01db32e, config/job_config.py: local_batch_size is a rank's, global_batch_size all
// ranks' with sequences of their own (replicate x shard).
TEST(TorchtitanChoice, ItsFileHasTorchtitansKeys) {
  const Job job{.seq = 128, .clip = 1};
  const Inputs inputs = plan_of_axes();
  Choice choice = choice_of_axes();
  const std::string stages = written(choice, {.job = job, .model = inputs.model}).text;
  EXPECT_THAT(stages, AllOf(HasSubstr("local_batch_size = 8\n"),
                            HasSubstr("pipeline_parallel_microbatch_size = 2\n"),
                            HasSubstr("tensor_parallel_degree = 2\n"),
                            HasSubstr("mode = \"selective\"\nselective_ac_option = \"2\"\n")));
  choice.mesh = {.replicate = 2, .shard = 2};
  choice.torchtitan = {.context = 2, .tensor = 1};
  const std::string whole = written(choice, {.job = job, .model = inputs.model}).text;
  EXPECT_THAT(whole,
              AllOf(HasSubstr("local_batch_size = 2\nglobal_batch_size = 32\n"),
                    HasSubstr("context_parallel_degree = 2\n"),
                    HasSubstr("data_parallel_replicate_degree = 2\n"), Not(HasSubstr("pipeline"))));
}

// 8 ranks on nodes of 4, 4 heads of keys and values: an axis tensor of 1, 2 or 4.
TEST(EnumerateTorchtitan, EveryGridOfTheRanksIsThere) {
  std::set<std::tuple<int, int, int>> grids;  // pipeline, context, tensor
  for (const Choice& choice : choices_of(plan_of_axes(), 8).choices) {
    EXPECT_EQ(world_of(choice), 8) << text_of(choice);
    const int copies = choice.mesh.replicate * choice.mesh.shard;
    EXPECT_EQ(choice.batch * choice.micro_batches * copies, 16) << text_of(choice);
    // FSDP2's mixed precision needs ranks that shard.
    EXPECT_GT(choice.mesh.shard * choice.torchtitan->context, 1) << text_of(choice);
    grids.emplace(choice.mesh.pipeline, choice.torchtitan->context, choice.torchtitan->tensor);
  }
  const std::set<std::tuple<int, int, int>> expected{{1, 1, 1}, {1, 2, 1}, {1, 4, 1}, {1, 8, 1},
                                                     {1, 1, 2}, {1, 2, 2}, {1, 4, 2}, {1, 1, 4},
                                                     {1, 2, 4}, {2, 1, 1}, {4, 1, 1}, {2, 1, 2}};
  EXPECT_EQ(grids, expected);
}

TEST(EnumerateTorchtitan, WhatThereIsNotIsSaid) {
  Inputs inputs = plan_of_axes();
  const std::vector<Dropped> dropped = choices_of(inputs, 8).dropped;
  EXPECT_THAT(dropped, Contains(Field(&Dropped::why, HasSubstr("inside a node of 4 ranks"))));
  EXPECT_THAT(dropped, Contains(Field(&Dropped::strategy, "torchtitan context beside pipeline")));
  // 64 ranks of one node, and 16 sequences.
  inputs.profile.ranks_per_node = 64;
  EXPECT_THAT(choices_of(inputs, 64).dropped,
              AllOf(Contains(Field(&Dropped::why, HasSubstr("4 key and value heads do not"))),
                    Contains(Field(&Dropped::why, HasSubstr("16 sequences of a step")))));
  inputs.question.tokens_per_batch += 1;
  EXPECT_THROW(choices_of(inputs, 8), Error);
}

// 16 sequences: 7 ranks share neither these nor 512 tokens. Of 16 a shard
// each is on 2, 4, 8 or 16 ranks; 21 sequences are 3 for each of 7.
TEST(EnumerateTorchtitan, NamesTheOptionWhereThereIsNoLayout) {
  Inputs inputs = plan_of_axes();
  const auto complaint = [&](int world) {
    return complaint_of([&] { choices_of(inputs, world); });
  };
  EXPECT_THAT(complaint(7),
              AllOf(HasSubstr("--world: 7 ranks have no layout under torchtitan: "),
                    HasSubstr("shard: 16 sequences of a step do not divide over the ranks"),
                    HasSubstr("context: 512 tokens of a sequence do not divide into two"),
                    HasSubstr("; give --tokens-per-batch 10752, or --world 4 or 8")));
  // 1 sequence of 510 tokens on 2 ranks: 510 are not 4 parts, and the 4 heads do divide.
  inputs.question.training.length = inputs.question.tokens_per_batch = 510;
  EXPECT_THAT(
      complaint(2),
      AllOf(HasSubstr("shard: 1 sequence of a step does not divide"),
            HasSubstr("context: 510 tokens of a sequence do not divide into two"),
            HasSubstr("tensor: alone, without ranks that shard data"), Not(HasSubstr("heads"))));
  inputs = plan_of_axes();
  EXPECT_THAT(complaint(1), HasSubstr("--world: torchtitan shares a training among 2 ranks"));
  inputs.question.precisions = {TrainingPrecision::fp16_mixed};
  EXPECT_THAT(complaint(8), HasSubstr("--precision: torchtitan has no loss scaler"));
  inputs = plan_of_axes();
  inputs.question.tokens_per_batch = std::int64_t{512} << 21;
  EXPECT_THAT(complaint(8), HasSubstr("--tokens-per-batch: 1073741824 tokens are 2097152 seq"));
  inputs = plan_of_axes();
  inputs.strategies = {ShardingStrategy::zero1};
  inputs.pipelines = PipelinesAsked::not_at_all;
  EXPECT_THAT(complaint(8), HasSubstr("--strategy: torchtitan has no zero1"));
}

// 2^15 sequences on 8 ranks: 4096 for each shard.
TEST(EnumerateTorchtitan, SaysThatManyMicroBatchesAreNotWeighed) {
  Inputs inputs = plan_of_axes();
  inputs.question.tokens_per_batch = std::int64_t{512} << 15;
  const Enumeration all = choices_of(inputs, 8);
  int most = 0;
  for (const Choice& choice : all.choices) most = std::max(most, choice.micro_batches);
  EXPECT_EQ(most, 2048);
  EXPECT_THAT(all.dropped, Contains(Field(&Dropped::why,
                                          "those of more than 2048 micro-batches a step are not "
                                          "weighed")));
}

// mixed_precision_reduce is float32, whatever training.dtype is.
TEST(TorchtitanChoice, ReducesBfloat16InFloat32) {
  const Inputs inputs = plan_of_axes();
  const Basis basis(inputs);
  Choice choice = choice_of_axes();
  choice.mesh = {.shard = 8};
  choice.torchtitan = TorchtitanAxes{};
  for (const auto precision : {TrainingPrecision::bf16, TrainingPrecision::bf16_mixed}) {
    choice.precision = precision;
    const Schedule schedule = schedule_of(choice, basis.trials);
    std::set<Dtype> gathered, reduced;
    for (const Operation& op : schedule.operations) {
      if (op.kind == OperationKind::all_gather)
        gathered.insert(schedule.collectives[op.detail].dtype);
      if (op.kind == OperationKind::reduce_scatter)
        reduced.insert(schedule.collectives[op.detail].dtype);
    }
    EXPECT_EQ(gathered, std::set{Dtype::bfloat16});
    EXPECT_EQ(reduced, std::set{Dtype::float32});
    EXPECT_THAT(written(choice, {.job = {.seq = 128}, .model = inputs.model}).text,
                HasSubstr("mixed_precision_param = \"bfloat16\"\n"));
  }
}

// Other models have no tensor-parallel plan in torchtitan's Llama.
TEST(EnumerateTorchtitan, RefusesWhatIsNoLlama) {
  Inputs inputs = plan_of_axes();
  inputs.model.decoder->rope = std::nullopt;
  EXPECT_THROW(choices_of(inputs, 8), Error);
}

TEST(TorchtitanBounds, AreNoHigherThanTrials) {
  Inputs inputs = plan_of_axes();
  inputs.question.precisions = {TrainingPrecision::bf16_mixed, TrainingPrecision::fp32,
                                TrainingPrecision::bf16};
  inputs.profile.memory = {};
  expect_bounds_hold(inputs, 40);
}

// A host that decides.
TEST(TorchtitanBounds, AreNoHigherThanTrialsOfASlowHost) {
  Inputs inputs = plan_of_axes();
  inputs.profile.memory = {};
  inputs.profile.host = HostCosts{.operation = Duration{50'000}, .view = {}, .backward = 0.5};
  expect_bounds_hold(inputs, 20);
}

// Compute and links that decide, on a GPU by its data sheet.
TEST(TorchtitanBounds, AreNoHigherThanTrialsOfABusyGpu) {
  Inputs inputs = plan_of_axes();
  inputs.profile = find_hardware_profile("h100_sxm", "--cluster");
  inputs.question.world = 16;
  inputs.question.training.length = 4096;
  inputs.question.tokens_per_batch = 32 * 4096;
  inputs.profile.memory = {};
  expect_bounds_hold(inputs, 24);
}

// While a kernel waits for an axis's collectives, those of FSDP2 slow nothing.
TEST(TorchtitanBounds, AreNoHigherThanTrialsWhereCollectivesSlowCompute) {
  Inputs inputs = plan_of_axes();
  inputs.profile = find_hardware_profile("h100_sxm", "--cluster");
  inputs.profile.compute_slowdown = 3;
  inputs.question.world = 32;
  inputs.question.training.length = 4096;
  inputs.question.tokens_per_batch = 32 * 4096;
  inputs.profile.memory = {};
  inputs.pipelines = PipelinesAsked::not_at_all;
  expect_bounds_hold(inputs, 40);
}

/// The question of a plan of Llama-3-8B's width on 32 GPUs, without pipelines.
Inputs plan_of_wide_axes() {
  Inputs inputs = plan_of_axes();
  inputs.profile = find_hardware_profile("h100_sxm", "--cluster");
  inputs.config = JsonValue::parse(wide_llama, "config.json");
  inputs.model = model_of_config(inputs.config);
  inputs.question.world = 32;
  inputs.question.training.length = 8192;
  inputs.question.tokens_per_batch = 64 * 8192;
  inputs.pipelines = PipelinesAsked::not_at_all;
  return inputs;
}

// Products of a GPU at work, whose time decides.
TEST(TorchtitanBounds, OfWideBlocksAreNoHigherThanTrials) {
  Inputs inputs = plan_of_wide_axes();
  inputs.question.precisions = {TrainingPrecision::bf16_mixed, TrainingPrecision::fp32,
                                TrainingPrecision::bf16};
  inputs.profile.memory = {};
  expect_bounds_hold(inputs, 40);
}

// Where every choice is tried out, the same ones win.
// 2^42 tokens x 4096 words x 512 columns x 2: 2^64 operations. A rank of an H100 has less than 2^51
// of them a second, and takes more than 2^13 s.
TEST(TorchtitanBounds, OfHugeBatchesDoNotOverflow) {
  const Inputs inputs = plan_of_axes();
  const Basis basis(inputs);
  Choice choice = choice_of_axes();
  choice.mesh = {.shard = 8};
  choice.pipeline = {};
  choice.torchtitan = TorchtitanAxes{};
  choice.micro_batches = 1;
  choice.batch = std::int64_t{1} << 33;
  const Bounds bounds = floors_of(std::vector{choice}, basis.trials, 1).front();
  EXPECT_GT(bounds.time.seconds(), 1 << 11);  // counts end at 2^62
  EXPECT_GT(bounds.memory, Bytes{std::int64_t{1} << 42});
}

TEST(TorchtitanSearch, FindsWhatIsBestOfAll) {
  Inputs inputs = plan_of_wide_axes();
  inputs.profile.memory = 40_GiB;
  const Basis basis(inputs);
  const std::vector<Choice> choices = choices_of(inputs, inputs.question.world).choices;
  const auto winners = [&](bool screen) {
    std::vector<std::string> texts;
    for (const Ranked& ranked :
         search(choices, basis.trials, {.places = 5, .kind = kind_of, .screen = screen}).ranked)
      texts.push_back(text_of(choices[ranked.choice]));
    return texts;
  };
  EXPECT_EQ(winners(true), winners(false));
}

// Both compute in bfloat16, and only one keeps float32 gradients whole.
TEST(TorchtitanBounds, DoNotDependOnTheOthersThatAreBounded) {
  const Inputs inputs = plan_of_axes();
  const Basis basis(inputs);
  Choice mixed = choice_of_axes();
  mixed.pipeline = {.schedule = PipelineScheduleKind::one_f_one_b};
  Choice plain = mixed;
  plain.precision = TrainingPrecision::bf16;
  const Bytes alone = bounds_of(std::vector{plain}, basis.trials, 0).front().memory;
  EXPECT_EQ(bounds_of(std::vector{mixed, plain}, basis.trials, 0).back().memory, alone);
}

// Of torchtitan's 32 micro-batches 4 and 6 are played, or 8 and 12; of fsdp2's pipeline, which is
// the same without an axis tensor, all.
TEST(TorchtitanTrials, OfManyMicroBatchesFollowFromFew) {
  Inputs inputs = plan_of_axes();
  inputs.profile = find_hardware_profile("h100_sxm", "--cluster");
  inputs.profile.memory = {};  // a trial that does not fit has no time
  inputs.question.training.length = 4096;
  // Of Llama-3-8B's width: the device decides, not the host.
  inputs.config = JsonValue::parse(wide_llama, "config.json");
  inputs.model = model_of_config(inputs.config);
  const Basis basis(inputs);
  for (const int stages : {1, 2}) {
    Choice choice = choice_of_axes();
    choice.torchtitan = TorchtitanAxes{};
    choice.pipeline.stages_per_rank = stages;
    if (stages == 1) choice.pipeline.schedule = PipelineScheduleKind::one_f_one_b;
    choice.checkpointing = {};
    choice.batch = 1;
    choice.micro_batches = 32;
    const Trial few = try_out(choice, basis.trials);
    const Trial estimate = estimated(choice, basis.trials).value();
    Choice whole = choice;
    whole.torchtitan = std::nullopt;
    const Trial all = try_out(whole, basis.trials);
    EXPECT_NEAR(few.time.span.seconds() / all.time.span.seconds(), 1, 0.005) << text_of(choice);
    const double memory =
        static_cast<double>(few.needed().count) / static_cast<double>(all.needed().count);
    EXPECT_LE(memory, 1.001) << text_of(choice);
    EXPECT_GE(memory, 0.9) << text_of(choice);
    EXPECT_NEAR(estimate.time.span.seconds() / all.time.span.seconds(), 1, 0.1) << text_of(choice);
    EXPECT_LE(estimate.needed(), all.needed()) << text_of(choice);
  }
}

/// Pipelines of Llama-3-8B's width on 16 GPUs.
Inputs plan_of_wide_pipelines() {
  Inputs inputs = plan_of_wide_axes();
  std::string config(wide_llama);
  const std::string layers = "\"num_hidden_layers\": 4";
  config.replace(config.find(layers), layers.size(), "\"num_hidden_layers\": 8");
  inputs.config = JsonValue::parse(config, "config.json");
  inputs.model = model_of_config(inputs.config);
  inputs.question.world = 16;
  inputs.question.training.length = 4096;
  inputs.question.tokens_per_batch = 64 * 4096;
  inputs.pipelines = PipelinesAsked::beside;
  inputs.profile.memory = {};
  return inputs;
}

std::vector<Choice> drawn_pipelines(const Inputs& inputs, std::size_t count) {
  std::vector<Choice> all = choices_of(inputs, inputs.question.world).choices;
  std::erase_if(all, [](const Choice& choice) { return !is_pipelined(choice); });
  return drawn(std::move(all), count);
}

// Their stages are recorded once, with few blocks, and not in the order of the pipeline.
TEST(TorchtitanEstimates, AreNearTrials) {
  const Inputs inputs = plan_of_wide_pipelines();
  const Basis basis(inputs);
  for (const Choice& choice : drawn_pipelines(inputs, 24)) {
    const Trial trial = try_out(choice, basis.trials);
    const Trial estimate = estimated(choice, basis.trials).value();
    const double time = estimate.time.span.seconds() / trial.time.span.seconds();
    const double memory =
        static_cast<double>(estimate.needed().count) / static_cast<double>(trial.needed().count);
    const std::string text =
        fmt::format("{}: {:.3f} of the time, {:.3f} of the memory", text_of(choice), time, memory);
    EXPECT_NEAR(time, 1, 0.15) << text;
    EXPECT_LE(memory, 1.02) << text;
    // Low ones cost a trial, and no place.
    EXPECT_GE(memory, 0.5) << text;
  }
}

// Pipelines of one key differ in replicas, ranks and order alone: each says the same of its stages.
TEST(TorchtitanProbes, AreTheSameForAllOfAKey) {
  const Inputs inputs = plan_of_wide_pipelines();
  const Basis basis(inputs);
  std::map<ProbeKey, std::pair<std::string, StageChunks>> known;
  int shared = 0;
  for (const Choice& choice : drawn_pipelines(inputs, 80)) {
    const StageChunks found = probed_stages(choice, basis.trials).of(ProbedStages::Kind::middle, 3);
    const auto [at, is_new] =
        known.try_emplace(probe_key(choice), std::pair(text_of(choice), found));
    if (is_new) continue;
    ++shared;
    const StageChunks& other = at->second.second;
    const std::string text = text_of(choice) + " and " + at->second.first;
    EXPECT_EQ(found.time.forward, other.time.forward) << text;
    EXPECT_EQ(found.time.input_backward, other.time.input_backward) << text;
    EXPECT_EQ(found.time.weight_backward, other.time.weight_backward) << text;
    EXPECT_EQ(found.forward.change, other.forward.change) << text;
    EXPECT_EQ(found.input_backward.most, other.input_backward.most) << text;
    EXPECT_EQ(found.by_first_backward, other.by_first_backward) << text;
  }
  EXPECT_GT(shared, 0);
}

// By hand: each stage keeps 10 of a micro-batch, and 4 more live while it runs. The first forward
// leaves 100 behind, the first backward 50. In the order F0 F1 B0 B1 there are 10 + 100 + 50 when
// B1 begins, and 4 more while it runs.
TEST(TorchtitanProbes, AddUpWhatLivesInARanksOrder) {
  const StageChunks stage{.time = {},
                          .forward = {10_B, 14_B},
                          .input_backward = {Bytes{-10}, 4_B},
                          .weight_backward = {},
                          .by_first_forward = 100_B,
                          .by_first_backward = 50_B};
  const auto at = [](ActionKind kind, int micro_batch) { return Action{kind, 0, micro_batch}; };
  const ActionOrder order{at(ActionKind::forward, 0), at(ActionKind::forward, 1),
                          at(ActionKind::full_backward, 0), at(ActionKind::full_backward, 1)};
  EXPECT_EQ(most_live(order, {stage}), 164_B);
}

}  // namespace
}  // namespace shardscope::planner
