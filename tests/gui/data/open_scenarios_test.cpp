#include "gui/data/open_scenarios.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <stop_token>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "gui/data/find_runs.h"
#include "gui/data/scenario_labels.h"
#include "tests/gui/run_samples.h"

namespace shardscope::gui {
namespace {

using shardscope::testing::SampleRun;
using shardscope::testing::ScratchFolder;
using shardscope::testing::write_sample_run;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string error_of(const std::filesystem::path& path) {
  try {
    open_scenarios(path);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(OpenScenarios, RunsThatDifferInASettingAreNoRounds) {
  const ScratchFolder folder;
  for (const int batch : {1, 2}) {
    const auto run = folder / ("batch_" + std::to_string(batch));
    write_sample_run(run, SampleRun{.strategy = "full_shard", .step_time = {1000}});
    std::ofstream(run / "job.json")
        << R"({"batch": )" << batch << R"(, "output": ")" << batch << "\"}";
  }
  EXPECT_EQ(open_scenarios(folder.path()).size(), 2U);
  std::ofstream(folder / "batch_2/job.json") << R"({"batch": 1, "output": "elsewhere"})";
  EXPECT_EQ(open_scenarios(folder.path()).size(), 1U);
}

/// Their jobs are equal: each names the copy of a config.json in its own folder.
TEST(OpenScenarios, RunsOfOtherModelsAreNoRoundsAndSayWhatDiffers) {
  const ScratchFolder folder;
  for (const std::string model : {"gpt2", "llama", "qwen2"}) {
    const auto run = folder / ("run_of_" + model);
    write_sample_run(run);
    write_atomically(run / "job.json", R"({"model": "config.json", "batch": 1})");
    write_atomically(run / "config.json", R"({"model_type": ")" + model + "\"}");
  }
  const auto all = open_scenarios(folder.path());
  ASSERT_EQ(all.size(), 3U);
  EXPECT_THAT(labels_apart(all),
              ElementsAre("full_shard x2 (model gpt2)", "full_shard x2 (model llama)",
                          "full_shard x2 (model qwen2)"));
}

TEST(OpenScenarios, RunsOfOtherConfigurationFilesAreNoRounds) {
  const ScratchFolder folder;
  for (const std::string name : {"one", "two", "three"}) {
    write_sample_run(folder / name);
    write_atomically(folder / name / "job.json",
                     R"({"pytorch": {"accelerate": "settings/accelerate/a.yaml"}})");
    create_folder(folder / name / "settings/accelerate");
    write_atomically(folder / name / "settings/accelerate/a.yaml", name == "one" ? "a" : "b");
  }
  EXPECT_EQ(open_scenarios(folder.path()).size(), 2U);  // the second and third are rounds
}

TEST(OpenScenarios, APlanIsItsPlacesInTheirOrder) {
  const ScratchFolder folder;
  const auto write = [&](const std::string& place, const std::string& strategy, int ns) {
    write_sample_run(folder / ("places/" + place),
                     SampleRun{.strategy = strategy, .step_time = {ns}});
  };
  // The tenth would come before the second by name; two differ in nothing that a job says.
  for (int place = 1; place <= 10; ++place)
    write(std::to_string(place), place > 8 ? "zero1" : "full_shard", 1000 * place);
  std::string places = "{}";
  for (int i = 1; i < 10; ++i) places += ", {}";
  write_atomically(folder / "plan.json", fmt::format(R"({{"candidates": [{}],
    "losers": [{{"strategy": "ddp no_shard", "why": "takes at least 55 ms a step"}}],
    "dropped": [{{"strategy": "ddp zero2", "why": "is not there"}}]}})",
                                                     places));
  for (const auto& path : {folder.path(), folder / "plan.json"}) {
    const auto all = open_scenarios(path);
    ASSERT_EQ(all.size(), 10U);
    EXPECT_EQ(all[1]->path, folder / "places/2");
    EXPECT_EQ(all[9]->path, folder / "places/10");
    EXPECT_EQ(all[0]->findings[0].what, "ddp no_shard: takes at least 55 ms a step");
    EXPECT_EQ(all[0]->findings[1].what, "ddp zero2: is not there");
  }
}

TEST(OpenScenarios, APlanNamesThePlaceThatItChoseAndTheUsersFile) {
  const ScratchFolder folder;
  for (const char* place : {"1", "2"}) write_sample_run(folder / ("places/" + std::string(place)));
  const std::string given = read_whole(folder / "places/1/predicted/summary.json");
  write_atomically(folder / "plan.json",
                   fmt::format(R"({{"candidates": [{{}}, {{}}], "chosen": {{"place": 2}},
                                   "given": {}}})",
                               given));
  std::vector<ScenarioPointer> early;
  std::string told;
  const auto all = open_scenarios(
      folder.path(),
      {.on_progress = [&](double, const std::string& what) { told = what; },
       .on_figures = [&](const std::vector<ScenarioPointer>& figures) { early = figures; }});
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0]->label, "full_shard x2 (place 1)");
  EXPECT_EQ(all[1]->label, "full_shard x2 (place 2, chosen)");
  EXPECT_EQ(all[2]->label, "full_shard x2 (your file)");
  EXPECT_THAT(told, HasSubstr("2 of 2 places"));
  ASSERT_EQ(early.size(), 3U);
  EXPECT_TRUE(early[1]->is_being_read);
  EXPECT_EQ(early[1]->path, all[1]->path);
  EXPECT_EQ(early[1]->label, all[1]->label);
  EXPECT_FALSE(early[1]->predicted->has_trace());
  EXPECT_FALSE(all[1]->is_being_read);
}

/// The first finding of a plan with one place and this `given`, which has no figures.
Finding finding_of_given(const std::string& given) {
  const ScratchFolder folder;
  write_sample_run(folder / "places/1");
  write_atomically(folder / "plan.json",
                   fmt::format(R"({{"candidates": [{{}}], "given": {}}})", given));
  const auto all = open_scenarios(folder.path());
  EXPECT_EQ(all.size(), 1U);
  EXPECT_FALSE(all.front()->findings.empty());
  return all.front()->findings.empty() ? Finding{} : all.front()->findings.front();
}

TEST(OpenScenarios, APlanWhoseGivenFileIsRefusedOpensAndSaysWhy) {
  const Finding refused = finding_of_given(
      R"({"file": "mine.yaml", "text": "fsdp1", "refused": "mine.yaml: no such strategy"})");
  EXPECT_EQ(refused.severity, Severity::warning);
  EXPECT_EQ(refused.where, "mine.yaml");
  EXPECT_EQ(refused.what, "your file is refused: mine.yaml: no such strategy");
}

TEST(OpenScenarios, APlanWhoseGivenFileCannotBeReadOpensAndSaysWhy) {
  const Finding unread = finding_of_given(R"({"file": "mine.yaml"})");
  EXPECT_EQ(unread.severity, Severity::error);
  EXPECT_THAT(unread.what, HasSubstr("plan.json"));
}

TEST(OpenScenarios, APlanWithoutPlacesSaysWhy) {
  const ScratchFolder folder;
  write_atomically(folder / "plan.json", R"({"candidates": []})");
  EXPECT_THAT(error_of(folder.path()), HasSubstr("has no place: nothing fits"));
  write_atomically(folder / "plan.json", R"({"candidates": [{}, {}]})");
  EXPECT_THAT(error_of(folder / "plan.json"), HasSubstr("has 2 places, and no run folder of any"));
  write_atomically(folder / "plan.json", "{");
  EXPECT_THAT(error_of(folder / "plan.json"), HasSubstr("plan.json:1"));
}

// Three rounds of full_shard with 1000, 3000 and 2000 ns a step, two of zero1 with 500 and 400.
TEST(OpenScenarios, OfRoundsOfALabelTheMedianStandsForTheOthers) {
  const ScratchFolder folder;
  const auto write = [&](const std::string& name, const std::string& strategy, int ns) {
    write_sample_run(folder / name, SampleRun{.strategy = strategy, .step_time = {ns}});
  };
  write("round_1/full_shard", "full_shard", 1000);
  write("round_2/full_shard", "full_shard", 3000);
  write("round_3/full_shard", "full_shard", 2000);
  write("round_1/zero1", "zero1", 500);
  write("round_2/zero1", "zero1", 400);
  const auto all = open_scenarios(folder.path());
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0]->path, folder / "round_3/full_shard");
  EXPECT_EQ(all[1]->path, folder / "round_2/zero1");
  ASSERT_FALSE(all[0]->findings.empty());
  EXPECT_THAT(all[0]->findings.front().what, HasSubstr("median by step time"));
  EXPECT_THAT(all[0]->findings.front().what, HasSubstr("round_1/full_shard"));
  EXPECT_THAT(all[0]->findings.front().what, HasSubstr("round_2/full_shard"));
}

TEST(OpenScenarios, FindsRunsFourFoldersDeepAndSaysWhatLiesDeeper) {
  const ScratchFolder folder;
  write_sample_run(folder / "a/b/c/d");
  write_sample_run(folder / "a/b/c/e/f", SampleRun{.strategy = "zero1"});
  const auto all = open_scenarios(folder.path());
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0]->label, "full_shard x2");
  EXPECT_THAT(all[0]->findings.front().what, HasSubstr("1 folders in it lie deeper"));
}

TEST(OpenScenarios, ARunThatCannotBeReadIsAFindingOfTheOthers) {
  const ScratchFolder folder;
  write_sample_run(folder / "good");
  create_folder(folder / "bad");
  write_atomically(folder / "bad/summary.json", "[1");
  const auto all = open_scenarios(folder.path());
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0]->findings.front().severity, Severity::error);
  EXPECT_THAT(all[0]->findings.front().what, HasSubstr("bad/summary.json"));
}

TEST(OpenScenarios, LinksThatGoRoundAreNotFollowed) {
  const ScratchFolder folder;
  write_sample_run(folder / "run");
  std::filesystem::create_directory_symlink(folder.path(), folder / "round");
  EXPECT_EQ(open_scenarios(folder.path()).size(), 1U);
}

TEST(OpenScenarios, WhereNothingIsFoundSaysWhereAndWhatWouldDo) {
  const ScratchFolder folder;
  EXPECT_THAT(error_of(folder.path()), HasSubstr("neither a run nor a trace is in it"));
  EXPECT_THAT(error_of(folder / "gone"), HasSubstr("gone: is not there"));
  write_atomically(folder / "words.json", "{\"a\": 1}");
  EXPECT_THAT(error_of(folder / "words.json"), HasSubstr("words.json"));
  write_atomically(folder / "empty.json", "");
  EXPECT_THAT(error_of(folder / "empty.json"), HasSubstr("empty.json"));
}

TEST(OpenScenarios, ProgressRisesOverAllRunsAndNamesFiles) {
  const ScratchFolder folder;
  write_sample_run(folder / "a");
  write_sample_run(folder / "b", SampleRun{.strategy = "zero1"});
  std::vector<double> shares;
  std::string names;
  open_scenarios(folder.path(), {.on_progress = [&](double share, const std::string& what) {
                   shares.push_back(share);
                   names += what + "\n";
                 }});
  ASSERT_EQ(shares.size(), 4U);
  EXPECT_DOUBLE_EQ(shares[0], 0);
  EXPECT_DOUBLE_EQ(shares[1], 0.25);
  EXPECT_DOUBLE_EQ(shares[2], 0.5);
  EXPECT_DOUBLE_EQ(shares[3], 0.75);
  EXPECT_THAT(names, HasSubstr("b/trace.1.json.gz"));
}

TEST(OpenScenarios, AStopBetweenRanksLeavesTheOthersUnread) {
  const ScratchFolder folder;
  write_sample_run(folder.path(), SampleRun{.world = 4});
  std::stop_source stop;
  std::vector<std::string> names;
  open_scenarios(folder.path(),
                 {.stop = stop.get_token(), .on_progress = [&](double, const std::string& what) {
                    names.push_back(what);
                    if (names.size() == 2) stop.request_stop();
                  }});
  EXPECT_EQ(names.size(), 2U);
}

// Files of others that are named like traces cost time, too.
TEST(TraceFiles, AreLookedForAmongSoManyFilesOnly) {
  const ScratchFolder folder;
  for (std::size_t i = 0; i <= most_files; ++i)
    std::ofstream(folder / fmt::format("{:05}.json", i)) << "{}";
  const TraceFiles found = trace_files(folder.path());
  EXPECT_TRUE(found.files.empty());
  ASSERT_EQ(found.findings.size(), 1U);
  EXPECT_EQ(found.findings[0].what, "the first 4096 of 4097 files in it were looked at");
  EXPECT_THAT(error_of(folder.path()), HasSubstr("the first 4096 of 4097 files"));
}

TEST(TraceFiles, AreNotLookedForOnceStopped) {
  const ScratchFolder folder;
  write_sample_run(folder / "run");
  EXPECT_EQ(trace_files(folder / "run").files.size(), 2U);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_TRUE(trace_files(folder / "run", stop.get_token()).files.empty());
  EXPECT_TRUE(open_scenarios(folder.path(), {.stop = stop.get_token()}).empty());
}

}  // namespace
}  // namespace shardscope::gui
