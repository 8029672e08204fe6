#include "gui/data/memory_sources.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "gui/data/snapshot_levels.h"
#include "traces/import/memory_activity.h"

namespace shardscope::gui {
namespace {

using Kind = MemorySource::Kind;

/// A foreign file may say anything: nine bands together must fit.
constexpr Bytes most{std::int64_t{1} << 59};
Bytes within_bounds(Bytes bytes) { return std::clamp(bytes, Bytes{-most.count}, most); }

/// When the last span or sample of the trace ends.
double last_time(const Trace& trace) {
  Duration last = trace.memory.empty() ? Duration{} : trace.memory.back().time;
  for (const Span& span : trace.spans) last = std::max(last, span.end());
  return static_cast<double>(last.ns);
}

MemoryLevel level_of(const MemorySample& sample) {
  return {.begin = static_cast<double>(sample.time.ns),
          .bytes = band_bytes(sample.live),
          .active = sample.active,
          .reserved = sample.reserved,
          .operation = sample.operation};
}

/// A native step begins with what is held between steps, which only its end is a sample of.
std::optional<MemoryLevel> before_first(const Trace& trace) {
  if (!trace.memory.front().operation) return std::nullopt;
  const TimeWindow step = shown_step(trace);
  for (const MemorySample& sample : trace.memory) {
    if (sample.operation) continue;
    MemoryLevel level = level_of(sample);
    level.begin = static_cast<double>(std::min(step.begin, trace.memory.front().time).ns);
    return level;
  }
  return std::nullopt;
}

/// Nothing before the compute that was asked for before it.
void lay_on_device(const Trace& trace, MemoryLevels& levels) {
  std::unordered_map<std::uint32_t, double> begins;
  for (const Span& span : trace.spans)
    if (span.operation && trace.tracks[span.track].stream == Stream::compute)
      begins.try_emplace(span.operation.value, static_cast<double>(span.start.ns));
  if (begins.empty()) return;
  double last = levels.levels.front().begin;
  for (MemoryLevel& level : levels.levels) {
    const auto begin = level.operation ? begins.find(level.operation.value) : begins.end();
    if (begin != begins.end()) last = std::max(last, begin->second);
    level.begin = last;
  }
}

/// A step whose operations the host issues before the device runs them.
bool has_host(const Trace& trace) {
  return std::ranges::any_of(trace.tracks,
                             [](const Track& track) { return track.stream == Stream::host; });
}

MemoryLevels levels_of(const Trace& trace, MemoryClock clock) {
  MemoryLevels result;
  if (trace.memory.empty()) return result;
  if (auto first = before_first(trace)) result.levels.push_back(*first);
  for (const MemorySample& sample : trace.memory) result.levels.push_back(level_of(sample));
  if (clock == MemoryClock::device && trace.kind == TraceKind::predicted && has_host(trace))
    lay_on_device(trace, result);
  result.end = last_time(trace);
  return result;
}

MemoryLevels profiler_levels(const ImportedTrace& imported, std::uint32_t device,
                             const Trace* clock) {
  const std::int64_t shift = clock == nullptr ? 0 : clock->base_ns - imported.base_ns;
  MemoryLevels result;
  for (const MemoryChange& change : memory_changes(imported, device)) {
    MemoryLevel level{.begin = static_cast<double>(imported.events.start_ns[change.event] - shift),
                      .reserved = within_bounds(change.reserved)};
    level.bytes[unknown_band] = within_bounds(change.allocated);
    result.levels.push_back(level);
  }
  if (result.empty()) return result;
  result.end = result.levels.back().begin + 1;
  if (clock != nullptr) result.end = std::max(result.end, last_time(*clock));
  return result;
}

const Trace* trace_of(const Side& side, std::size_t rank) {
  return rank < side.ranks.size() ? side.ranks[rank].get() : nullptr;
}

void add_profiler_sources(const Side& side, std::size_t rank, std::vector<MemorySource>& sources) {
  const ImportedTrace& trace = *side.imported[rank];
  const std::string name = trace.rank ? fmt::format("rank {}", *trace.rank) : trace.file;
  for (std::size_t i = 0; i < trace.memory_devices.size(); ++i) {
    const MemoryDevice& device = trace.memory_devices[i];
    sources.push_back({.side = side.kind,
                       .kind = Kind::profiler_events,
                       .index = rank,
                       .device = static_cast<std::int64_t>(i),
                       .rank = trace.rank,
                       .on = device,
                       .label = device.type == host_device_type
                                    ? name + ", CPU"
                                    : fmt::format("{}, GPU {}", name, device.id)});
  }
}

}  // namespace

std::vector<MemorySource> memory_sources(const Side& side) {
  std::vector<MemorySource> sources;
  for (std::size_t i = 0; i < side.ranks.size(); ++i)
    if (!side.ranks[i]->memory.empty())
      sources.push_back({.side = side.kind,
                         .kind = Kind::rank,
                         .index = i,
                         .rank = side.ranks[i]->rank,
                         .label = fmt::format("rank {}", side.ranks[i]->rank)});
  for (std::size_t i = 0; i < side.snapshots.size(); ++i)
    for (const std::int64_t device : side.snapshots[i]->devices())
      sources.push_back({.side = side.kind,
                         .kind = Kind::snapshot,
                         .index = i,
                         .device = device,
                         .on = MemoryDevice{.type = gpu_device_type, .id = device},
                         .label = fmt::format("{}, device {}", side.snapshots[i]->file, device)});
  for (std::size_t i = 0; i < side.timelines.size(); ++i)
    sources.push_back(
        {.side = side.kind, .kind = Kind::timeline, .index = i, .label = side.timelines[i]->file});
  for (std::size_t i = 0; i < side.imported.size(); ++i) add_profiler_sources(side, i, sources);
  return sources;
}

std::string_view name_of(MemoryClock clock) {
  return clock == MemoryClock::host ? "host's clock" : "device's clock";
}

MemoryClock memory_clock(const Scenario& scenario, const MemorySource& source) {
  if (source.kind != Kind::rank) return MemoryClock::host;
  const bool is_profiled = source.side == SideKind::profiled;
  const bool is_of_device =
      is_profiled ? scenario.profiled->imported.empty() : !scenario.profiled.has_value();
  return is_of_device ? MemoryClock::device : MemoryClock::host;
}

MemoryLevels memory_levels(const Side& side, const MemorySource& source, MemoryClock clock) {
  switch (source.kind) {
    case Kind::rank:
      return levels_of(*side.ranks[source.index], clock);
    case Kind::profiler_events:
      return profiler_levels(*side.imported[source.index],
                             static_cast<std::uint32_t>(source.device),
                             trace_of(side, source.index));
    case Kind::snapshot:
      return snapshot_levels(*side.snapshots[source.index], source.device);
    case Kind::timeline:
      return timeline_levels(*side.timelines[source.index]);
  }
  return {};
}

bool has_reserved(const MemoryLevels& levels) {
  return std::any_of(levels.levels.begin(), levels.levels.end(),
                     [](const MemoryLevel& level) { return level.reserved.count != 0; });
}

bool has_active(const MemoryLevels& levels) {
  return std::any_of(levels.levels.begin(), levels.levels.end(),
                     [](const MemoryLevel& level) { return level.active.count != 0; });
}

std::optional<TimeWindow> memory_extent(const Side& side) {
  if (side.has_trace()) return std::nullopt;
  double last = 0;
  for (const auto& snapshot : side.snapshots)
    for (const std::int64_t device : snapshot->devices())
      last = std::max(last, snapshot_length(*snapshot, device));
  for (const auto& timeline : side.timelines) last = std::max(last, timeline_length(*timeline));
  if (last == 0) return std::nullopt;
  return TimeWindow{.begin = {}, .end = {static_cast<std::int64_t>(last)}};
}

}  // namespace shardscope::gui
