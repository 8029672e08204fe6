#include "gui/data/what_if.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "core/native/job.h"
#include "gui/data/open_run.h"
#include "sim/prediction/prediction.h"

namespace shardscope::gui {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::filesystem::path examples = std::filesystem::path(SOURCE_ROOT) / "examples";

/// The program, as built beside the tests; empty: not built.
std::filesystem::path program() {
  const std::filesystem::path built = SHARDSCOPE_PROGRAM;
  return std::filesystem::exists(built) ? built : std::filesystem::path();
}

std::string in_quotes(const std::filesystem::path& path) { return "'" + path.string() + "'"; }

/// A folder of this test alone.
class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / name()) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::filesystem::path operator/(const std::string& file) const { return path_ / file; }

 private:
  static std::string name() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    std::string name = std::string("what_if_") + test->name() + "." + std::to_string(getpid());
    std::replace(name.begin(), name.end(), '/', '.');
    return name;
  }
  std::filesystem::path path_;
};

int run(const std::string& command) { return std::system(command.c_str()); }

/// What `simulate` answers, and the run folder that it leaves.
Summary simulated(const std::string& options, const std::filesystem::path& json) {
  EXPECT_EQ(
      run(in_quotes(program()) + " simulate " + options + " --quiet --json > " + in_quotes(json)),
      0);
  return read_summary(json);
}

/// A machine of a CPU whose figures are round.
std::string cpu_profile() {
  return R"({"schema": "shardscope.hardware/1", "name": "two ranks", "source": "by hand",
  "device": "cpu", "threads_per_rank": 1, "ranks": 2,
  "memory": {"value": "8 GiB", "origin": "assumed", "source": "test", "date": "2026-01-01"},
  "peak": {"value": "100 GFLOP/s", "origin": "assumed", "source": "test", "date": "2026-01-01"},
  "memory_bandwidth": {"value": "10 GB/s", "origin": "assumed", "source": "test", "date": "2026-01-01"},
  "operation_overhead": {"value": "1 us", "origin": "assumed", "source": "test", "date": "2026-01-01"},
  "link": {"bandwidth": "5 GB/s", "latency": "2 us", "origin": "assumed", "source": "test", "date": "2026-01-01"}})";
}

class WhatIfOfTheDemo : public ::testing::Test {
 protected:
  void SetUp() override {
    if (program().empty()) GTEST_SKIP() << "the program shardscope is not built";
    write_atomically(folder_ / "machine.json", cpu_profile());
    before_ =
        simulated("--job " + in_quotes(examples / "demo/job.json") + " --cluster " +
                      in_quotes(folder_ / "machine.json") + " -o " + in_quotes(folder_ / "run"),
                  folder_ / "before.json");
    scenario_ = open_run(folder_ / "run");
    what_if_ = std::make_unique<WhatIf>(what_if_inputs(*scenario_));
  }

  Folder folder_;
  Summary before_;
  ScenarioPointer scenario_;
  std::unique_ptr<WhatIf> what_if_;
};

void expect_same_figures(const Summary& summary, const Summary& expected) {
  EXPECT_EQ(summary.step_time, expected.step_time);
  EXPECT_EQ(summary.step_time_low, expected.step_time_low);
  EXPECT_EQ(summary.time, expected.time);
  EXPECT_EQ(summary.memory.peak_allocated, expected.memory.peak_allocated);
  EXPECT_EQ(summary.memory.at_peak, expected.memory.at_peak);
  EXPECT_EQ(summary.memory.arena, expected.memory.arena);
  EXPECT_EQ(summary.tokens_per_s, expected.tokens_per_s);
  EXPECT_EQ(summary.fits, expected.fits);
}

TEST_F(WhatIfOfTheDemo, StartsWithTheFiguresOfSimulate) {
  EXPECT_THAT(what_if_->inputs().notes, IsEmpty());
  const WhatIfAnswer answer = what_if_->answer(what_if_->inputs().start, true, {});
  ASSERT_NE(answer.scenario, nullptr) << answer.refusal;
  expect_same_figures(*answer.scenario->predicted->summary, before_);
}

/// The figures of the command line that is offered for `settings`.
Summary told_by_the_command_line(const WhatIf& what_if, const WhatIfSettings& settings,
                                 const Folder& folder) {
  write_atomically(folder / "turned.json", to_json(what_if.machine(settings)));
  const WhatIfInputs& inputs = what_if.inputs();
  SimulateCommand line = simulate_command(settings, {.job = inputs.folder / "job.json",
                                                     .hardware = folder / "turned.json",
                                                     .run_job = inputs.job,
                                                     .model = inputs.model,
                                                     .own = inputs.own ? &inputs.start : nullptr});
  EXPECT_THAT(line.unsaid, IsEmpty());
  EXPECT_EQ(line.arguments[1], "simulate");
  line.arguments.erase(line.arguments.begin(), line.arguments.begin() + 2);
  return simulated(line.text(), folder / "after.json");
}

// What `simulate --model RELATIVE -o` leaves can be turned, wherever it was moved.
TEST(WhatIfOfAMovedRun, StartsWithItsOwnSettings) {
  if (program().empty()) GTEST_SKIP() << "the program shardscope is not built";
  const Folder folder;
  const std::filesystem::path model = folder / "model";
  std::filesystem::create_directories(model);
  std::filesystem::copy(examples / "models/gpt2/config.json", model / "config.json");
  ASSERT_EQ(
      run("cd " + in_quotes(folder / "") + " && " + in_quotes(program()) +
          " simulate --model model --runtime fsdp1 --world 4 --seq 64 --checkpointing every:2 "
          "--precision bf16_mixed --cluster h100_sxm -o run --quiet > told.txt"),
      0);
  std::filesystem::remove_all(model);
  std::filesystem::rename(folder / "run", folder / "moved");

  const WhatIfInputsPointer inputs = what_if_inputs(*open_run(folder / "moved"));
  EXPECT_THAT(inputs->notes, IsEmpty());
  EXPECT_EQ(inputs->start.choice.runtime, Runtime::fsdp1);
  EXPECT_EQ(inputs->start.choice.checkpointing.every, 2);
  EXPECT_EQ(inputs->start.length, 64);
  WhatIf what_if(inputs);
  const WhatIfAnswer answer = what_if.answer(inputs->start, false, {});
  ASSERT_NE(answer.scenario, nullptr) << answer.refusal;
  EXPECT_EQ(answer.scenario->predicted->summary->step_time, *inputs->predicted);
}

TEST_F(WhatIfOfTheDemo, TheCommandLineGivesTheSameFigures) {
  WhatIfSettings settings = what_if_->inputs().start;
  settings.choice = with_sharding(settings.choice, ShardingStrategy::zero1);
  settings.choice.blocks_per_unit = 2;
  settings.choice.checkpointing.every = 1;
  settings.scales = {.memory_bandwidth = 0.5, .link_bandwidth = 3};
  const WhatIfAnswer answer = what_if_->answer(settings, true, {});
  ASSERT_NE(answer.scenario, nullptr) << answer.refusal;
  expect_same_figures(*answer.scenario->predicted->summary,
                      told_by_the_command_line(*what_if_, settings, folder_));
}

TEST_F(WhatIfOfTheDemo, ScratchThatTheRunHadNotIsSaidToBeMissing) {
  WhatIfSettings settings = what_if_->inputs().start;
  EXPECT_THAT(what_if_->answer(settings, false, {}).notes, IsEmpty());
  settings.choice.batch += 1;
  EXPECT_THAT(what_if_->answer(settings, false, {}).notes,
              ::testing::ElementsAre(HasSubstr("scratch")));
}

TEST_F(WhatIfOfTheDemo, WhereOnlyTheMachineChangesTheScheduleIsKept) {
  WhatIfSettings settings = what_if_->inputs().start;
  EXPECT_FALSE(what_if_->answer(settings, false, {}).was_cached);
  settings.scales.flop_rate = 2;
  const WhatIfAnswer faster = what_if_->answer(settings, false, {});
  EXPECT_TRUE(faster.was_cached);
  EXPECT_LT(faster.scenario->predicted->summary->step_time, before_.step_time);
  settings.choice.batch += 1;
  EXPECT_FALSE(what_if_->answer(settings, false, {}).was_cached);
}

TEST_F(WhatIfOfTheDemo, WhatIsStoppedHasNeitherScenarioNorRefusal) {
  std::stop_source stop;
  stop.request_stop();
  const WhatIfAnswer answer = what_if_->answer(what_if_->inputs().start, true, stop.get_token());
  EXPECT_EQ(answer.scenario, nullptr);
  EXPECT_EQ(answer.refusal, "");
  EXPECT_THAT(what_if_->sensitivity(what_if_->inputs().start, stop.get_token()), IsEmpty());
}

TEST_F(WhatIfOfTheDemo, SensitivityIsWhatTheTurnedMachineSays) {
  const WhatIfSettings start = what_if_->inputs().start;
  const std::vector<Sensitivity> rows = what_if_->sensitivity(start, {});
  ASSERT_EQ(rows.size(), machine_figures.size() - 1);  // memory's size takes no time
  // Two ranks of a small model on one host compute more than anything else.
  EXPECT_EQ(rows.front().figure, "flop_rate");
  WhatIfSettings faster = start;
  faster.scales.flop_rate = sensitivity_factor;
  const WhatIfAnswer answer = what_if_->answer(faster, false, {});
  EXPECT_EQ(rows.front().higher,
            answer.scenario->predicted->summary->step_time - before_.step_time);
  EXPECT_LT(rows.front().higher, 0_ns);
  EXPECT_GT(rows.front().lower, 0_ns);
}

TEST_F(WhatIfOfTheDemo, WhatTheModelCannotDoIsOneLine) {
  WhatIfSettings settings = what_if_->inputs().start;
  settings.length = 100'000;
  const WhatIfAnswer answer = what_if_->answer(settings, false, {});
  EXPECT_EQ(answer.scenario, nullptr);
  EXPECT_THAT(answer.refusal, HasSubstr("positions"));
  EXPECT_EQ(answer.refusal.find('\n'), std::string::npos);
}

TEST_F(WhatIfOfTheDemo, OnACpuPyTorchIsRefusedUntilAClusterIsChosen) {
  WhatIfSettings settings = what_if_->inputs().start;
  settings.choice = under(settings.choice, Runtime::fsdp2);
  EXPECT_THAT(what_if_->answer(settings, false, {}).refusal, HasSubstr("no machine of GPUs"));
  settings.cluster = "h100_sxm";
  const WhatIfAnswer answer = what_if_->answer(settings, true, {});
  ASSERT_NE(answer.scenario, nullptr) << answer.refusal;
  expect_same_figures(*answer.scenario->predicted->summary,
                      told_by_the_command_line(*what_if_, settings, folder_));
}

/// Of the files that a run is predicted from: nothing of them is lost in the run folder.
struct FileOfRun {
  std::string name, model, options;
};
void PrintTo(const FileOfRun& run, std::ostream* out) { *out << run.options; }

class WhatIfOfAFile : public ::testing::TestWithParam<FileOfRun> {};

TEST_P(WhatIfOfAFile, StartsWithTheFiguresOfSimulate) {
  if (program().empty()) GTEST_SKIP() << "the program shardscope is not built";
  const Folder folder;
  const std::string model = " --model " + in_quotes(examples / GetParam().model);
  ASSERT_EQ(run("cd " + in_quotes(SOURCE_ROOT) + " && " + in_quotes(program()) + " simulate " +
                GetParam().options + model + " --cluster a100_80gb -o " +
                in_quotes(folder / "run") + " --quiet > " + in_quotes(folder / "told.txt")),
            0);
  const ScenarioPointer scenario = open_run(folder / "run");
  WhatIf what_if(what_if_inputs(*scenario));
  const WhatIfAnswer answer = what_if.answer(what_if.inputs().start, true, {});
  ASSERT_NE(answer.scenario, nullptr) << answer.refusal;
  EXPECT_THAT(answer.notes, IsEmpty());
  expect_same_figures(*answer.scenario->predicted->summary, *scenario->predicted->summary);
}

INSTANTIATE_TEST_SUITE_P(
    All, WhatIfOfAFile,
    ::testing::Values(
        FileOfRun{"accelerate_fsdp1", "models/qwen2_5_0_5b",
                  "--accelerate examples/configs/fsdp_v1.yaml --batch 2 --seq 256"},
        FileOfRun{"accelerate_fsdp2", "models/qwen2_5_0_5b",
                  "--accelerate tests/data/accelerate_runs/fsdp2.yaml --batch 2 --seq 256"},
        FileOfRun{"deepspeed", "models/gpt2",
                  "--deepspeed examples/configs/zero3_auto.json --world 4 --batch 2 --seq 256"},
        FileOfRun{
            "lora", "models/qwen2_5_0_5b",
            "--accelerate tests/data/accelerate_runs/fsdp2.yaml --peft r=8,targets=all-linear "
            "--batch 2 --seq 256"},
        FileOfRun{"llama_factory", "models/qwen2_5_0_5b",
                  "--config tests/data/recipes/llama_factory_lora.yaml --world 2"}),
    [](const auto& run) { return run.param.name; });

/// Of a run that `simulate` left with these options.
WhatIfInputsPointer inputs_of_run(const std::string& options, const Folder& folder) {
  EXPECT_EQ(
      run("cd " + in_quotes(SOURCE_ROOT) + " && " + in_quotes(program()) +
          " simulate --model examples/models/qwen2_5_0_5b --cluster a100_80gb " + options + " -o " +
          in_quotes(folder / "run") + " --quiet > " + in_quotes(folder / "told.txt")),
      0);
  return what_if_inputs(*open_run(folder / "run"));
}

// Of 80 GiB and of 4.7 Unsloth makes other parts of the loss.
TEST(WhatIfOfAdapters, WhatIsFreeIsThatOfTheMachine) {
  if (program().empty()) GTEST_SKIP() << "the program shardscope is not built";
  const Folder folder;
  WhatIf what_if(
      inputs_of_run("--runtime ddp --unsloth xformers --peft r=8,targets=all-linear "
                    "--checkpointing full --seq 2048 --batch 6 --precision bf16_mixed",
                    folder));
  WhatIfSettings settings = what_if.inputs().start;
  const WhatIfAnswer before = what_if.answer(settings, true, {});
  settings.scales.memory = 0.06;
  const WhatIfAnswer answer = what_if.answer(settings, true, {});
  ASSERT_NE(answer.scenario, nullptr) << answer.refusal;
  EXPECT_LT(answer.scenario->predicted->summary->memory.peak_allocated,
            before.scenario->predicted->summary->memory.peak_allocated);
  expect_same_figures(*answer.scenario->predicted->summary,
                      told_by_the_command_line(what_if, settings, folder));
}

TEST(WhatIfOfAdapters, OtherCheckpointingIsNamedWhereItTakesTheUnitsOfTheFile) {
  if (program().empty()) GTEST_SKIP() << "the program shardscope is not built";
  const Folder folder;
  WhatIf what_if(
      inputs_of_run("--accelerate tests/data/accelerate_runs/fsdp2.yaml "
                    "--peft r=8,targets=all-linear --batch 2 --seq 256",
                    folder));
  WhatIfSettings settings = what_if.inputs().start;
  settings.choice.checkpointing.every = settings.choice.checkpointing.every == 0 ? 1 : 0;
  const WhatIfAnswer answer = what_if.answer(settings, false, {});
  ASSERT_NE(answer.scenario, nullptr) << answer.refusal;
  EXPECT_THAT(answer.notes, ::testing::ElementsAre(HasSubstr("checkpointing of adapters")));
}

struct PytorchRun {
  std::string name, options;
};
void PrintTo(const PytorchRun& run, std::ostream* out) { *out << run.options; }

class WhatIfOfPytorch : public ::testing::TestWithParam<PytorchRun> {};

TEST_P(WhatIfOfPytorch, StartsWithTheFiguresOfSimulate) {
  if (program().empty()) GTEST_SKIP() << "the program shardscope is not built";
  const Folder folder;
  const Summary before =
      simulated(GetParam().options + " --model " + in_quotes(examples / "models/gpt2") +
                    " --seq 256 --cluster a100_80gb -o " + in_quotes(folder / "run"),
                folder / "before.json");
  WhatIf what_if(what_if_inputs(*open_run(folder / "run")));
  const WhatIfAnswer answer = what_if.answer(what_if.inputs().start, true, {});
  ASSERT_NE(answer.scenario, nullptr) << answer.refusal;
  expect_same_figures(*answer.scenario->predicted->summary, before);
}

INSTANTIATE_TEST_SUITE_P(
    All, WhatIfOfPytorch,
    ::testing::Values(PytorchRun{"ddp", "--runtime ddp --world 4"},
                      PytorchRun{"fsdp1", "--runtime fsdp1 --world 8 --precision bf16_mixed"},
                      PytorchRun{"fsdp2", "--runtime fsdp2 --world 16 --accumulate 2"},
                      PytorchRun{"hybrid", "--runtime fsdp2 --strategy hybrid_shard --world 16"},
                      PytorchRun{"zero2",
                                 "--runtime deepspeed --strategy shard_grad_op --world 4"}),
    [](const auto& run) { return run.param.name; });

TEST(WhatIfSettings, LabelsSayWhatIsUnusual) {
  WhatIfSettings settings;
  settings.choice.runtime = Runtime::fsdp2;
  settings.choice.prefetch = planner::Prefetch::pre;
  settings.choice.mesh = {.shard = 16};
  settings.choice.batch = 2;
  EXPECT_EQ(label_of(settings), "fsdp2 full_shard x16, batch 2, bf16_mixed");
  settings.cluster = "h200_sxm";
  settings.scales.latency = 2;
  EXPECT_EQ(label_of(settings), "fsdp2 full_shard x16, batch 2, bf16_mixed; h200_sxm, latency x 2");
  settings.scales = {.flop_rate = 0.5, .link_bandwidth = 3};
  EXPECT_THAT(label_of(settings), HasSubstr("FLOP rate x 0.5, link rate x 3"));
}

TEST(WhatIfSettings, AHybridKeepsItsShardsWhereTheyDivideTheRanks) {
  planner::Choice choice{.sharding = ShardingStrategy::hybrid_shard,
                         .mesh = {.replicate = 2, .shard = 8}};
  EXPECT_EQ(on_ranks(choice, 32).mesh, (Mesh{.replicate = 4, .shard = 8}));
  EXPECT_EQ(on_ranks(choice, 12).mesh, (Mesh{.replicate = 2, .shard = 6}));
}

TEST(WhatIfSettings, AnotherRuntimeGetsWhatItHas) {
  planner::Choice choice{.runtime = Runtime::fsdp1,
                         .sharding = ShardingStrategy::full_shard,
                         .mesh = {.shard = 8},
                         .prefetch = planner::Prefetch::post};
  EXPECT_EQ(under(choice, Runtime::ddp).sharding, ShardingStrategy::no_shard);
  EXPECT_EQ(under(choice, Runtime::ddp).mesh, (Mesh{.replicate = 8}));
  EXPECT_EQ(under(choice, Runtime::fsdp2).prefetch, planner::Prefetch::pre);
}

/// fsdp2 on 8 ranks, of which four divide each layer.
planner::Choice divided_choice() {
  return {.runtime = Runtime::fsdp2,
          .sharding = ShardingStrategy::full_shard,
          .mesh = {.shard = 2},
          .tensor = 4,
          .prefetch = planner::Prefetch::pre};
}

TEST(WhatIfSettings, AnAxisTensorCountsAmongTheRanks) {
  EXPECT_EQ(label_of({.choice = divided_choice()}),
            "fsdp2 tensor 4, full_shard x8, batch 1, bf16_mixed");
}

TEST(WhatIfSettings, AnAxisTensorGoesWhereItHasNoPlaceAndTheRanksStay) {
  const planner::Choice choice = divided_choice();
  for (const Runtime runtime :
       {Runtime::ddp, Runtime::fsdp1, Runtime::native, Runtime::deepspeed}) {
    EXPECT_EQ(under(choice, runtime).tensor, 1) << name_of(runtime);
    EXPECT_EQ(world_of(under(choice, runtime)), 8) << name_of(runtime);
  }
  EXPECT_EQ(under(choice, Runtime::fsdp2), choice);
  const planner::Choice kept = with_sharding(choice, ShardingStrategy::shard_grad_op);
  EXPECT_EQ(kept.tensor, 1);
  EXPECT_EQ(kept.mesh, (Mesh{.shard = 8}));
}

TEST(WhatIfSettings, AnAxisTensorStaysWhereItDividesTheRanks) {
  const planner::Choice choice = divided_choice();
  EXPECT_EQ(on_ranks(choice, 16).tensor, 4);
  EXPECT_EQ(on_ranks(choice, 16).mesh, (Mesh{.shard = 4}));
  EXPECT_EQ(on_ranks(choice, 6).tensor, 1);
  EXPECT_EQ(on_ranks(choice, 6).mesh, (Mesh{.shard = 6}));
  const planner::Choice hybrid =
      with_sharding(on_ranks(choice, 16), ShardingStrategy::hybrid_shard);
  EXPECT_EQ(hybrid.tensor, 4);
  EXPECT_EQ(hybrid.mesh, (Mesh{.replicate = 2, .shard = 2}));
}

TEST(WhatIfSettings, TheCommandLineNamesAnAxisTensor) {
  const Job job;
  const Model model;
  const auto line = [&](const planner::Choice& choice) {
    return simulate_command({.choice = choice},
                            {.job = {}, .hardware = {}, .run_job = job, .model = model})
        .text();
  };
  EXPECT_THAT(line(divided_choice()), HasSubstr("--mesh tensor=4,shard=2 --world 8"));
  planner::Choice hybrid = divided_choice();
  hybrid.sharding = ShardingStrategy::hybrid_shard;
  hybrid.mesh.replicate = 2;
  EXPECT_THAT(line(hybrid), HasSubstr("--mesh tensor=4,shard=2,replicate=2 --world 16"));
}

TEST(WhatIfSettings, CommandLinesAreQuotedForAShell) {
  const SimulateCommand line{.arguments = {"shardscope", "--job", "it's here.json"}, .unsaid = {}};
  EXPECT_EQ(line.text(), "shardscope --job 'it'\\''s here.json'");
}

TEST(WhatIfSettings, WhatNoOptionSaysIsNamed) {
  WhatIfSettings settings;
  settings.choice.runtime = Runtime::fsdp1;
  settings.choice.prefetch = planner::Prefetch::both;
  settings.choice.blocks_per_unit = 2;
  const Job job;
  const Model model;
  EXPECT_THAT(
      simulate_command(settings, {.job = {}, .hardware = {}, .run_job = job, .model = model})
          .unsaid,
      ::testing::ElementsAre(HasSubstr("units of 2 blocks"), HasSubstr("prefetch both")));
}

/// A scenario of a prediction alone with these figures.
ScenarioPointer predicted(Duration step, Bytes activations) {
  auto scenario = std::make_shared<Scenario>();
  Summary summary;
  summary.step_time = step;
  summary.memory.peak_allocated = activations;
  summary.memory.at_peak[MemoryCategory::activations] = activations;
  scenario->predicted = Side{.summary = summary};
  return scenario;
}

const FigureRow* row_of(const std::vector<FigureRow>& rows, const std::string& name) {
  for (const FigureRow& row : rows)
    if (row.name == name) return &row;
  return nullptr;
}

// 80 ms are 20 ms and a fifth less than 100 ms; 3 GiB are 1 GiB and a half more than 2 GiB.
TEST(FiguresBeside, DifferencesHaveASignAndAShare) {
  const auto rows = figures_beside(predicted(100_ms, 2_GiB), predicted(80_ms, 3_GiB));
  const FigureRow* step = row_of(rows, "step time");
  ASSERT_NE(step, nullptr);
  EXPECT_EQ(step->difference, "\u221220.0 ms (-20.0%)");
  EXPECT_EQ(step->better, 1);
  const FigureRow* activations = row_of(rows, "    activations");
  ASSERT_NE(activations, nullptr);
  EXPECT_EQ(activations->difference, "+1.00 GiB (+50.0%)");
  EXPECT_EQ(activations->better, -1);
  EXPECT_EQ(row_of(rows, "    gradients"), nullptr);
}

TEST(FiguresBeside, WhatRunsOutOfMemoryHasNoTime) {
  auto failing = std::make_shared<Scenario>(*predicted({}, 3_GiB));
  failing->predicted->summary->fits = false;
  failing->predicted->summary->out_of_memory = OutOfMemorySummary{.step = "1"};
  const auto rows = figures_beside(predicted(100_ms, 2_GiB), failing);
  const FigureRow* step = row_of(rows, "step time");
  ASSERT_NE(step, nullptr);
  EXPECT_EQ(step->before, "100 ms");
  EXPECT_EQ(step->after, "does not run");
  EXPECT_EQ(step->difference, "");
  EXPECT_EQ(step->better, 0);
  EXPECT_EQ(row_of(rows, "tokens/s, whole job"), nullptr);
}

TEST(WhatIfInputs, ATraceWithoutARunHasNoInputs) {
  Scenario scenario{.label = "kineto.json"};
  try {
    what_if_inputs(scenario);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("open a run folder"));
  }
}

}  // namespace
}  // namespace shardscope::gui
