#include "traces/import/imported_summary.h"

#include <algorithm>
#include <charconv>

#include "traces/import/host_activity.h"
#include "traces/import/json_scanner.h"

namespace shardscope {
namespace {

constexpr std::string_view strategy = "imported";
constexpr std::string_view runtime = "pytorch";

/// Of the first device in the file's header.
std::optional<Bytes> device_memory(const ImportedTrace& trace) {
  std::optional<Bytes> memory;
  // A zero byte must follow what is scanned.
  const std::string devices(trace.header_text("deviceProperties"));
  for_each_element(devices, [&](std::string_view device) {
    for_each_member(device, [&](std::string_view key, std::string_view value) {
      std::int64_t bytes = 0;
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), bytes);
      if (key == "totalGlobalMem" && error == std::errc() && bytes > 0 && !memory)
        memory = Bytes{bytes};
    });
  });
  return memory;
}

void add_categories(const TraceReport& report, const RankReport& rank, MemorySummary& memory) {
  for (const MemoryReport& of : report.memory) {
    if (of.device != rank.device || of.peak_active != rank.peak_active) continue;
    for (const MemoryOwner& owner : of.categories) {
      const auto known =
          std::find_if(memory_categories.begin(), memory_categories.end(),
                       [&](MemoryCategory category) { return name_of(category) == owner.name; });
      if (known != memory_categories.end()) memory.at_peak[*known] = owner.bytes;
    }
    return;
  }
}

MemorySummary memory_of(const TraceReport& report, const RankReport& rank) {
  MemorySummary memory;
  memory.peak_allocated = rank.peak_allocated.value_or(Bytes{});
  memory.peak_active = rank.peak_active.value_or(memory.peak_allocated);
  memory.peak_reserved = rank.peak_reserved.value_or(memory.peak_active);
  if (rank.peak_active) add_categories(report, rank, memory);
  return memory;
}

/// Without steps the report's figures, which begin with the host's first annotation.
Summary host_summary(const ImportedTrace& trace, const Trace& spans, const RankReport& rank,
                     const RunFacts& facts) {
  if (!profiler_steps(trace).empty()) return summarize(as_device(spans), facts);
  Summary summary{.runtime = facts.runtime};
  summary.time = rank.time;
  summary.step_time = summary.step_time_low = summary.step_time_high = rank.time.span;
  return summary;
}

}  // namespace

Trace as_device(Trace spans) {
  for (Track& track : spans.tracks) track.stream = Stream::compute;
  return spans;
}

Summary imported_summary(const ImportedTrace& trace, const Trace& spans,
                         const TraceReport& report) {
  const auto rank = std::find_if(report.ranks.begin(), report.ranks.end(),
                                 [&](const RankReport& of) { return of.file == trace.file; });
  const RankReport figures = rank == report.ranks.end() ? RankReport{} : *rank;
  RunFacts facts;
  facts.runtime = runtime;
  Summary summary =
      figures.device ? summarize(spans, facts) : host_summary(trace, spans, figures, facts);
  summary.strategy = strategy;
  summary.precision = "";
  summary.kind = TraceKind::profiled;
  summary.world = spans.world;
  summary.device_memory = device_memory(trace);
  summary.memory = memory_of(report, figures);
  for (StepSummary& step : summary.steps) step.memory = summary.memory;
  summary.assumed.emplace_back(
      "imported: the trace says neither strategy, precision nor tokens; memory is that of the "
      "whole trace");
  return summary;
}

}  // namespace shardscope
