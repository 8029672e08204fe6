#include "gui/data/import_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "core/base/grouped.h"

namespace shardscope::gui {
namespace {

std::string place_text(const ImportedTrace& trace) {
  std::string text = trace.rank ? fmt::format("rank {}", *trace.rank) : "its rank is not in it";
  if (trace.world) text += fmt::format(" of {}", *trace.world);
  text += trace.base_ns != 0 ? ", times since 1970" : ", times since an unknown moment";
  return text;
}

/// The readers' words for a file that ends before its data does, or in which a part is broken.
bool says_cut(std::string_view what) {
  return what.find("cut off") != std::string_view::npos ||
         what.find("damaged") != std::string_view::npos;
}

/// So many events of a file are lost that sums over it are wrong.
bool is_much(std::int64_t skipped, std::int64_t read) { return skipped * 100 > read; }

void add_trace_findings(const ImportedTrace& trace, std::vector<Finding>& findings) {
  add_import_findings(trace.report, trace.file, findings);
  std::int64_t overlaps = 0, streams = 0;
  for (const ImportedTrack& track : trace.tracks) {
    overlaps += track.overlaps;
    if (track.kind == TrackKind::stream) ++streams;
  }
  findings.push_back(
      {Severity::note, trace.file,
       fmt::format("{}; {} tracks, {} of them streams of a device", place_text(trace),
                   grouped(static_cast<std::int64_t>(trace.tracks.size())), grouped(streams))});
  if (overlaps > 0)
    findings.push_back(
        {Severity::note, trace.file,
         fmt::format("{} events begin before an earlier one of their stream has ended; they lie on "
                     "lanes of their own",
                     grouped(overlaps))});
}

void add_rank_findings(const std::vector<ImportedTrace>& traces, std::vector<Finding>& findings) {
  std::set<int> ranks;
  int world = 0;
  for (const ImportedTrace& trace : traces) {
    if (trace.rank) ranks.insert(*trace.rank);
    world = std::max(world, trace.world.value_or(0));
  }
  if (traces.empty()) return;
  if (ranks.size() < traces.size() && traces.size() > 1)
    findings.push_back({Severity::warning, traces.front().file,
                        "several files are of one rank, or do not say theirs: numbered by name"});
  if (world > static_cast<int>(ranks.size()) && !ranks.empty())
    findings.push_back({Severity::warning, traces.front().file,
                        fmt::format("of {} ranks, {} have no trace", world,
                                    world - static_cast<int>(ranks.size()))});
}

void add_unknown_share(const MemoryReport& report, std::vector<Finding>& findings) {
  Bytes all, unknown;
  for (const MemoryOwner& owner : report.categories) {
    all += owner.bytes;
    if (owner.name == "unknown") unknown += owner.bytes;
  }
  if (all.count == 0) return;
  const double share = static_cast<double>(unknown.count) / static_cast<double>(all.count);
  const bool is_much = share > 0.5;
  findings.push_back({is_much ? Severity::warning : Severity::note, report.file,
                      fmt::format("of {} at the peak {} ({:.1f}%) are of unknown category",
                                  rounded_text(all), rounded_text(unknown), share * 100)});
}

void add_memory_findings(const MemoryReport& report, std::vector<Finding>& findings) {
  add_unknown_share(report, findings);
  if (report.is_cut)
    findings.push_back({Severity::warning, report.file,
                        "the beginning of its history was dropped by PyTorch (max_entries)", true});
  if (report.out_of_memory > 0)
    findings.push_back({Severity::warning, report.file,
                        fmt::format("{} requests ran out of memory", report.out_of_memory)});
}

}  // namespace

void add_import_findings(const ImportReport& report, const std::string& file,
                         std::vector<Finding>& findings) {
  findings.push_back({Severity::note, file,
                      fmt::format("{}: {} of {} events kept, {} of text", report.format,
                                  grouped(report.events_kept), grouped(report.events_read),
                                  rounded_text(Bytes{report.text_bytes}))});
  if (report.events_kept == 0 && report.events_read > 0)
    findings.push_back({Severity::warning, file,
                        fmt::format("no usable event among {}: Diagnostics lists what was skipped",
                                    grouped(report.events_read)),
                        true});
  for (const auto& [reason, count] : report.skipped)
    findings.push_back({Severity::warning, file,
                        fmt::format("{} events skipped: {}", grouped(count), reason),
                        is_much(count, report.events_read) || says_cut(reason)});
  for (const auto& [what, count] : report.odd)
    findings.push_back({says_cut(what) ? Severity::warning : Severity::note, file,
                        says_cut(what)
                            ? what + ": what comes after it is missing"
                            : fmt::format("odd, and kept: {} ({} times)", what, grouped(count)),
                        says_cut(what)});
  for (const std::string& guess : report.guessed)
    findings.push_back({Severity::note, file, "guessed: " + guess});
}

std::vector<Finding> import_findings(const Imported& imported,
                                     const std::vector<MemoryReport>& memory) {
  std::vector<Finding> findings;
  for (const ImportedTrace& trace : imported.traces) add_trace_findings(trace, findings);
  add_rank_findings(imported.traces, findings);
  for (const MemorySnapshot& snapshot : imported.snapshots)
    add_import_findings(snapshot.report, snapshot.file, findings);
  for (const MemoryTimeline& timeline : imported.timelines)
    add_import_findings(timeline.report, timeline.file, findings);
  for (const MemoryReport& report : memory) add_memory_findings(report, findings);
  for (const std::string& reason : imported.left_out)
    findings.push_back({Severity::warning, "", "left out: " + reason});
  return findings;
}

}  // namespace shardscope::gui
