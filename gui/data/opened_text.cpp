#include "gui/data/opened_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/grouped.h"

namespace shardscope::gui {
namespace {

std::string counted(std::size_t count, std::string_view what) {
  return fmt::format("{} {}{}", grouped(static_cast<std::int64_t>(count)), what,
                     count == 1 ? "" : "s");
}

/// "profiled: 2 ranks, 1,204 spans, 1 snapshot"
std::string side_text(const Side& side) {
  std::vector<std::string> parts;
  if (!side.ranks.empty()) {
    std::size_t spans = 0;
    for (const auto& trace : side.ranks) spans += trace->spans.size();
    parts = {counted(side.ranks.size(), "rank"), counted(spans, "span")};
  }
  if (!side.snapshots.empty()) parts.push_back(counted(side.snapshots.size(), "memory snapshot"));
  if (!side.timelines.empty()) parts.push_back(counted(side.timelines.size(), "memory timeline"));
  if (parts.empty()) parts.push_back(side.summary ? "summary alone" : "nothing");
  return fmt::format("{}: {}", name_of(side.kind), fmt::join(parts, ", "));
}

std::string contents_of(const Scenario& scenario) {
  std::vector<std::string> sides;
  for (const SideKind kind : {SideKind::predicted, SideKind::profiled})
    if (const Side* side = scenario.side(kind)) sides.push_back(side_text(*side));
  return fmt::format("{} ({})", scenario.label,
                     sides.empty() ? "nothing" : fmt::format("{}", fmt::join(sides, "; ")));
}

bool is_empty(const Side& side) {
  const bool has_spans = std::any_of(side.ranks.begin(), side.ranks.end(), [](const auto& trace) {
    return !trace->spans.empty() || !trace->memory.empty();
  });
  return !has_spans && side.snapshots.empty() && side.timelines.empty() && !side.summary;
}

}  // namespace

std::string opened_text(const std::filesystem::path& path,
                        const std::vector<ScenarioPointer>& scenarios) {
  const std::filesystem::path name = (path.has_filename() ? path : path.parent_path()).filename();
  if (scenarios.empty()) return fmt::format("Opened {}: nothing to show in it", name.string());
  const std::string first = contents_of(*scenarios.front());
  if (scenarios.size() == 1) return fmt::format("Opened {}: {}", name.string(), first);
  return fmt::format("Opened {}: {}, the first {}", name.string(),
                     counted(scenarios.size(), "scenario"), first);
}

std::vector<std::string> incomplete(const Scenario& scenario) {
  std::vector<std::string> lines;
  const auto add = [&](const std::string& where, const std::string& what) {
    lines.push_back(fmt::format("{}: {}", where.empty() ? scenario.label : where, what));
  };
  for (const Finding& finding : scenario.findings)
    if (finding.is_gap) add(finding.where, finding.what);
  for (const SideKind kind : {SideKind::predicted, SideKind::profiled}) {
    const Side* side = scenario.side(kind);
    if (side == nullptr) continue;
    for (const auto& trace : side->ranks)
      if (trace->recording.dropped_records > 0)
        add("", fmt::format(
                    "rank {}: {} were lost while it was recorded", trace->rank,
                    counted(static_cast<std::size_t>(trace->recording.dropped_records), "record")));
    if (lines.empty() && is_empty(*side))
      add(side->source.string(), "has no usable event: there is nothing to draw");
  }
  return lines;
}

}  // namespace shardscope::gui
