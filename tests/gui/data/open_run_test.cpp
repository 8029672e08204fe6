#include "gui/data/open_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "gui/data/open_scenarios.h"
#include "tests/gui/run_samples.h"

namespace shardscope::gui {
namespace {

using shardscope::testing::SampleRun;
using shardscope::testing::ScratchFolder;
using shardscope::testing::write_sample_run;
using shardscope::testing::write_sample_window;
using ::testing::HasSubstr;

std::vector<std::string> findings_of(const Scenario& scenario, Severity severity) {
  std::vector<std::string> texts;
  for (const Finding& finding : scenario.findings)
    if (finding.severity == severity) texts.push_back(finding.where + ": " + finding.what);
  return texts;
}

TEST(OpenRun, ReadsBothSidesOfAllRanksAndTheBuffers) {
  const ScratchFolder folder;
  write_sample_run(folder.path());
  const ScenarioPointer run = open_run(folder.path());
  EXPECT_EQ(run->label, "full_shard x2");
  ASSERT_TRUE(run->predicted && run->profiled);
  EXPECT_EQ(run->predicted->ranks.size(), 1U);
  EXPECT_EQ(run->predicted->buffers.size(), 1U);
  ASSERT_EQ(run->profiled->ranks.size(), 2U);
  EXPECT_EQ(run->profiled->ranks[1]->rank, 1);
  EXPECT_THAT(findings_of(*run, Severity::error), ::testing::IsEmpty());
  EXPECT_THAT(findings_of(*run, Severity::warning), ::testing::IsEmpty());
}

TEST(OpenRun, TheJobSaysWhatWasTrained) {
  const ScratchFolder folder;
  const auto settings_of = [&](const std::string& job) {
    write_atomically(folder / "job.json", job);
    return open_run(folder.path())->settings;
  };
  write_sample_run(folder.path());
  EXPECT_EQ(open_run(folder.path())->settings, "");
  EXPECT_EQ(settings_of(R"({"model": "/models/gpt2", "batch": 4, "accumulate": 2, "seq": 1024})"),
            "model gpt2, batch 4 x 2, sequences of 1024");
  EXPECT_EQ(settings_of(R"({"model": "/models/small/config.json", "batch": 1, "accumulate": 1})"),
            "model small, batch 1");
  write_atomically(folder / "config.json", R"({"model_type": "llama", "num_hidden_layers": 32})");
  EXPECT_EQ(settings_of(R"({"model": "config.json"})"), "model llama of 32 layers");
}

TEST(OpenRun, OneTraceThatIsCutShortCostsThatTraceAlone) {
  const ScratchFolder folder;
  write_sample_run(folder.path());
  const RunFolder files{folder.path()};
  const std::string whole = read_whole(files.trace(1));
  write_atomically(files.trace(1), whole.substr(0, whole.size() / 2));
  const ScenarioPointer run = open_run(folder.path());
  EXPECT_EQ(run->profiled->ranks.size(), 1U);
  const auto errors = findings_of(*run, Severity::error);
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_THAT(errors[0], HasSubstr("trace.1.json.gz"));
}

TEST(OpenRun, ARunWithoutBuffersSaysSo) {
  const ScratchFolder folder;
  write_sample_run(folder.path());
  std::filesystem::remove(RunFolder{folder.path()}.predicted_buffers());
  const ScenarioPointer run = open_run(folder.path());
  EXPECT_TRUE(run->predicted->buffers.empty());
  EXPECT_THAT(findings_of(*run, Severity::note),
              ::testing::Contains(HasSubstr("buffers.json.gz: is not there")));
}

TEST(OpenRun, ASummaryThatIsNoneIsTheError) {
  const ScratchFolder folder;
  write_atomically(folder / "summary.json", "{\"strategy\": 7}");
  try {
    open_run(folder.path());
    FAIL() << "opened";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("summary.json"));
  }
}

// RUN/profiles/40-44 is a scenario of its own behind its run, with the run's prediction.
TEST(OpenRun, WindowsFollowTheirRunByStep) {
  const ScratchFolder folder;
  write_sample_run(folder.path());
  write_sample_window(folder.path(), "140-144", SampleRun{.step_time = {3000}});
  write_sample_window(folder.path(), "40-44", SampleRun{.step_time = {2000}});
  create_folder(RunFolder{folder.path()}.profiles() / "other");
  const auto all = open_scenarios(folder.path());
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[1]->label, "full_shard x2, steps 40 to 44");
  EXPECT_EQ(all[1]->profiled->summary->step_time, Duration{2000});
  EXPECT_EQ(all[1]->predicted->summary, all[0]->predicted->summary);
  EXPECT_EQ(all[2]->label, "full_shard x2, steps 140 to 144");
}

TEST(OpenRun, AFileOfARunOpensTheRunAndOneOfAWindowTheWindow) {
  const ScratchFolder folder;
  write_sample_run(folder.path());
  write_sample_window(folder.path(), "40-44");
  const RunFolder run{folder.path()};
  for (const auto& file : {run.summary(), run.trace(1), run.predicted_trace()})
    EXPECT_EQ(open_scenarios(file).front()->label, "full_shard x2") << file;
  const RunFolder window{run.profiles() / "40-44"};
  EXPECT_EQ(open_scenarios(window.trace(0)).front()->label, "full_shard x2, steps 40 to 44");
  EXPECT_EQ(open_scenarios(window.root).front()->label, "full_shard x2, steps 40 to 44");
}

// A run that was ended before its summary: its own traces are no other tool's.
TEST(OpenRun, WithoutASummaryItIsItsPrediction) {
  const ScratchFolder folder;
  write_sample_run(folder.path());
  std::filesystem::remove(RunFolder{folder.path()}.summary());
  const auto all = open_scenarios(folder.path());
  ASSERT_EQ(all.size(), 1U);
  EXPECT_TRUE(all[0]->predicted && !all[0]->profiled);
}

TEST(OpenRun, ATraceOfOursAloneIsTheSideThatItSays) {
  const ScratchFolder folder, other;
  write_sample_run(folder.path());
  const RunFolder run{folder.path()};
  std::filesystem::copy(run.predicted_trace(), other / "p.json.gz");
  std::filesystem::copy(run.trace(1), other / "t.json.gz");
  const auto predicted = open_scenarios(other / "p.json.gz").front();
  EXPECT_TRUE(predicted->predicted && !predicted->profiled);
  const auto profiled = open_scenarios(other / "t.json.gz").front();
  EXPECT_TRUE(!profiled->predicted && profiled->profiled);
  EXPECT_EQ(profiled->label, "t.json.gz");
}

TEST(OpenRun, AStopLeavesRanksUnread) {
  const ScratchFolder folder;
  write_sample_run(folder.path(), {.world = 4});
  std::stop_source stop;
  int told = 0;
  const OpenOptions options{.stop = stop.get_token(), .on_progress = [&](double, const auto&) {
                              if (++told == 2) stop.request_stop();
                            }};
  EXPECT_EQ(open_run(folder.path(), options)->profiled->ranks.size(), 2U);
}

}  // namespace
}  // namespace shardscope::gui
