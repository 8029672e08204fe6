#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "tests/traces/sample_traces.h"
#include "traces/chrome_reader.h"
#include "traces/chrome_writer.h"
#include "traces/gzip.h"

namespace shardscope {
namespace {

using samples::add_span;
using samples::empty_trace;
using samples::two_steps;
using testing::HasSubstr;

std::filesystem::path temporary(const std::string& name) {
  return std::filesystem::path(testing::TempDir()) /
         ("shardscope_" + std::to_string(::getpid()) + "_" + name);
}

/// Events of the written JSON that have this value under this key.
std::vector<nlohmann::json> events_with(const Trace& trace, const std::string& key,
                                        const std::string& value) {
  std::vector<nlohmann::json> found;
  const auto json = nlohmann::json::parse(chrome_trace_json(trace));
  for (const auto& event : json["traceEvents"]) {
    if (event.value(key, "") == value) found.push_back(event);
  }
  return found;
}

TEST(ChromeTrace, ReadsBackToTheSameTrace) {
  for (const TraceKind kind : {TraceKind::predicted, TraceKind::profiled}) {
    const Trace trace = two_steps(kind);
    EXPECT_EQ(parse_chrome_trace(chrome_trace_json(trace), "t").trace, trace);
  }
}

TEST(ChromeTrace, ReadsBackOddNamesTimesAndSpansWithoutFacts) {
  Trace trace = empty_trace();
  trace.names = {"a \"quoted\" \\ name\n", "ProfilerStep#3", "größe €"};
  trace.local_rank = 1;
  add_span(trace, SpanClass::compute, 1, -1, 0).name = 2;
  add_span(trace, SpanClass::communication, 2, 999, 1000).operation = {77};
  add_span(trace, SpanClass::annotation, 0, 0, 1).name = 1;
  add_span(trace, SpanClass::annotation, 1, 0, 1).name = 1;
  add_span(trace, SpanClass::host, 1, 5, 5);
  add_span(trace, SpanClass::compute, 1, 1125899906842623, 1125899906842624);  // 2^50 ns
  trace.memory.push_back({.time = {3}, .operation = {}, .live = {}});
  trace.memory.push_back(
      {.time = {4}, .operation = {}, .live = {}, .active = {1024}, .reserved = {2'097'152}});
  EXPECT_EQ(parse_chrome_trace(chrome_trace_json(trace), "t").trace, trace);
}

/// What instruments add: a counter, measures of two spans, facts about the recording.
Trace measured_trace() {
  Trace trace = two_steps();
  trace.counters = {{.name = "resident_bytes", .samples = {{{5}, 4096}, {{70}, 1 << 20}}},
                    {.name = "power \"W\"", .samples = {}}};
  trace.measures = {"instructions", "waiting_ns"};
  trace.span_measures = {{.span = 1, .measure = 0, .value = 1'000'000'007},
                         {.span = 3, .measure = 0, .value = -1},
                         {.span = 3, .measure = 1, .value = 250}};
  trace.recording = {.clock = "one clock per host",
                     .clock_residual = Duration{1500},
                     .dropped_records = 3,
                     .notes = {"no cycles: perf_event_paranoid is 4"},
                     .memory = {{.owner = "arena", .planned = 4_KiB, .held = 3_KiB},
                                {.owner = "NCCL \"x\"",
                                 .place = MemoryHolder::Place::device,
                                 .held = Bytes{-5},
                                 .recorded = 0_B}}};
  return trace;
}

TEST(ChromeTrace, ReadsBackCountersMeasuresAndFactsOfTheRecording) {
  EXPECT_EQ(parse_chrome_trace(chrome_trace_json(measured_trace()), "t").trace, measured_trace());
}

TEST(ChromeTrace, GivesMeasuresToTheirSpansAndCountersToTheHost) {
  const auto json = events_with(measured_trace(), "name", "resident_bytes");
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json[1]["args"]["resident_bytes"], 1 << 20);
  EXPECT_EQ(json[1]["ph"], "C");
  // Span 3 is the host's, of the backward; its kernel is span 4.
  const auto launches = events_with(measured_trace(), "cat", "cuda_runtime");
  EXPECT_EQ(std::ranges::count_if(
                launches,
                [](const auto& event) {
                  return event["args"]["shardscope"].value("measures", nlohmann::json()) ==
                         nlohmann::json{{"instructions", -1}, {"waiting_ns", 250}};
                }),
            1);
  const auto kernels = events_with(measured_trace(), "name", "h.0.backward");
  EXPECT_EQ(kernels.at(0)["args"]["shardscope"].count("measures"), 0u);
}

TEST(ChromeTrace, CountsCountersAndMeasuresThatItCannotRead) {
  Trace trace = empty_trace();
  trace.counters = {{.name = "resident_bytes", .samples = {}}};
  trace.measures = {"cycles"};
  const std::string header = chrome_trace_json(trace);
  const std::string events =
      R"("traceEvents": [
    {"ph": "C", "ts": 1, "args": {"resident_bytes": 1}, "shardscope": {"counter": 1}},
    {"ph": "C", "ts": 1, "args": {"resident_bytes": 1.5}, "shardscope": {"counter": 0}},
    {"ph": "X", "ts": 1, "dur": 1, "args": {"shardscope": {"class": "compute", "track": 1, "name": "n", "step": 1, "measures": {"joules": 1}}}},
    {"ph": "X", "ts": 1, "dur": 1, "args": {"shardscope": {"class": "compute", "track": 1, "name": "n", "step": 1, "measures": {"cycles": 1e30}}}} ])";
  const std::size_t begin = header.find("\"traceEvents\""),
                    end = header.find("],\n\"traceName\"") + 1;
  const OwnTrace read =
      parse_chrome_trace(header.substr(0, begin) + events + header.substr(end), "t");
  EXPECT_EQ(read.statistics.events_kept, 0);
  EXPECT_EQ(read.statistics.skipped.at("a counter with a wrong field"), 2);
  EXPECT_EQ(read.statistics.skipped.at("a span with a wrong field"), 2);
  EXPECT_TRUE(read.trace.span_measures.empty());
}

TEST(ChromeTrace, ReadsBackHowACollectiveWasMoved) {
  Trace trace = two_steps();
  for (OperationFacts& facts : trace.facts)
    if (is_collective(facts.kind)) facts.choice = {"RING", "LL128", 12};
  EXPECT_EQ(parse_chrome_trace(chrome_trace_json(trace), "t").trace, trace);
  EXPECT_THAT(chrome_trace_json(trace),
              HasSubstr("\"algorithm\": \"RING\", \"protocol\": \"LL128\", \"channels\": 12"));
}

TEST(ChromeTrace, ReadsBackFromAGzipFile) {
  const auto path = temporary("trace.0.json.gz");
  write_chrome_trace(two_steps(), path);
  EXPECT_TRUE(is_gzip(read_whole(path)));
  EXPECT_EQ(read_chrome_trace(path).trace, two_steps());
  std::filesystem::remove(path);
}

TEST(ChromeTrace, WritesTheSameBytesTwice) {
  EXPECT_EQ(chrome_trace_json(two_steps()), chrome_trace_json(two_steps()));
}

TEST(ChromeTrace, WritesMicrosecondsWithThreeExactDecimals) {
  Trace trace = empty_trace();
  add_span(trace, SpanClass::compute, 1, 123456789012345, 123456789012350);
  add_span(trace, SpanClass::compute, 1, -1500, -1);
  const std::string json = chrome_trace_json(trace);
  EXPECT_THAT(json, HasSubstr("\"ts\": 123456789012.345, \"dur\": 0.005"));
  EXPECT_THAT(json, HasSubstr("\"ts\": -1.500, \"dur\": 1.499"));
}

TEST(ChromeTrace, HasKinetosEnvelope) {
  const auto json = nlohmann::json::parse(chrome_trace_json(two_steps()));
  EXPECT_EQ(json["schemaVersion"], 1);
  EXPECT_EQ(json["displayTimeUnit"], "ms");
  EXPECT_EQ(json["baseTimeNanoseconds"], 1763700000123456789);
  EXPECT_EQ(json["distributedInfo"]["rank"], 0);
  EXPECT_EQ(json["distributedInfo"]["world_size"], 2);
  EXPECT_EQ(json["distributedInfo"]["pg_config"][0]["ranks"], (std::vector<int>{0, 1}));
  EXPECT_EQ(json["distributedInfo"]["pg_config"][0]["pg_desc"], "shard");
}

TEST(ChromeTrace, NamesCollectivesAsNcclDoes) {
  std::vector<std::string> names;
  for (const auto& event : events_with(two_steps(), "cat", "kernel"))
    names.push_back(event["name"]);
  EXPECT_THAT(names,
              testing::Contains("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)")
                  .Times(2));
  EXPECT_THAT(names,
              testing::Contains(
                  "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)")
                  .Times(2));
}

TEST(ChromeTrace, NamesCopiesByTheirDirectionAsKinetoDoes) {
  const std::pair<CopyWay, const char*> cases[] = {
      {CopyWay::within, "Memcpy DtoD (Device -> Device)"},
      {CopyWay::to_host, "Memcpy DtoH (Device -> Pinned)"},
      {CopyWay::to_device, "Memcpy HtoD (Pinned -> Device)"}};
  for (const auto& [way, name] : cases) {
    Trace trace = two_steps();
    const auto copy = std::ranges::find(trace.facts, "loss.copy", &OperationFacts::name);
    ASSERT_NE(copy, trace.facts.end());
    copy->way = way;
    const auto events = events_with(trace, "cat", "gpu_memcpy");
    ASSERT_EQ(events.size(), 2u);  // one a step
    for (const auto& event : events) EXPECT_EQ(event["name"], name);
    EXPECT_EQ(parse_chrome_trace(chrome_trace_json(trace), "t.json").trace, trace);
  }
}

TEST(ChromeTrace, GivesCollectivesRecordParamCommsArguments) {
  const auto args = events_with(two_steps(), "cat", "kernel").at(0)["args"];  // the all-gather
  EXPECT_EQ(args["Collective name"], "_allgather_base");
  EXPECT_EQ(args["In msg nelems"], 50);
  EXPECT_EQ(args["Out msg nelems"], 100);
  EXPECT_EQ(args["Group size"], 2);
  EXPECT_EQ(args["dtype"], "Float");
  EXPECT_EQ(args["Process Group Name"], "0");
  EXPECT_EQ(args["Process Group Description"], "shard");
  EXPECT_EQ(args["Process Group Ranks"], "[0, 1]");
  EXPECT_EQ(args["stream"], 3);  // track 2
  EXPECT_EQ(args["shardscope"]["operation"], 0);
  EXPECT_EQ(args["shardscope"]["unit"], "h.0");
}

TEST(ChromeTrace, TiesEachKernelToOneLaunch) {
  const Trace trace = two_steps();
  std::vector<std::int64_t> launches, kernels;
  for (const auto& event : events_with(trace, "cat", "cuda_runtime"))
    launches.push_back(event["args"]["correlation"]);
  for (const std::string category : {"kernel", "gpu_memcpy"}) {
    for (const auto& event : events_with(trace, "cat", category))
      kernels.push_back(event["args"]["correlation"]);
  }
  EXPECT_EQ(kernels.size(), 12u);  // two steps of six operations
  EXPECT_THAT(launches, testing::UnorderedElementsAreArray(kernels));
}

TEST(ChromeTrace, LaunchesFromOurHostSpanOfTheSameStep) {
  // The second step's forward begins at 115 us; its host span at 113 us.
  for (const auto& kernel : events_with(two_steps(), "name", "h.0.forward")) {
    if (kernel["ts"] != 115.0) continue;
    for (const auto& launch : events_with(two_steps(), "cat", "cuda_runtime")) {
      if (launch["args"]["correlation"] == kernel["args"]["correlation"]) {
        EXPECT_EQ(launch["ts"], 113.0);
      }
    }
  }
}

TEST(ChromeTrace, PairsFlowsByCorrelation) {
  std::map<std::int64_t, std::string> flows;
  for (const auto& event : events_with(two_steps(), "cat", "ac2g"))
    flows[event["id"]] += event["ph"];
  EXPECT_EQ(flows.size(), 12u);
  for (const auto& [id, phases] : flows) EXPECT_THAT(phases, testing::AnyOf("sf", "fs")) << id;
}

TEST(ChromeTrace, AnnotatesStepsOnHostAndDevice) {
  EXPECT_EQ(events_with(two_steps(), "name", "ProfilerStep#2").size(), 2u);
  EXPECT_EQ(events_with(two_steps(), "cat", "gpu_user_annotation").size(), 2u);
}

TEST(ChromeTrace, WritesMemoryAsCountersAndSignedInstants) {
  const auto instants = events_with(two_steps(), "name", "[memory]");
  EXPECT_EQ(instants.at(0)["args"]["Bytes"], 1400);  // from nothing to 1000 + 400
  EXPECT_EQ(instants.at(3)["args"]["Bytes"], -300);  // the activations go
  EXPECT_EQ(instants.at(3)["args"]["Total Allocated"], 1500);
  EXPECT_EQ(events_with(two_steps(), "ph", "C").at(2)["args"]["gradients"], 500);
}

TEST(ChromeTrace, CountsWhatItCannotRead) {
  const std::string header = chrome_trace_json(empty_trace());
  const std::string events =
      R"("traceEvents": [ 7, {"ph": "X", "name": "foreign", "ts": 1, "dur": 1},
    {"ph": "X", "ts": "x", "dur": 1, "args": {"shardscope": {"class": "compute", "track": 1, "name": "n", "step": 1}}},
    {"ph": "X", "ts": 1e300, "dur": 1, "args": {"shardscope": {"class": "compute", "track": 1, "name": "n", "step": 1}}},
    {"ph": "X", "ts": 1, "dur": 1, "args": {"shardscope": {"class": "compute", "track": 99, "name": "n", "step": 1}}},
    {"ph": "X", "ts": 1, "dur": 1, "args": {"shardscope": {"class": "compute", "track": 1, "name": "n", "step": 1}}} ])";
  const std::size_t begin = header.find("\"traceEvents\""),
                    end = header.find("],\n\"traceName\"") + 1;
  const OwnTrace read =
      parse_chrome_trace(header.substr(0, begin) + events + header.substr(end), "t");
  EXPECT_EQ(read.statistics.events_read, 6);
  EXPECT_EQ(read.statistics.events_kept, 1);
  EXPECT_EQ(read.statistics.skipped.at("not an object"), 1);
  EXPECT_EQ(read.statistics.skipped.at("not written by shardscope"), 1);
  EXPECT_EQ(read.statistics.skipped.at("a span without a usable time"), 2);
  EXPECT_EQ(read.statistics.skipped.at("a span with a wrong field"), 1);
  EXPECT_EQ(read.trace.spans.size(), 1u);
}

/// The Error's text, or "" when nothing is thrown.
template <class Action>
std::string error_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(ChromeTrace, RefusesAForeignTraceInOneLine) {
  const std::string text =
      error_of([] { parse_chrome_trace(R"({"traceEvents": []})", "foreign.json"); });
  EXPECT_THAT(text, HasSubstr("foreign.json"));
  EXPECT_THAT(text, HasSubstr("not a trace that shardscope wrote"));
  EXPECT_THAT(text, testing::Not(HasSubstr("\n")));
}

// Differences of two ranks' must fit.
TEST(ChromeTrace, RefusesABaseTimeOfAnotherAge) {
  Trace trace = empty_trace();
  for (const std::int64_t base :
       {std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()}) {
    trace.base_ns = base;
    EXPECT_THAT(error_of([&] { parse_chrome_trace(chrome_trace_json(trace), "t"); }),
                HasSubstr("baseTimeNanoseconds"));
  }
}

TEST(ChromeTrace, RefusesEveryCutOffGzip) {
  const auto path = temporary("cut.json.gz");
  GzipWriter gzip;
  gzip.append(chrome_trace_json(two_steps()));
  const std::string whole = gzip.finish();
  for (std::size_t size = 2; size < whole.size(); size += 97) {
    write_atomically(path, std::string_view(whole).substr(0, size));
    EXPECT_THAT(error_of([&] { read_chrome_trace(path); }), HasSubstr("cut off gzip stream"))
        << size;
  }
  std::filesystem::remove(path);
}

TEST(ChromeTrace, RefusesMoreTextThanTheLimit) {
  const auto path = temporary("bomb.json.gz");
  GzipWriter gzip;
  // NOLINTNEXTLINE(bugprone-string-constructor): longer than a block is meant
  gzip.append(std::string(10'000'000, ' '));
  write_atomically(path, gzip.finish());
  EXPECT_THAT(error_of([&] { read_chrome_trace(path, 1'000'000); }),
              HasSubstr("of text after decompression"));
  std::filesystem::remove(path);
}

TEST(Gzip, ReadsSeveralMembers) {
  GzipWriter first, second;
  first.append("one ");
  second.append("two");
  EXPECT_EQ(gunzip(first.finish() + second.finish(), 100, "t"), "one two");
}

}  // namespace
}  // namespace shardscope
