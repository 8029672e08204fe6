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

std::string event(const std::string& name, int begin, int length) {
  return R"({"ph": "X", "cat": "kernel", "name": ")" + name + R"(", "pid": 0, "tid": 7, "ts": )" +
         std::to_string(begin) + R"(, "dur": )" + std::to_string(length) +
         R"(, "args": {"device": 0, "stream": 7}})";
}

std::string step(int number, int begin, int length) {
  return R"({"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#)" +
         std::to_string(number) + R"(", "pid": 9, "tid": 9, "ts": )" + std::to_string(begin) +
         R"(, "dur": )" + std::to_string(length) + "}";
}

/// Steps of 100, 120 and 150 us with kernels of 40, 30 and 20 us.
std::string trace_of(int rank) {
  return R"({"schemaVersion": 1, "distributedInfo": {"rank": )" + std::to_string(rank) +
         R"(, "world_size": 2}, "deviceProperties": [{"id": 0, "totalGlobalMem": 1000000}],
"traceEvents": [)" +
         event("gemm", 10, 40) + "," + event("gemm", 110, 30) + "," + event("gemm", 230, 20) + "," +
         step(4, 0, 100) + "," + step(5, 100, 120) + "," + step(6, 220, 150) + "]}";
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
  const Outcome outcome = workplace.run("import a.json b.json -o theirs");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("b.json"));
  EXPECT_EQ(workplace.read("theirs/summary.json"), before);
  EXPECT_THAT(workplace.files(), ElementsAre("a.json", "b.json", "theirs"));
}

}  // namespace
}  // namespace shardscope::testing
