// Pipelines that really train, beside one process.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "core/format/json_reader.h"
#include "core/model/model_weights.h"
#include "core/model/read_model.h"
#include "tests/backend/train/tiny_models.h"
#include "tests/backend/train/training_fixture.h"

namespace shardscope {
namespace {

struct PipelinedRun {
  std::string_view name;
  std::string_view config;
  Mesh mesh;
  PipelineChoice pipeline;
  ShardingStrategy sharding = ShardingStrategy::no_shard;
  Precision precision = Precision::fp32;
  int sequences = 4;  ///< of a step
};
void PrintTo(const PipelinedRun& run, std::ostream* out) {
  *out << run.name << ' ' << text_of(run.mesh) << ' ' << name_of(run.pipeline.schedule) << ' '
       << name_of(run.sharding);
}

class PipelineTest : public TrainingFixture, public ::testing::WithParamInterface<PipelinedRun> {
 protected:
  static std::vector<float> weights_of(const Job& job, const Model& model, ParameterId parameter) {
    std::vector<float> values(
        static_cast<std::size_t>(model.parameters[parameter.value].elements()));
    ModelWeights(job.output / "model", model).read(parameter, 0, values);
    return values;
  }
};

// In the pipeline each sequence of a step is a micro-batch, among the ranks of a stage.
TEST_P(PipelineTest, LossesNormsAndWeightsAreThoseOfOneProcess) {
  const PipelinedRun& run = GetParam();
  Job alone = job(run.config, 1, ShardingStrategy::no_shard, "alone");
  alone.steps = 30;
  alone.batch = run.sequences;
  alone.strategy.precision = run.precision;
  Job pipelined = job(run.config, 1, run.sharding, "pipelined");
  pipelined.steps = 30;
  pipelined.batch = 1;
  pipelined.accumulate = run.sequences / (run.mesh.replicate * run.mesh.shard);
  pipelined.ranks = run.mesh.world();
  pipelined.strategy.mesh = run.mesh;
  pipelined.strategy.precision = run.precision;
  pipelined.pipeline = run.pipeline;
  const auto expected = run_forked(alone);
  const auto got = run_forked(pipelined);
  ASSERT_EQ(got.size(), expected.size());
  const double rounding = run.precision == Precision::fp32 ? 1e-5 : 0.02;
  for (std::size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(got[i], expected[i], rounding * expected[i]) << i / 2;
  if (run.precision != Precision::fp32) return;
  const Model model = read_model(pipelined.output / "model");
  for (std::size_t i = 0; i < model.parameters.size(); ++i) {
    const auto a = weights_of(pipelined, model, ParameterId::of(i));
    const auto b = weights_of(alone, model, ParameterId::of(i));
    for (std::size_t e = 0; e < a.size(); e += 7)
      ASSERT_NEAR(a[e], b[e], 2e-3) << model.parameters[i].name << '[' << e << ']';
  }
}

constexpr auto gpipe = PipelineScheduleKind::gpipe;
constexpr auto interleaved = PipelineScheduleKind::interleaved_1f1b;
constexpr auto looped_bfs = PipelineScheduleKind::looped_bfs;
constexpr auto zero_bubble = PipelineScheduleKind::interleaved_zero_bubble;
constexpr auto zbv = PipelineScheduleKind::zbv_zero_bubble;
constexpr auto dualpipev = PipelineScheduleKind::dualpipev;

INSTANTIATE_TEST_SUITE_P(
    TinyModels, PipelineTest,
    ::testing::Values(
        PipelinedRun{"gpt2", tiny_gpt2, {.pipeline = 2}, {}},
        PipelinedRun{"gpt2", tiny_gpt2, {.pipeline = 3}, {.schedule = gpipe}},
        PipelinedRun{"llama", tiny_llama, {.pipeline = 2}, {.schedule = gpipe}},
        PipelinedRun{"llama", tiny_llama, {.pipeline = 3}, {}},
        PipelinedRun{"llama",
                     tiny_llama,
                     {.pipeline = 2},
                     {.schedule = interleaved, .stages_per_rank = 2, .layers = {1, 1, 1, 0}}},
        PipelinedRun{"gpt2",
                     tiny_gpt2,
                     {.pipeline = 2},
                     {.schedule = looped_bfs, .stages_per_rank = 2, .layers = {0, 1, 1, 1}}},
        PipelinedRun{"gpt2", tiny_gpt2, {.pipeline = 2}, {.schedule = zero_bubble}},
        PipelinedRun{"llama", tiny_llama, {.pipeline = 3}, {.schedule = zero_bubble}},
        PipelinedRun{"llama",
                     tiny_llama,
                     {.pipeline = 2},
                     {.schedule = zero_bubble, .stages_per_rank = 2, .layers = {1, 1, 1, 0}}},
        PipelinedRun{"gpt2",
                     tiny_gpt2,
                     {.pipeline = 2},
                     {.schedule = zbv, .stages_per_rank = 2, .layers = {1, 1, 1, 0}}},
        PipelinedRun{"llama",
                     tiny_llama,
                     {.pipeline = 2},
                     {.schedule = zbv, .stages_per_rank = 2, .layers = {0, 1, 1, 1}}},
        PipelinedRun{"gpt2",
                     tiny_gpt2,
                     {.pipeline = 2},
                     {.schedule = dualpipev, .stages_per_rank = 2, .layers = {1, 1, 1, 0}}},
        PipelinedRun{"llama",
                     tiny_llama,
                     {.pipeline = 2, .shard = 2},
                     {.schedule = zero_bubble},
                     ShardingStrategy::full_shard},
        PipelinedRun{"gpt2",
                     tiny_gpt2,
                     {.pipeline = 2, .shard = 2},
                     {.schedule = zero_bubble},
                     ShardingStrategy::zero1},
        PipelinedRun{"gpt2",
                     tiny_gpt2,
                     {.pipeline = 2, .shard = 2},
                     {.schedule = zero_bubble},
                     ShardingStrategy::shard_grad_op},
        PipelinedRun{"gpt2", tiny_gpt2, {.pipeline = 2, .replicate = 2}, {}},
        PipelinedRun{
            "gpt2", tiny_gpt2, {.pipeline = 2, .shard = 2}, {}, ShardingStrategy::full_shard},
        PipelinedRun{"llama",
                     tiny_llama,
                     {.pipeline = 2, .shard = 2},
                     {.schedule = gpipe},
                     ShardingStrategy::full_shard},
        PipelinedRun{"llama", tiny_llama, {.pipeline = 2, .shard = 2}, {}, ShardingStrategy::zero1},
        PipelinedRun{
            "gpt2", tiny_gpt2, {.pipeline = 2, .shard = 2}, {}, ShardingStrategy::shard_grad_op},
        PipelinedRun{"gpt2",
                     tiny_gpt2,
                     {.pipeline = 2},
                     {},
                     ShardingStrategy::no_shard,
                     Precision::bf16_mixed}));

constexpr PipelineScheduleKind all_schedules[] = {
    gpipe, PipelineScheduleKind::one_f_one_b, interleaved, looped_bfs, zero_bubble, zbv, dualpipev};

/// Two stages a rank where the schedule takes them; the tiny models have three layers.
PipelineChoice choice_of(PipelineScheduleKind kind) {
  if (has_single_stage(kind) || kind == zero_bubble) return {.schedule = kind};
  return {.schedule = kind, .stages_per_rank = 2, .layers = {1, 1, 1, 0}};
}

/// Two models under each schedule: on two processes, and on four with FSDP inside a stage.
std::vector<PipelinedRun> runs_of_all_schedules() {
  std::vector<PipelinedRun> runs;
  for (const auto& [name, config] : {std::pair("gpt2", tiny_gpt2), std::pair("llama", tiny_llama)})
    for (const PipelineScheduleKind kind : all_schedules)
      for (const int shards : {1, 2})
        runs.push_back(
            {.name = name,
             .config = config,
             .mesh = {.pipeline = 2, .shard = shards},
             .pipeline = choice_of(kind),
             .sharding = shards > 1 ? ShardingStrategy::full_shard : ShardingStrategy::no_shard,
             .sequences = 4 * shards});
  return runs;
}

/// The tiny model with eight layers, which give each stage one where a rank of four has two.
std::string eight_layers(std::string_view config) {
  std::string text(config);
  for (const std::string_view key : {"\"n_layer\": 3", "\"num_hidden_layers\": 3"})
    if (const auto at = text.find(key); at != std::string::npos) text[at + key.size() - 1] = '8';
  return text;
}

/// Two models under each schedule on four stages.
std::vector<PipelinedRun> runs_of_four_stages() {
  static const std::string gpt2 = eight_layers(tiny_gpt2), llama = eight_layers(tiny_llama);
  std::vector<PipelinedRun> runs;
  for (const auto& [name, config] : {std::pair("gpt2", &gpt2), std::pair("llama", &llama)})
    for (const PipelineScheduleKind kind : all_schedules)
      runs.push_back(
          {.name = name,
           .config = *config,
           .mesh = {.pipeline = 4},
           .pipeline = {.schedule = kind, .stages_per_rank = has_single_stage(kind) ? 1 : 2},
           .sequences = 8});
  return runs;
}

/// Replicas, shards and both inside a stage, on four, six and eight processes, in every precision.
std::vector<PipelinedRun> runs_of_all_insides() {
  using enum ShardingStrategy;
  std::vector<PipelinedRun> runs;
  for (const auto& [name, config] : {std::pair("gpt2", tiny_gpt2), std::pair("llama", tiny_llama)})
    for (const auto& [sharding, mesh] :
         {std::pair(no_shard, Mesh{.pipeline = 2, .replicate = 2}),
          std::pair(no_shard, Mesh{.pipeline = 2, .replicate = 3}),
          std::pair(zero1, Mesh{.pipeline = 2, .shard = 2}),
          std::pair(shard_grad_op, Mesh{.pipeline = 2, .shard = 2}),
          std::pair(full_shard, Mesh{.pipeline = 3, .shard = 2}),
          std::pair(hybrid_shard, Mesh{.pipeline = 2, .replicate = 2, .shard = 2}),
          std::pair(hybrid_shard_zero2, Mesh{.pipeline = 2, .replicate = 2, .shard = 2})})
      for (const PipelineScheduleKind kind : {PipelineScheduleKind::one_f_one_b, zero_bubble})
        for (const Precision precision : {Precision::fp32, Precision::bf16_mixed, Precision::bf16})
          if (kind != zero_bubble || precision == Precision::fp32)
            runs.push_back({.name = name,
                            .config = config,
                            .mesh = mesh,
                            .pipeline = choice_of(kind),
                            .sharding = sharding,
                            .precision = precision,
                            .sequences = 4 * mesh.replicate * mesh.shard});
  return runs;
}

INSTANTIATE_TEST_SUITE_P(AllSchedules, PipelineTest, ::testing::ValuesIn(runs_of_all_schedules()));
INSTANTIATE_TEST_SUITE_P(FourStages, PipelineTest, ::testing::ValuesIn(runs_of_four_stages()));
INSTANTIATE_TEST_SUITE_P(AllInsides, PipelineTest, ::testing::ValuesIn(runs_of_all_insides()));

using PipelinesTest = TrainingFixture;

TEST_F(PipelinesTest, OffloadGivesTheSameBits) {
  const auto losses = [&](Offload offload, const std::string& output) {
    Job one = job(tiny_gpt2, 1, ShardingStrategy::full_shard, output);
    one.strategy.mesh = {.pipeline = 2, .shard = 2};
    one.ranks = 4;
    one.batch = 1;
    one.accumulate = 2;
    one.steps = 10;
    one.strategy.offload = offload;
    return run_forked(one);
  };
  const auto plain = losses(Offload::none, "none");
  EXPECT_EQ(losses(Offload::optimizer, "optimizer"), plain);
  EXPECT_EQ(losses(Offload::all, "all"), plain);
}

// Gradients add up in the order of micro-batches in both.
TEST_F(PipelinesTest, SchedulesWhoseSumsHaveOneOrderGiveTheSameBits) {
  const auto losses = [&](PipelineScheduleKind schedule, const char* output,
                          int stages_per_rank = 1) {
    Job one = job(tiny_gpt2, 1, ShardingStrategy::no_shard, output);
    one.ranks = one.strategy.mesh.pipeline = 2;
    one.batch = 1;
    one.accumulate = 4;
    one.steps = 30;
    one.pipeline.schedule = schedule;
    one.pipeline.stages_per_rank = stages_per_rank;
    if (stages_per_rank > 1) one.pipeline.layers = {1, 1, 1, 0};
    return run_forked(one);
  };
  const auto expected = losses(gpipe, "gpipe");
  EXPECT_EQ(losses(PipelineScheduleKind::one_f_one_b, "1f1b"), expected);
  // It adds the gradient of a residual in a kernel of its own, which rounds once more.
  const auto split = losses(zero_bubble, "zero_bubble");
  ASSERT_EQ(split.size(), expected.size());
  for (std::size_t i = 0; i < split.size(); ++i)
    ASSERT_NEAR(split[i], expected[i], 1e-5 * expected[i]) << i / 2;
  EXPECT_EQ(losses(zbv, "zbv", 2), losses(dualpipev, "dualpipev", 2));
}

// What runs again is the same kernels on the same numbers, in every sharding inside.
TEST_F(PipelinesTest, StagesThatRunAgainGiveTheSameBits) {
  const auto losses = [&](std::string_view config, ShardingStrategy sharding,
                          PipelineCheckpoint checkpoint, const std::string& output) {
    Job one = job(config, 1, sharding, output);
    one.strategy.mesh = {.pipeline = 2, .shard = sharding == ShardingStrategy::no_shard ? 1 : 2};
    one.ranks = one.strategy.mesh.world();
    one.batch = 1;
    one.accumulate = 4;
    one.steps = 30;
    one.pipeline = {.schedule = gpipe, .checkpoint = checkpoint};
    return run_forked(one);
  };
  for (const std::string_view config : {tiny_gpt2, tiny_llama})
    for (const auto sharding : {ShardingStrategy::no_shard, ShardingStrategy::full_shard}) {
      const auto kept = losses(config, sharding, PipelineCheckpoint::never, "never");
      EXPECT_EQ(losses(config, sharding, PipelineCheckpoint::except_last, "except_last"), kept);
      EXPECT_EQ(losses(config, sharding, PipelineCheckpoint::always, "always"), kept);
    }
}

class BlocksThatRunAgain : public TrainingFixture,
                           public ::testing::WithParamInterface<PipelineScheduleKind> {};

// Where the backward is split, its first part runs the blocks again, and its second part reads what
// they have made.
TEST_P(BlocksThatRunAgain, GiveTheSameBits) {
  const auto losses = [&](std::string_view config, ShardingStrategy sharding,
                          std::string_view checkpointing, const std::string& output) {
    Job one = job(config, 1, sharding, output);
    one.strategy.mesh = {.pipeline = 2, .shard = sharding == ShardingStrategy::no_shard ? 1 : 2};
    one.strategy.checkpointing = parse_checkpointing(checkpointing, "checkpointing");
    one.ranks = one.strategy.mesh.world();
    one.batch = 1;
    one.accumulate = 4;
    one.steps = 10;
    one.pipeline = choice_of(GetParam());
    return run_forked(one);
  };
  for (const std::string_view config : {tiny_gpt2, tiny_llama})
    for (const auto sharding : {ShardingStrategy::no_shard, ShardingStrategy::full_shard}) {
      const auto kept = losses(config, sharding, "none", "none");
      ASSERT_EQ(kept.size(), 20U);
      for (const std::string checkpointing : {"full", "selective", "every:2"})
        EXPECT_EQ(losses(config, sharding, checkpointing, "again"), kept) << checkpointing;
    }
}

INSTANTIATE_TEST_SUITE_P(AllSchedules, BlocksThatRunAgain, ::testing::ValuesIn(all_schedules));

// Units, prefetching, parameter groups and a budget of memory change no sum of a stage.
TEST_F(PipelinesTest, UnitsGroupsAndABudgetGiveTheSameBits) {
  for (const std::string_view config : {tiny_gpt2, tiny_llama}) {
    Job plain = job(config, 1, ShardingStrategy::full_shard, "plain");
    plain.strategy.mesh = {.pipeline = 2, .shard = 2};
    plain.ranks = 4;
    plain.batch = 1;
    plain.accumulate = 4;
    plain.steps = 10;
    const auto expected = run_forked(plain);
    const auto arena_of = [](const Job& done) {
      return JsonValue::read_file(done.output / "summary.json")
          .at("memory")
          .at("arena_bytes")
          .integer();
    };
    const auto changed = [&](const std::string& output, auto change) {
      Job one = plain;
      one.output = plain.output.parent_path() / output;
      change(one);
      EXPECT_EQ(run_forked(one), expected) << output;
      return arena_of(one);
    };
    changed("units", [](Job& one) { one.strategy.wrap = parse_wrap("size:20000", "wrap"); });
    changed("prefetch", [](Job& one) {
      one.strategy.prefetch = parse_prefetching("forward=2,backward_post,limit=2", "prefetch");
    });
    changed("groups", [](Job& one) {
      one.optimizer.groups = {{.pattern = "mlp"}, {.pattern = "norm|ln_"}};
    });
    const std::int64_t whole = arena_of(plain);
    EXPECT_LT(changed("budget", [&](Job& one) { one.memory_budget = {whole / 100 * 95}; }), whole);
  }
}

}  // namespace
}  // namespace shardscope
