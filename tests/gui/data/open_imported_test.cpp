#include "gui/data/open_imported.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "gui/data/open_run.h"
#include "tests/gui/run_samples.h"

namespace shardscope::gui {
namespace {

namespace fs = std::filesystem;
using shardscope::testing::ScratchFolder;
using shardscope::testing::write_sample_run;
using ::testing::Contains;
using ::testing::HasSubstr;

const fs::path recordings = fs::path(SOURCE_ROOT) / "tests/data/kineto";
const fs::path snapshots = fs::path(SOURCE_ROOT) / "tests/data/snapshots";

/// Which program makes predictions, for the length of a test.
class ProgramIs {
 public:
  explicit ProgramIs(const std::string& path) { ::setenv("SHARDSCOPE", path.c_str(), 1); }
  ProgramIs(const ProgramIs&) = delete;
  ProgramIs& operator=(const ProgramIs&) = delete;
  ~ProgramIs() { ::unsetenv("SHARDSCOPE"); }
};

ScenarioPointer only_run(const fs::path& path) {
  const std::vector<ScenarioPointer> opened = open_imported(path);
  EXPECT_EQ(opened.size(), 1U);
  return opened.front();
}

std::vector<std::string> warnings_of(const Scenario& scenario) {
  std::vector<std::string> texts;
  for (const Finding& finding : scenario.findings)
    if (finding.severity >= Severity::warning) texts.push_back(finding.what);
  return texts;
}

TEST(OpenImported, ATraceIsTheProfiledSide) {
  const ScratchFolder folder;
  for (const auto& entry : fs::directory_iterator(recordings / "fsdp2_gpt2"))
    if (entry.path().extension() == ".gz") fs::copy(entry.path(), folder.path());
  const ScenarioPointer scenario = only_run(folder.path());
  EXPECT_FALSE(scenario->predicted);
  ASSERT_TRUE(scenario->profiled);
  ASSERT_EQ(scenario->profiled->imported.size(), 1U);
  ASSERT_EQ(scenario->profiled->ranks.size(), 1U);
  EXPECT_EQ(scenario->profiled->ranks[0]->rank, 0);
  EXPECT_GT(scenario->profiled->summary->step_time.ns, 0);
  // What the host did stands for a device that is not there.
  const Trace& trace = *scenario->profiled->ranks[0];
  EXPECT_EQ(account(trace, shown_step(trace)), scenario->profiled->summary->time);
}

TEST(OpenImported, BesideSettingsItIsLaidBesideItsPrediction) {
  const ProgramIs program(SHARDSCOPE_PROGRAM);
  for (const char* runtime : {"fsdp1_gpt2", "fsdp2_gpt2", "ddp_gpt2"}) {
    const ScenarioPointer scenario = only_run(recordings / runtime);
    ASSERT_TRUE(scenario->predicted) << ::testing::PrintToString(warnings_of(*scenario));
    EXPECT_FALSE(scenario->predicted->buffers.empty());
    ASSERT_TRUE(scenario->match);
    ASSERT_EQ(scenario->match->ranks.size(), 1U);
    EXPECT_TRUE(scenario->match->ranks[0].complete()) << runtime;
    EXPECT_FALSE(scenario->match->matched[0]->spans.empty());
    EXPECT_EQ(scenario->profiled->summary->strategy, scenario->predicted->summary->strategy);
  }
}

TEST(OpenImported, WithoutTheProgramTheTraceOpensAndAFindingSaysWhy) {
  const ProgramIs program("/nowhere/shardscope");
  const ScenarioPointer scenario = only_run(recordings / "fsdp2_gpt2");
  EXPECT_FALSE(scenario->predicted);
  EXPECT_TRUE(scenario->profiled);
  EXPECT_THAT(warnings_of(*scenario),
              Contains(HasSubstr("no prediction was made of it: the program")));
}

TEST(OpenImported, SettingsThatCannotBePredictedAreAFinding) {
  const ProgramIs program(SHARDSCOPE_PROGRAM);
  const ScratchFolder folder;
  fs::copy(recordings / "fsdp2_gpt2", folder.path(), fs::copy_options::recursive);
  write_atomically(folder / "settings.json", "{\"world\": 2}");
  const ScenarioPointer scenario = only_run(folder.path());
  EXPECT_FALSE(scenario->predicted);
  EXPECT_THAT(warnings_of(*scenario), Contains(HasSubstr("settings.json")));
}

TEST(OpenImported, AFileOfSeveralThatIsDamagedIsAFinding) {
  const ScratchFolder folder;
  fs::copy(snapshots / "protocol-5.pickle.gz", folder.path());
  write_atomically(folder / "broken.pickle",
                   std::string("\x80\x04\x95", 3) + std::string(64, '\xff'));
  const ScenarioPointer scenario = only_run(folder.path());
  EXPECT_EQ(scenario->profiled->snapshots.size(), 1U);
  EXPECT_THAT(warnings_of(*scenario), Contains(HasSubstr("broken.pickle")));
}

TEST(OpenImported, AMemorySnapshotAloneHasItsPeakAndNoRanks) {
  const ScenarioPointer scenario = only_run(snapshots / "protocol-5.pickle.gz");
  EXPECT_TRUE(scenario->profiled->ranks.empty());
  EXPECT_GT(scenario->profiled->summary->memory.peak_allocated, Bytes{});
}

TEST(OpenImported, AStopEndsTheReadingOfAFile) {
  std::stop_source stop;
  const OpenOptions options{.stop = stop.get_token(),
                            .on_progress = [&](double, const auto&) { stop.request_stop(); }};
  try {
    open_imported(recordings / "fsdp2_gpt2", options);
    FAIL() << "read";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::interrupted);
  }
}

TEST(OpenImported, UnrelatedTracesAreRunsOfTheirOwn) {
  const ScratchFolder folder;
  const auto write = [&](const std::string& name, int rank, int world) {
    write_atomically(
        folder / name,
        R"({"distributedInfo": {"rank": )" + std::to_string(rank) + R"(, "world_size": )" +
            std::to_string(world) +
            R"(}, "traceEvents": [{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0,
                          "tid": 7, "ts": 5, "dur": 2, "args": {"device": 0, "stream": 7}}]})");
  };
  write("a0.json", 0, 2);
  write("a1.json", 1, 2);
  write("other.json", 0, 8);
  const std::vector<ScenarioPointer> opened = open_imported(folder.path());
  ASSERT_EQ(opened.size(), 2U);
  EXPECT_EQ(opened[0]->profiled->imported.size(), 2U);
  EXPECT_EQ(opened[1]->profiled->imported.size(), 1U);
  EXPECT_THAT(opened[1]->label, HasSubstr("other.json"));
  EXPECT_NE(opened[0]->path, opened[1]->path);
}

TEST(LayBeside, TakesThePredictionOfAnotherScenario) {
  const ProgramIs program(SHARDSCOPE_PROGRAM);
  const ScenarioPointer predicted = only_run(recordings / "fsdp1_gpt2");
  const ScratchFolder folder;
  for (const auto& entry : fs::directory_iterator(recordings / "fsdp1_gpt2"))
    if (entry.path().extension() == ".gz") fs::copy(entry.path(), folder.path());
  const ScenarioPointer imported = only_run(folder.path());
  ASSERT_FALSE(imported->match);
  const ScenarioPointer laid = lay_beside(*imported, *predicted);
  ASSERT_TRUE(laid->match);
  EXPECT_TRUE(laid->match->ranks[0].complete());
  EXPECT_EQ(laid->path, imported->path);
}

TEST(LayBeside, WantsATraceAndAPrediction) {
  const ScratchFolder folder;
  write_sample_run(folder.path());
  const ScenarioPointer run = open_run(folder.path());
  EXPECT_THROW(lay_beside(*run, *run), Error);
}

// The recordings of the real library that are not in this repository.
TEST(OpenImported, EveryRecordingOfTwoRanksMatchesItsPrediction) {
  const fs::path shared = fs::path(SOURCE_ROOT) / "../shared/data/pytorch/kineto/fsdp2_llama";
  if (!fs::exists(shared)) GTEST_SKIP() << "../shared is not there";
  const ProgramIs program(SHARDSCOPE_PROGRAM);
  const ScenarioPointer scenario = only_run(shared);
  ASSERT_TRUE(scenario->match);
  ASSERT_EQ(scenario->match->ranks.size(), 2U);
  for (const RankMatch& rank : scenario->match->ranks) EXPECT_TRUE(rank.complete()) << rank.file;
}

}  // namespace
}  // namespace shardscope::gui
