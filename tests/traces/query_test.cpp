#include "traces/query/query.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/traces/snapshot_text.h"

namespace shardscope {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Row = std::vector<QueryValue>;

std::string text(const char* value) { return value; }
std::int64_t number(std::int64_t value) { return value; }

/// Rank 3: compute of unit a in [0, 60) ns and its all_gather in [40, 100), 7 bytes held from 20
/// on.
QueryRun small_run() {
  Trace trace;
  trace.rank = 3;
  trace.names = {"gemm", "all_gather a"};
  trace.tracks = {{.name = "compute", .stream = Stream::compute},
                  {.name = "nccl", .stream = Stream::unshard}};
  trace.spans = {
      {.start = {0}, .duration = {60}, .name = 0, .track = 0, .operation = {1}, .step = 2},
      {.start = {40},
       .duration = {60},
       .name = 1,
       .track = 1,
       .span_class = SpanClass::communication,
       .operation = {2},
       .step = 2}};
  trace.facts = {{.operation = {1}, .name = "gemm", .phase = Phase::forward, .unit = "a"},
                 {.operation = {2},
                  .name = "all_gather a",
                  .kind = OperationKind::all_gather,
                  .phase = Phase::forward,
                  .unit = "a",
                  .bytes = {8192}}};
  MemorySample sample{.time = {20}, .operation = {1}};
  sample.live[MemoryCategory::gradients] = {7};
  trace.memory = {sample};
  return {.scenario = "one",
          .side = "profiled",
          .ranks = {std::make_shared<const Trace>(trace)},
          .buffers = {{.name = "w", .unit = "a", .bytes = {5}, .allocated_by = {1}}}};
}

std::vector<Row> rows_of(const std::string& sql) { return run_query({small_run()}, sql).rows; }

std::string error_of(const std::string& sql, const QueryLimits& limits = {}) {
  try {
    run_query({small_run()}, sql, limits);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Query, SpansHaveWhatTheirOperationIs) {
  EXPECT_THAT(rows_of("select rank, id, name, stream, class, step, start_ns, end_ns, kind, phase, "
                      "unit, bytes from spans where class = 'communication'"),
              ElementsAre(Row{number(3), number(1), text("all_gather a"), text("unshard"),
                              text("communication"), number(2), number(40), number(100),
                              text("all_gather"), text("forward"), text("a"), number(8192)}));
}

TEST(Query, StepsAndUnitsAreAccountedAsElsewhere) {
  // 100 ns: 60 of compute, 40 of the collective exposed.
  EXPECT_THAT(
      rows_of("select step, duration_ns, compute_ns, exposed_communication_ns, idle_ns, "
              "overlap_ns from steps"),
      ElementsAre(Row{number(2), number(100), number(60), number(40), number(0), number(20)}));
  EXPECT_THAT(rows_of("select unit, compute_ns, exposed_communication_ns from units"),
              ElementsAre(Row{text("a"), number(60), number(40)}));
}

TEST(Query, MemoryIsByCategory) {
  EXPECT_THAT(rows_of("select start_ns, allocated, gradients, parameters, active from memory"),
              ElementsAre(Row{number(20), number(7), number(7), number(0), std::monostate{}}));
}

TEST(Query, TablesCanBeJoined) {
  EXPECT_THAT(rows_of("select b.name, s.name from buffers b join spans s on s.operation = "
                      "b.allocated_by"),
              ElementsAre(Row{text("w"), text("gemm")}));
}

TEST(Query, AllocationsOfASnapshotHaveTheirFrame) {
  QueryRun run;
  run.snapshots = {std::make_shared<const MemorySnapshot>(samples::snapshot(
      {}, {samples::event("alloc", 1, 10, {samples::frame("model.py", 12, "forward")}),
           samples::event("free_completed", 1, 10), samples::event("alloc", 2, 5)}))};
  EXPECT_THAT(
      run_query({run}, "select bytes, frame, category, alive_at_end from allocations").rows,
      ElementsAre(Row{number(10), text("model.py:12:forward"), text("activations"), number(0)},
                  Row{number(5), text(""), std::monostate{}, number(1)}));
}

TEST(Query, SaysWhichTablesThereAre) {
  const auto names = rows_of("select distinct name from tables order by name");
  EXPECT_THAT(names, ElementsAre(Row{text("allocations")}, Row{text("buffers")},
                                 Row{text("events")}, Row{text("memory")}, Row{text("spans")},
                                 Row{text("steps")}, Row{text("units")}));
  EXPECT_THAT(error_of("select x from nowhere"), HasSubstr("no such table: nowhere"));
  EXPECT_THAT(error_of("select x from nowhere"), HasSubstr("spans, units"));
}

TEST(Query, ReadsAndNothingElse) {
  for (const char* sql :
       {"insert into spans values (1)", "delete from spans", "create table t(x)",
        "attach 'x.db' as x", "pragma temp_store = 1", "vacuum", "drop table spans",
        "select load_extension('x')", "create temp view v as select 1", "begin"})
    EXPECT_NE(error_of(sql), "") << sql;
  EXPECT_THAT(error_of("attach 'x.db' as x"), HasSubstr("only reading is allowed"));
  EXPECT_THAT(error_of("select 1; select 2"), HasSubstr("more than one statement"));
  EXPECT_THAT(error_of("  "), HasSubstr("there is no statement"));
}

TEST(Query, StopsAtItsLimits) {
  constexpr const char* many =
      "with recursive n(i) as (select 1 union all select i + 1 from n) select i from n";
  const QueryResult cut = run_query({}, many, {.rows = 5});
  EXPECT_EQ(cut.rows.size(), 5u);
  EXPECT_TRUE(cut.is_cut);
  EXPECT_FALSE(run_query({}, "select 1", {.rows = 5}).is_cut);
  EXPECT_THAT(error_of(std::string("select count(*) from (") + many + ")",
                       {.time = std::chrono::milliseconds(50)}),
              HasSubstr("ran longer than 0.05 s"));
  EXPECT_NE(error_of("select hex(zeroblob(1000000000))"), "");
}

TEST(Query, StopsWhenItIsAskedTo) {
  std::stop_source stop;
  stop.request_stop();
  try {
    run_query({}, "with recursive n(i) as (select 1 union all select i + 1 from n) select i from n",
              {}, stop.get_token());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::interrupted);
  }
}

}  // namespace
}  // namespace shardscope
