#include "backend/watch/flight_record.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace shardscope {
namespace {

FlightSnapshot two_calls() {
  FlightRecorder recorder;
  const std::size_t all = recorder.add_group({0, 1});
  recorder.announce({.operation = "all_gather", .unit = "h.0", .bytes = {64}}, all);
  recorder.complete(recorder.call(
      {.operation = "all_gather", .group = all, .bytes = {64}, .dtype = Dtype::bfloat16}));
  recorder.start(recorder.call({.operation = "send", .group = all, .bytes = {8}, .peer = 1}));
  return recorder.snapshot();
}

TEST(FlightRecord, HasTheDocumentedKeys) {
  const auto json = nlohmann::json::parse(
      to_json(FlightRecord{.rank = 0,
                           .world = 2,
                           .deadline = {2'000'000'000},
                           .verdict = {.late = {1}, .cause = "rank 1 is late", .doing = "all wait"},
                           .snapshot = two_calls()}));
  EXPECT_EQ(json["schema"], "shardscope.flight/1");
  EXPECT_EQ(json["rank"], 0);
  EXPECT_EQ(json["world"], 2);
  EXPECT_EQ(json["deadline_ns"], 2'000'000'000);
  EXPECT_EQ(json["late_ranks"], nlohmann::json({1}));
  EXPECT_EQ(json["cause"], "rank 1 is late");
  EXPECT_EQ(json["groups"][0]["name"], "0,1");
  const auto& gather = json["operations"][0];
  EXPECT_EQ(gather["sequence"], 1);
  EXPECT_EQ(gather["operation"], "all_gather");
  EXPECT_EQ(gather["unit"], "h.0");
  EXPECT_EQ(gather["group_call"], 1);
  EXPECT_EQ(gather["bytes"], 64);
  EXPECT_EQ(gather["dtype"], "bfloat16");
  EXPECT_EQ(gather["state"], "completed");
  EXPECT_GE(gather["completed_ns"], gather["scheduled_ns"]);
  // After 2020, before 2100: Unix time, not that of the steady clock.
  EXPECT_GT(gather["scheduled_ns"], 1'577'836'800'000'000'000);
  EXPECT_LT(gather["scheduled_ns"], 4'102'444'800'000'000'000);
  const auto& send = json["operations"][1];
  EXPECT_EQ(send["state"], "started");
  EXPECT_EQ(send["peer"], 1);
  for (const char* key : {"unit", "group_call", "dtype", "completed_ns"})
    EXPECT_TRUE(send[key].is_null()) << key;
}

TEST(RankStatement, IsReadBack) {
  const auto report = parse_report(to_json(report_of(two_calls())));
  ASSERT_TRUE(report && report->doing && report->last);
  EXPECT_EQ(report->doing->operation, "send");
  EXPECT_EQ(report->doing->peer, 1);
  EXPECT_EQ(report->last->unit, "h.0");
  EXPECT_EQ(report->last->dtype, Dtype::bfloat16);
  ASSERT_EQ(report->groups.size(), 1U);
  EXPECT_EQ(report->groups[0].ranks, (std::vector<int>{0, 1}));
  EXPECT_EQ(report->groups[0].calls, 1U);
}

TEST(RankStatement, OthersTextIsNone) {
  for (const char* text : {"", "{}", "[]", "null", "{\"doing\": 1, \"last\": null, \"groups\": []}",
                           "{\"doing\": null, \"last\": null, \"groups\": [1]}"})
    EXPECT_FALSE(parse_report(text)) << text;
}

TEST(Verdict, IsReadBack) {
  const auto verdict = parse_verdict(
      to_json(Verdict{.late = {2}, .cause = "c", .doing = "d", .silent = {2, 3}, .answered = 5}));
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->late, (std::vector<int>{2}));
  EXPECT_EQ(verdict->cause, "c");
  EXPECT_EQ(verdict->doing, "d");
  EXPECT_EQ(verdict->silent, (std::vector<int>{2, 3}));
  EXPECT_EQ(verdict->answered, 5);
  EXPECT_FALSE(parse_verdict("{}"));
}

}  // namespace
}  // namespace shardscope
