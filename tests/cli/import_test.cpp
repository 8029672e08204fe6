// shardscope import: run folders of what others recorded.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace shardscope::testing {
namespace {

using Json = nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string event(const std::string& name, int begin, int length, int device = 0) {
  return R"({"ph": "X", "cat": "kernel", "name": ")" + name + R"(", "pid": 0, "tid": 7, "ts": )" +
         std::to_string(begin) + R"(, "dur": )" + std::to_string(length) +
         R"(, "args": {"device": )" + std::to_string(device) + R"(, "stream": 7}})";
}

std::string on_host(const std::string& category, const std::string& name, int begin, int length) {
  return R"({"ph": "X", "cat": ")" + category + R"(", "name": ")" + name +
         R"(", "pid": 9, "tid": 9, "ts": )" + std::to_string(begin) + R"(, "dur": )" +
         std::to_string(length) + "}";
}

std::string step(int number, int begin, int length) {
  return on_host("user_annotation", "ProfilerStep#" + std::to_string(number), begin, length);
}

/// Steps of 100, 120 and 150 us with kernels of 40, 30 and 20 us.
std::string trace_of(int rank) {
  return R"({"schemaVersion": 1, "distributedInfo": {"rank": )" + std::to_string(rank) +
         R"(, "world_size": 2}, "deviceProperties": [{"id": 0, "totalGlobalMem": 1000000}],
"traceEvents": [)" +
         event("gemm", 10, 40) + "," + event("gemm", 110, 30) + "," + event("gemm", 230, 20) + "," +
         step(4, 0, 100) + "," + step(5, 100, 120) + "," + step(6, 220, 150) + "]}";
}

/// The ranks of a report less what names them.
std::vector<Json> figures_of(const Workplace& workplace, const std::string& path) {
  std::vector<Json> ranks = Json::parse(workplace.run("report --json " + path).output).at("ranks");
  for (Json& rank : ranks) {
    rank.erase("file");
    rank.erase("rank");
    rank.erase("streams");  // one that computes and communicates becomes two tracks
  }
  return ranks;
}

TEST(Import, LeavesARunFolderWithASummaryOfTheSteadyStep) {
  const Workplace workplace;
  workplace.write("a.json", trace_of(1));
  workplace.write("b.json", trace_of(0));
  const Outcome outcome = workplace.run("import a.json b.json -o theirs");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_THAT(workplace.files(), ElementsAre("a.json", "b.json", "theirs"));
  EXPECT_TRUE(workplace.has("theirs/trace.1.json.gz"));
  const Json summary = Json::parse(workplace.read("theirs/summary.json"));
  EXPECT_EQ(summary.at("step_time_ns"), 120000);  // the lower median of 120 and 150
  EXPECT_EQ(summary.at("time").at("compute_ns"), 30000);
  EXPECT_EQ(summary.at("world"), 2);
  EXPECT_EQ(summary.at("device_memory_bytes"), 1000000);
  EXPECT_EQ(Json::parse(workplace.read("theirs/report.json")).at("ranks").size(), 2u);
  EXPECT_EQ(workplace.run("compare theirs").code, 0);
}

TEST(Import, LeavesAnEarlierRunAsItWasWhereATraceCannotBeRead) {
  const Workplace workplace;
  workplace.write("a.json", trace_of(0));
  ASSERT_EQ(workplace.run("import a.json -o theirs").code, 0);
  const std::string before = workplace.read("theirs/summary.json");
  workplace.write("b.json", "nothing of ours");
  const Outcome outcome = workplace.run("import b.json -o theirs");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("b.json"));
  EXPECT_EQ(workplace.read("theirs/summary.json"), before);
  EXPECT_THAT(workplace.files(), ElementsAre("a.json", "b.json", "theirs"));
}

TEST(Import, KeepsWhatTheHostDidWhereNoDeviceIsInTheTrace) {
  const Workplace workplace;
  workplace.write("a.json", R"({"schemaVersion": 1, "traceEvents": [)" +
                                on_host("cpu_op", "aten::mm", 110, 30) + "," +
                                on_host("user_annotation", "gloo:all_reduce", 125, 30) + "," +
                                on_host("python_function", "train.py", 105, 90) + "," +
                                step(4, 0, 100) + "," + step(5, 100, 120) + "," +
                                step(6, 220, 150) + "]}");
  ASSERT_EQ(workplace.run("import a.json -o theirs").code, 0);
  const Json summary = Json::parse(workplace.read("theirs/summary.json"));
  EXPECT_EQ(summary.at("step_time_ns"), 120000);
  EXPECT_EQ(summary.at("time").at("compute_ns"), 30000);
  EXPECT_EQ(summary.at("time").at("exposed_communication_ns"), 15000);  // 140 to 155
  const std::vector<Json> figures = figures_of(workplace, "theirs");
  ASSERT_EQ(figures.size(), 1u);
  EXPECT_EQ(figures[0].at("span_ns"), 370000);
  EXPECT_EQ(figures, figures_of(workplace, "a.json"));
}

TEST(Import, KeepsTheDevicesOfAFileApart) {
  const Workplace workplace;
  workplace.write("a.json", R"({"schemaVersion": 1, "traceEvents": [)" + event("gemm", 10, 40, 0) +
                                "," + event("ncclDevKernel_AllReduce", 60, 20, 0) + "," +
                                event("gemm", 55, 40, 1) + "]}");
  ASSERT_EQ(workplace.run("import a.json -o theirs").code, 0);
  const std::vector<Json> figures = figures_of(workplace, "theirs");
  ASSERT_EQ(figures.size(), 2u);
  EXPECT_EQ(figures[0].at("overlap_ns"), 0);
  EXPECT_EQ(figures, figures_of(workplace, "a.json"));
  EXPECT_EQ(Json::parse(workplace.read("theirs/summary.json")).at("world"), 2);
}

TEST(Import, KeepsRanksThatTheFilesNameOnceEachWithGaps) {
  const Workplace workplace;
  workplace.write("a.json", trace_of(3));
  workplace.write("b.json", trace_of(1));
  const Outcome outcome = workplace.run("import a.json b.json -o theirs");
  ASSERT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.errors, Not(HasSubstr("numbered")));
  EXPECT_TRUE(workplace.has("theirs/trace.1.json.gz"));
  EXPECT_TRUE(workplace.has("theirs/trace.3.json.gz"));
  EXPECT_EQ(Json::parse(workplace.read("theirs/report.json")).at("ranks")[0].at("rank"), 3);
  workplace.write("b.json", trace_of(3));
  EXPECT_THAT(workplace.run("import a.json b.json -o theirs").errors, HasSubstr("numbered"));
  EXPECT_TRUE(workplace.has("theirs/trace.0.json.gz"));
}

TEST(Report, RefusesTracesOfSeveralRuns) {
  const Workplace workplace;
  workplace.write("in/a.json", trace_of(0));
  workplace.write("in/b.json", trace_of(1));
  EXPECT_THAT(workplace.run("report in").errors, Not(HasSubstr("runs")));
  workplace.write("in/other.json", trace_of(1));
  for (const std::string verb : {"report in", "import in -o out"}) {
    const Outcome refused = workplace.run(verb);
    EXPECT_EQ(refused.code, 2) << verb;
    EXPECT_EQ(refused.output, "") << verb;
    EXPECT_THAT(refused.errors, HasSubstr("in: holds traces of 2 runs (a.json, other.json); "));
    EXPECT_THAT(refused.errors, HasSubstr("--one-run"));
  }
  EXPECT_FALSE(workplace.has("out"));
  EXPECT_THAT(workplace.run("import in/b.json in/other.json -o named").errors,
              HasSubstr("the traces are of 2 runs (b.json, other.json)"));
  const Json merged = Json::parse(workplace.run("report in --one-run --json").output);
  EXPECT_EQ(merged["ranks"].size(), 3U);
}

// 500,000 events take 46 bytes each in columns, 22 MiB, and 4 to be laid out; the program itself
// some 20 MiB.
TEST(Report, RefusesMoreEventsThanItsMemoryAllows) {
  const Workplace workplace;
  std::string text = R"({"traceEvents": [)";
  for (int i = 0; i < 500'000; ++i)
    text += std::string(i == 0 ? "" : ",") + R"({"ph":"X","name":"a","ts":)" + std::to_string(i) +
            R"(,"dur":1})";
  workplace.write("many.json", text + "]}");
  const Outcome refused = workplace.run("report many.json --memory '32 MiB'");
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.output, "");
  EXPECT_THAT(refused.errors, HasSubstr("many.json: "));
  EXPECT_THAT(refused.errors, HasSubstr("allow more than 32.0 MiB with --memory"));
  EXPECT_EQ(workplace.run("report many.json").code, 0);
  EXPECT_THAT(workplace.run("report many.json --memory 5").errors, HasSubstr("--memory"));
}

TEST(Import, NamesEveryFileOfAFolderThatItDidNotRead) {
  const Workplace workplace;
  workplace.write("in/a.json", trace_of(0));
  workplace.write("in/empty.json", "");
  workplace.write("in/garbage.json.gz", "nothing of ours");
  workplace.write("in/graph.txt", R"({"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": []})");
  workplace.write("in/notes.txt", "nothing that looks like a trace");
  workplace.write("in/settings.json", "{}");
  ASSERT_EQ(workplace.run("import in -o theirs").code, 0);
  const Json report = Json::parse(workplace.read("theirs/report.json"));
  EXPECT_THAT(report.at("import").at("left_out").get<std::vector<std::string>>(),
              ElementsAre(HasSubstr("empty.json: empty"), HasSubstr("garbage.json.gz: not a trace"),
                          HasSubstr("graph.txt: an execution trace")));
}

TEST(Import, LeavesOutOneOfSeveralFilesAsOneOfAFolder) {
  const Workplace workplace;
  workplace.write("a.json", trace_of(0));
  workplace.write("b.json", "nothing of ours");
  workplace.write("c.json", "");
  const Outcome outcome = workplace.run("import a.json b.json -o theirs");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr("left out: b.json: not a trace"));
  EXPECT_EQ(workplace.run("import b.json c.json -o none").code, 2);
  EXPECT_EQ(workplace.run("import a.json not_there.json -o none").code, 2);
  EXPECT_FALSE(workplace.has("none"));
}

TEST(Report, NamesTheFileThatLostEvents) {
  const Workplace workplace;
  workplace.write("in/a.json", trace_of(0));
  workplace.write("in/b.json", R"({"schemaVersion": 1, "traceEvents": [)" + event("gemm", 0, 9) +
                                   R"(, {"ph": "X", "name": "lost"}]})");
  const std::string text = workplace.run("report in --one-run").output;
  EXPECT_THAT(text, HasSubstr("a.json (kineto): 6 of 6 events"));
  EXPECT_THAT(text, HasSubstr("b.json (kineto): 1 of 2 events; 1 lost"));
}

TEST(Compare, OfAnImportSaysNothingOfMemoryThatTheTraceDoesNotTell) {
  const Workplace workplace;
  workplace.write("a.json", trace_of(0));
  ASSERT_EQ(workplace.run("import a.json -o theirs").code, 0);
  EXPECT_THAT(workplace.run("compare theirs").output, Not(HasSubstr("0 B")));
  EXPECT_THAT(workplace.run("compare theirs theirs").output, Not(HasSubstr("0 B")));
}

TEST(Report, ChecksTheNameOfItsFileFirst) {
  const Workplace workplace;
  const Outcome outcome = workplace.run("report not_there.json -o a.xyz");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.errors, HasSubstr(".pftrace"));
}

TEST(Import, ReplacesAnEarlierImportWhole) {
  const Workplace workplace;
  workplace.write("a.json", trace_of(0));
  workplace.write("b.json", trace_of(1));
  ASSERT_EQ(workplace.run("import a.json b.json -o theirs").code, 0);
  ASSERT_EQ(workplace.run("import a.json -o theirs/").code, 0);
  EXPECT_FALSE(workplace.has("theirs/trace.1.json.gz"));
  EXPECT_THAT(workplace.files(), ElementsAre("a.json", "b.json", "theirs"));
}

TEST(Import, TouchesNoFolderThatHoldsSomethingElse) {
  const Workplace workplace;
  workplace.write("a.json", trace_of(0));
  workplace.write("run/summary.json", R"({"schema": "shardscope.train/1"})");
  workplace.write("theirs.importing/notes.txt", "mine");
  const Outcome outcome = workplace.run("import a.json -o run");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("give a folder that is not there yet"));
  EXPECT_THAT(workplace.read("run/summary.json"), HasSubstr("train/1"));
  ASSERT_EQ(workplace.run("import a.json -o theirs").code, 0);
  workplace.write("theirs/notes.txt", "mine");
  EXPECT_EQ(workplace.run("import a.json -o theirs").code, 2);
  EXPECT_TRUE(workplace.has("theirs/notes.txt"));
  EXPECT_TRUE(workplace.has("theirs.importing/notes.txt"));
}

TEST(Import, NeverWritesWhereItReads) {
  const Workplace workplace;
  workplace.write("self/trace.0.json.gz", trace_of(0));
  workplace.write("self/report.json", R"({"schema":"shardscope.report/1"})");
  for (const char* source : {"self", "self/trace.0.json.gz"}) {
    const Outcome outcome = workplace.run(std::string("import ") + source + " -o self");
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.errors, HasSubstr("lies in it"));
  }
  EXPECT_EQ(workplace.read("self/trace.0.json.gz"), trace_of(0));
}

TEST(Import, OfMemoryAloneSaysThatThereIsNoTrace) {
  const Workplace workplace;
  // A raw timeline: time, action (1: was there, 2: created), bytes, category.
  workplace.write("memory.json", "[[-1, 1, 100, 0], [1000, 2, 30, 3]]");
  const Outcome outcome = workplace.run("import memory.json -o theirs");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr("no trace: report.json in theirs"));
}

}  // namespace
}  // namespace shardscope::testing
