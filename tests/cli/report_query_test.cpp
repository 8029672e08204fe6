// shardscope report --sql
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace shardscope::testing {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

/// Two kernels of a device, 3 us and 5 us, and an operator of the host.
constexpr const char* trace = R"({"schemaVersion": 1, "distributedInfo": {"rank": 4},
  "traceEvents": [
    {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 10, "dur": 3,
     "args": {"device": 0, "stream": 7, "correlation": 1}},
    {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 20, "dur": 5,
     "args": {"device": 0, "stream": 7, "correlation": 2}},
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0, "dur": 9}]})";

class ReportQuery : public ::testing::Test {
 protected:
  void SetUp() override {
    workplace_.write("t.pt.trace.json", trace);
    if (ask("select 1", "").code == 3) GTEST_SKIP() << "built without SQLite";
  }
  Outcome ask(const std::string& sql, const std::string& more) {
    return workplace_.run("report t.pt.trace.json --sql \"" + sql + "\" " + more);
  }
  Workplace workplace_;
};

TEST_F(ReportQuery, AnswersOverTheTraceOfAnotherTool) {
  const Outcome outcome =
      ask("select name, rank, count(*) as runs, sum(duration_ns) as sum_ns, "
          "0.5 as half, null as absent from spans group by name",
          "--json");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const Json json = Json::parse(outcome.output);
  EXPECT_EQ(json["schema"], "shardscope.query/1");
  EXPECT_EQ(json["columns"], Json({"name", "rank", "runs", "sum_ns", "half", "absent"}));
  EXPECT_EQ(json["rows"], Json::parse(R"([["gemm", 4, 2, 8000, 0.5, null]])"));
  EXPECT_EQ(json["is_cut"], false);
}

TEST_F(ReportQuery, EventsHaveTheHostsOperatorsToo) {
  const Outcome outcome =
      ask("select name, thread, duration_ns from events where category = "
          "'cpu_op'",
          "--json");
  EXPECT_EQ(Json::parse(outcome.output)["rows"], Json::parse(R"([["aten::mm", "1", 9000]])"));
}

TEST_F(ReportQuery, PrintsATable) {
  const Outcome outcome = ask("select name, duration_ns from spans order by 2 desc", "");
  EXPECT_EQ(outcome.output,
            "  name  duration_ns\n"
            "  gemm         5000\n"
            "  gemm         3000\n");
}

TEST_F(ReportQuery, WhatIsWrongIsOneLineWithTheTables) {
  for (const char* sql : {"select x from spans", "drop table spans", "attach 'x' as y", "",
                          "select 1; select 2", "select hex(zeroblob(1000000000))"}) {
    const Outcome outcome = ask(sql, "");
    EXPECT_EQ(outcome.code, 2) << sql;
    EXPECT_EQ(lines_of(outcome.errors), 1U) << outcome.errors;
  }
  EXPECT_THAT(ask("select x from spans", "").errors, HasSubstr("no such column: x"));
  EXPECT_FALSE(workplace_.has("x")) << "no file is made";
}

TEST_F(ReportQuery, DoesNotGoWithAReport) {
  EXPECT_EQ(ask("select 1", "-o report.html").code, 2);
  EXPECT_EQ(ask("select 1", "--definitions hta").code, 2);
}

TEST_F(ReportQuery, AsksBothSidesOfARunFolder) {
  set_up_tiny_job(workplace_);
  ASSERT_EQ(workplace_
                .run("simulate --model model --strategy full_shard --world 2 --batch 2 --seq 8 "
                     "--cluster h100_sxm -o run")
                .code,
            0);
  const Outcome simulated = workplace_.run(
      "simulate --model model --strategy full_shard --world 2 --batch 2 --seq 8 --cluster h100_sxm "
      "--json");
  const Outcome outcome = workplace_.run(
      "report run --json --sql \"select side, max(allocated), (select count(*) > 0 from buffers) "
      "from memory group by side\"");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const Json peak = Json::parse(simulated.output)["memory"]["peak_allocated_bytes"];
  EXPECT_EQ(Json::parse(outcome.output)["rows"],
            Json::array({Json::array({"predicted", peak, 1})}));
}

}  // namespace
}  // namespace shardscope::testing
