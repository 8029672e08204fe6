#include "traces/import/memory_report.h"

#include <algorithm>
#include <charconv>

#include "traces/import/snapshot_replay.h"
#include "traces/import/snapshot_state.h"

namespace shardscope {
namespace {

constexpr std::size_t shown_owners = 20;

/// "memory_rank3.pickle" or "rank_3.pickle": 3.
std::optional<std::int64_t> rank_in(std::string_view file) {
  const std::size_t at = file.rfind("rank");
  if (at == file.npos) return std::nullopt;
  std::string_view number = file.substr(at + 4);
  number.remove_prefix(std::min(number.find_first_not_of("_-"), number.size()));
  std::int64_t rank = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), rank);
  return error == std::errc() && rank >= 0 ? std::optional(rank) : std::nullopt;
}

/// A snapshot without a history has what is there, and no peak.
void add_state(const MemorySnapshot& snapshot, std::int64_t device, MemoryReport& report) {
  const SnapshotState state = snapshot_state(snapshot, device);
  for (const BlockOwner& owner : state.owners) {
    if (report.owners.size() < shown_owners)
      report.owners.push_back({owner.frame, owner.blocks.count, owner.blocks.requested});
  }
  report.reserved_at_peak = state.reserved.total;
}

MemoryReport report_of(const MemorySnapshot& snapshot, std::int64_t device,
                       const FrameRules& rules) {
  MemoryReport report{.file = snapshot.file,
                      .source = memory_snapshot_source,
                      .rank = rank_in(snapshot.file),
                      .device = device};
  const SnapshotEvents* events = snapshot.events_of(device);
  if (events == nullptr || events->count() == 0) {
    add_state(snapshot, device, report);
    return report;
  }
  const SnapshotReplay played = replay(snapshot, device);
  report.peak_active = played.peak_active.bytes;
  report.peak_reserved = played.peak_reserved.bytes;
  if (played.knows_allocated) report.peak_allocated = played.peak_allocated.bytes;
  report.active_before = played.baseline.totals.active;
  report.reserved_at_peak = played.totals_after(played.peak_active.event).reserved;
  report.is_cut = played.baseline.alive_with_frames > 0;
  const auto live = live_blocks(snapshot, device, played.peak_active.event);
  report.categories = owners_by_category(snapshot, device, live, rules);
  report.owners = owners_by_frame(snapshot, live);
  report.owners.resize(std::min(report.owners.size(), shown_owners));
  report.out_of_memory =
      std::count_if(snapshot.out_of_memory.begin(), snapshot.out_of_memory.end(),
                    [&](const SnapshotOutOfMemory& error) { return error.device == device; });
  return report;
}

MemoryReport report_of(const MemoryTimeline& timeline) {
  const TimelineFigures figures = timeline_figures(timeline);
  MemoryReport report{.file = timeline.file,
                      .source = memory_timeline_source,
                      .rank = rank_in(timeline.file),
                      .peak_allocated = figures.peak};
  for (std::size_t i = 0; i < timeline_categories; ++i) {
    if (figures.at_peak[i] != Bytes{})
      report.categories.push_back({.name = std::string(name_of(static_cast<TimelineCategory>(i))),
                                   .bytes = figures.at_peak[i]});
  }
  std::stable_sort(report.categories.begin(), report.categories.end(),
                   [](const MemoryOwner& a, const MemoryOwner& b) { return a.bytes > b.bytes; });
  return report;
}

}  // namespace

std::vector<MemoryReport> memory_reports(const Imported& imported, const FrameRules& rules) {
  std::vector<MemoryReport> reports;
  for (const MemorySnapshot& snapshot : imported.snapshots) {
    for (const std::int64_t device : snapshot.devices())
      reports.push_back(report_of(snapshot, device, rules));
  }
  for (const MemoryTimeline& timeline : imported.timelines) reports.push_back(report_of(timeline));
  return reports;
}

}  // namespace shardscope
