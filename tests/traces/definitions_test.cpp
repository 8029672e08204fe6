// HolisticTraceAnalysis' and TraceLens' definitions: what the tools themselves made of traces
// (tests/data/definitions/record.py).
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "core/format/atomic_file.h"
#include "traces/import/import.h"
#include "traces/import/trace_report.h"

namespace shardscope {
namespace {

using Json = nlohmann::json;

const std::filesystem::path source_root = SOURCE_ROOT;
const std::filesystem::path recorded = source_root / "tests/data/definitions";

/// The ranks of one case, which the tool saw in one folder.
std::vector<ImportedTrace> traces_of(const Json& files, const std::filesystem::path& folder) {
  std::vector<ImportedTrace> traces;
  for (const Json& file : files) {
    for (ImportedTrace& trace : import_traces(folder / file.get<std::string>()))
      traces.push_back(std::move(trace));
  }
  return traces;
}

/// HTA's idle time by stream and cause; it does not say in which order.
void expect_hta_idle(const TraceReport& report, std::int64_t rank, const Json& tool) {
  Json ours = Json::object();
  for (const IdleReport& of : report.idle) {
    if (of.rank != rank) continue;
    ours[*of.idle.stream] = {{"host_wait", of.idle.of(IdleCause::host).ns},
                             {"kernel_wait", of.idle.of(IdleCause::kernel_gap).ns},
                             {"other", of.idle.of(IdleCause::other).ns}};
  }
  EXPECT_EQ(ours, tool.at("idle_by_stream"));
}

void expect_hta(const TraceReport& report, const RankReport& rank, const Json& tool) {
  const Accounting& time = rank.time;
  EXPECT_EQ(time.span.ns, tool.at("span_ns"));
  EXPECT_EQ(time.compute.ns, tool.at("compute_ns"));
  EXPECT_EQ((time.exposed_communication + time.exposed_copy).ns, tool.at("non_compute_ns"));
  EXPECT_EQ(time.idle.ns, tool.at("idle_ns"));
  const Json& overlap = tool.at("overlap_share");
  if (overlap.is_null()) {
    EXPECT_EQ(time.communication.ns, 0);
  } else {
    EXPECT_NEAR(time.overlap.seconds() / time.communication.seconds(), overlap.get<double>(),
                1e-12);
  }
  expect_hta_idle(report, rank.rank, tool);
}

void expect_trace_lens(const TraceReport&, const RankReport& rank, const Json& tool) {
  EXPECT_EQ(rank.time.span.ns, tool.at("total_time"));
  EXPECT_EQ(rank.time.compute.ns, tool.at("computation_time"));
  EXPECT_EQ(rank.time.communication.ns, tool.at("total_comm_time"));
  EXPECT_EQ(rank.time.exposed_communication.ns, tool.at("exposed_comm_time"));
  EXPECT_EQ(rank.copies.ns, tool.at("total_memcpy_time"));
  EXPECT_EQ(rank.time.exposed_copy.ns, tool.at("exposed_memcpy_time"));
  EXPECT_EQ(rank.time.idle.ns, tool.at("idle_time"));
}

/// Compares each rank that the tool could read; returns how many.
template <class Expect>
int compare(const Json& figures, const TraceReport& report, const Expect& expect) {
  int compared = 0;
  for (const RankReport& rank : report.ranks) {
    const auto tool = figures.find(std::to_string(rank.rank));
    if (tool == figures.end() || tool->contains("error")) continue;
    SCOPED_TRACE(std::string(name_of(report.definitions)) + ", " + rank.file);
    expect(report, rank, *tool);
    ++compared;
  }
  return compared;
}

int compare_all(const Json& cases, const std::filesystem::path& folder) {
  int compared = 0;
  for (const Json& one : cases) {
    std::vector<ImportedTrace> traces = traces_of(one.at("files"), folder);
    const auto under = [&](Definitions definitions) {
      for (ImportedTrace& trace : traces) classify(trace, class_rules(definitions));
      return report_of(traces, {.definitions = definitions});
    };
    for (const Definitions hta : {Definitions::hta, Definitions::hta_exact})
      compared += compare(one.at(std::string(name_of(hta))), under(hta), expect_hta);
    compared += compare(one.at("trace_lens"), under(Definitions::trace_lens), expect_trace_lens);
  }
  return compared;
}

Json expected(const char* kind) {
  return Json::parse(read_whole(recorded / "expected.json")).at(kind);
}

TEST(DefinitionsOfTools, GiveWhatTheToolsGive) {
  EXPECT_EQ(compare_all(expected("small"), recorded), 12);  // 4 ranks, three definitions
}

TEST(DefinitionsOfTools, GiveWhatTheToolsGiveOfPublicTraces) {
  const auto folder = source_root / "../shared/data/traces";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no ../shared beside the project";
  EXPECT_EQ(compare_all(expected("public"), folder), 47);
}

}  // namespace
}  // namespace shardscope
