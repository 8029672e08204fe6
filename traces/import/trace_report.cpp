#include "traces/import/trace_report.h"

#include <algorithm>
#include <map>
#include <utility>

#include "traces/import/device_activity.h"
#include "traces/import/host_activity.h"
#include "traces/import/hta_accounting.h"
#include "traces/import/memory_activity.h"

namespace shardscope {
namespace {

constexpr std::int64_t cpu_type = 0;

/// The peaks of a device's memory; of a host's where `device` is none.
void add_memory(const ImportedTrace& trace, RankReport& report) {
  for (std::uint32_t i = 0; i < trace.memory_devices.size(); ++i) {
    const MemoryDevice& of = trace.memory_devices[i];
    const bool is_it =
        report.device ? of.type != cpu_type && of.id == *report.device : of.type == cpu_type;
    if (!is_it) continue;
    const MemoryFigures figures = memory_figures(trace, i);
    report.peak_allocated = figures.peak_allocated;
    report.peak_reserved = figures.peak_reserved;
  }
}

RankReport device_report(const ImportedTrace& trace, const DeviceActivities& device) {
  const DeviceFigures figures = device_figures(device);
  RankReport report{.device = device.device,
                    .file = trace.file,
                    .time = figures.time,
                    .copies = figures.copies,
                    .events = static_cast<std::int64_t>(device.activities.size()),
                    .streams = static_cast<std::int64_t>(device.streams.size())};
  for (const StreamFigures& stream : figures.streams) report.overlapping += stream.overlapping;
  add_memory(trace, report);
  return report;
}

/// HTA and TraceLens take all that a file holds for one device.
DeviceActivities as_one(const std::vector<DeviceActivities>& devices) {
  DeviceActivities all = devices.front();
  for (std::size_t i = 1; i < devices.size(); ++i) {
    const auto first = static_cast<std::uint32_t>(all.streams.size());
    all.streams.insert(all.streams.end(), devices[i].streams.begin(), devices[i].streams.end());
    for (DeviceActivity activity : devices[i].activities) {
      activity.stream += first;
      all.activities.push_back(activity);
    }
  }
  return all;
}

IntervalUnion host_compute(const ImportedTrace& trace) {
  std::vector<TimeWindow> windows;
  for (const std::uint32_t event : host_spans(trace)) {
    if (host_class(trace, event) == SpanClass::compute)
      windows.push_back({{trace.events.start_ns[event]}, {trace.events.end_ns(event)}});
  }
  return IntervalUnion(std::move(windows));
}

RankReport host_report(const ImportedTrace& trace) {
  const HostFigures figures = host_figures(trace);
  RankReport report{.file = trace.file,
                    .time = figures.time,
                    .events = figures.events,
                    .streams = figures.threads};
  add_memory(trace, report);
  return report;
}

IntervalUnion compute_of(const std::vector<DeviceActivities>& devices, const ImportedTrace& trace) {
  if (devices.empty()) return host_compute(trace);
  std::vector<TimeWindow> windows;
  for (const DeviceActivities& device : devices) {
    for (const DeviceActivity& activity : device.activities) {
      if (activity.span_class == SpanClass::compute) windows.push_back(activity.window);
    }
  }
  return IntervalUnion(std::move(windows));
}

void add_groups(std::int64_t rank, const std::vector<ImportedCollective>& collectives,
                const IntervalUnion& compute, std::vector<GroupReport>& reports) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<TimeWindow>> windows;
  for (const ImportedCollective& c : collectives) {
    const auto [at, is_new] = windows.try_emplace(c.group);
    if (is_new) order.push_back(c.group);
    at->second.push_back({c.start, c.start + c.duration});
  }
  for (const std::string& group : order) {
    std::vector<TimeWindow>& of_group = windows[group];
    GroupReport report{
        .rank = rank, .group = group, .collectives = static_cast<std::int64_t>(of_group.size())};
    const IntervalUnion communication(std::move(of_group));
    report.communication = communication.length();
    report.exposed_communication = communication.length() - overlap(communication, compute);
    reports.push_back(std::move(report));
  }
}

/// What all traces of a report share.
struct Rules {
  Definitions definitions = Definitions::own;
  HtaReading hta;
  Duration kernel_gap;
};

/// What a device did, and why it was idle.
void add_device(const ImportedTrace& trace, std::int64_t rank, const DeviceActivities& device,
                const Rules& rules, TraceReport& report) {
  report.ranks.push_back(device_report(trace, device));
  for (IdleTime& idle : idle_times(trace, device, rules.kernel_gap))
    report.idle.push_back({rank, device.device, std::move(idle)});
}

void add_hta_device(const ImportedTrace& trace, std::int64_t rank, const DeviceActivities& device,
                    const Rules& rules, TraceReport& report) {
  RankReport figures = device_report(trace, device);
  const std::vector<HtaEvent> events = hta_events(trace, rules.hta);
  figures.events = static_cast<std::int64_t>(events.size());
  figures.time = hta_accounting(events);
  figures.copies = hta_copies(events);
  report.ranks.push_back(std::move(figures));
  for (IdleTime& idle : hta_idle_times(events, rules.kernel_gap))
    report.idle.push_back({rank, device.device, std::move(idle)});
}

void add_devices(const ImportedTrace& trace, std::int64_t rank,
                 const std::vector<DeviceActivities>& devices, const Rules& rules,
                 TraceReport& report) {
  switch (rules.definitions) {
    case Definitions::own:
      for (const DeviceActivities& device : devices) add_device(trace, rank, device, rules, report);
      break;
    case Definitions::hta:
    case Definitions::hta_exact:
      add_hta_device(trace, rank, as_one(devices), rules, report);
      break;
    case Definitions::trace_lens:
      add_device(trace, rank, as_one(devices), rules, report);
      break;
  }
}

/// Returns the rank's collectives.
std::vector<ImportedCollective> add_trace(const ImportedTrace& trace, std::int64_t rank,
                                          const Rules& rules, TraceReport& report) {
  const std::vector<DeviceActivities> devices = device_activities(trace);
  const std::size_t first = report.ranks.size();
  if (devices.empty()) {
    report.ranks.push_back(host_report(trace));
  } else {
    add_devices(trace, rank, devices, rules, report);
  }
  for (std::size_t i = first; i < report.ranks.size(); ++i) report.ranks[i].rank = rank;
  std::vector<ImportedCollective> collectives = imported_collectives(trace);
  if (!collectives.empty())
    add_groups(rank, collectives, compute_of(devices, trace), report.groups);
  for (const ImportedCollective& collective : collectives)
    report.collectives.push_back({rank, collective});
  report.imports.push_back({trace.file, trace.report});
  if (devices.empty()) {
    report.imports.back().report.guessed.emplace_back(
        "no device is in the trace: operators of the host count as compute, calls of gloo and "
        "nccl as communication");
  }
  return collectives;
}

/// Gives a device of a rank the peaks of its snapshot.
void add_snapshot(const MemoryReport& memory, bool is_only_rank, std::vector<RankReport>& ranks) {
  if (memory.source != memory_snapshot_source || !memory.peak_active) return;
  for (RankReport& rank : ranks) {
    const bool is_same_rank = memory.rank ? memory.rank == rank.rank : is_only_rank;
    if (!is_same_rank || rank.device != memory.device) continue;
    rank.peak_active = memory.peak_active;
    rank.peak_allocated = memory.peak_allocated;
    rank.peak_reserved = memory.peak_reserved;
  }
}

}  // namespace

TraceReport report_of(const std::vector<ImportedTrace>& traces, const ReportRules& given) {
  TraceReport report{.definitions = given.definitions};
  const bool rounds = given.definitions == Definitions::hta;
  Rules rules{.definitions = given.definitions, .hta = {}, .kernel_gap = given.kernel_gap};
  if (rounds || given.definitions == Definitions::hta_exact)
    rules.hta = hta_reading(traces, rounds);
  std::vector<RankCalls> calls;
  std::int64_t place = 0;
  for (const ImportedTrace& trace : traces) {
    const std::int64_t rank = trace.rank ? *trace.rank : place;
    std::vector<ImportedCollective> collectives = add_trace(trace, rank, rules, report);
    calls.push_back({.rank = rank,
                     .base_ns = trace.base_ns,
                     .are_transfers = report.ranks.back().device.has_value(),
                     .collectives = std::move(collectives)});
    ++place;
  }
  if (traces.size() > 1) report.matched = matched_collectives(calls);
  return report;
}

TraceReport report_of(const Imported& imported, const ReportRules& rules) {
  TraceReport report = report_of(imported.traces, rules);
  report.memory = memory_reports(imported, rules.memory);
  for (const MemoryReport& memory : report.memory)
    add_snapshot(memory, imported.traces.size() == 1, report.ranks);
  for (const MemorySnapshot& snapshot : imported.snapshots)
    report.imports.push_back({snapshot.file, snapshot.report});
  for (const MemoryTimeline& timeline : imported.timelines)
    report.imports.push_back({timeline.file, timeline.report});
  report.left_out = imported.left_out;
  return report;
}

}  // namespace shardscope
