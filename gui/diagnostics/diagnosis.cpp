#include "gui/diagnostics/diagnosis.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/grouped.h"
#include "gui/diagnostics/identities.h"

namespace shardscope::gui {
namespace {

constexpr std::size_t most_match_differences = 12;

std::string side_of(const Side& side, const Trace& trace) {
  return side.kind == SideKind::predicted ? "predicted"
                                          : fmt::format("profiled, rank {}", trace.rank);
}

void add_assumptions(const Side& side, std::vector<Finding>& findings) {
  if (!side.summary) return;
  for (const std::string& text : side.summary->assumed)
    findings.push_back({Severity::note, std::string(name_of(side.kind)), "assumed: " + text});
}

void add_recording(const Side& side, const Trace& trace, std::vector<Finding>& findings) {
  const RecordingFacts& recording = trace.recording;
  const std::string where = side_of(side, trace);
  if (!recording.clock.empty())
    findings.push_back({Severity::note, where,
                        recording.clock_residual
                            ? fmt::format("clock: {}; times of ranks may be off by {}",
                                          recording.clock, rounded_text(*recording.clock_residual))
                            : fmt::format("clock: {}; how far off is not known", recording.clock)});
  if (recording.dropped_records > 0)
    findings.push_back({Severity::warning, where,
                        fmt::format("{} records were dropped while it was recorded",
                                    grouped(recording.dropped_records))});
  for (const std::string& note : recording.notes)
    findings.push_back({Severity::note, where, "recording: " + note});
}

std::string plural(std::int64_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", grouped(count), count == 1 ? one : many);
}

void add_contents(const Side& side, const Trace& trace, std::vector<Finding>& findings) {
  findings.push_back(
      {Severity::note, side_of(side, trace),
       fmt::format("{} on {}, {}, {}", plural(std::ssize(trace.spans), "span", "spans"),
                   plural(std::ssize(trace.tracks), "track", "tracks"),
                   plural(std::ssize(trace.memory), "memory sample", "memory samples"),
                   plural(std::ssize(step_windows(trace)), "step", "steps"))});
}

void add_side(const Side& side, std::vector<Finding>& findings) {
  add_assumptions(side, findings);
  for (const auto& trace : side.ranks) {
    add_contents(side, *trace, findings);
    add_recording(side, *trace, findings);
  }
  if (side.ranks.empty() && side.snapshots.empty() && side.timelines.empty())
    findings.push_back({Severity::warning, std::string(name_of(side.kind)),
                        "has figures and no trace: nothing of it can be drawn over time"});
}

std::string confidence_text(const PairCounts& counts) {
  return fmt::format("{} in all fields, {} in all that the trace says, {} by order and kind alone",
                     grouped(counts.all_fields), grouped(counts.known_fields),
                     grouped(counts.order_and_kind));
}

void add_counts(const std::string& what, const PairCounts& counts, const std::string& where,
                std::vector<Finding>& findings) {
  if (counts.predicted == 0 && counts.profiled == 0) return;
  findings.push_back({counts.complete() ? Severity::note : Severity::warning, where,
                      fmt::format("{}: {} predicted, {} profiled, {} matched ({})", what,
                                  grouped(counts.predicted), grouped(counts.profiled),
                                  grouped(counts.matched()), confidence_text(counts))});
}

void add_steps(const PairCounts& counts, const std::string& where, std::vector<Finding>& findings) {
  findings.push_back(
      {counts.complete() ? Severity::note : Severity::warning, where,
       fmt::format("steps: {} predicted, {} profiled, {} matched", grouped(counts.predicted),
                   grouped(counts.profiled), grouped(counts.matched()))});
}

void add_match(const RankMatch& match, std::vector<Finding>& findings) {
  const std::string where =
      match.rank ? fmt::format("match, rank {}", *match.rank) : "match, " + match.file;
  add_steps(match.all_steps(), where, findings);
  add_counts("units", match.all_units(), where, findings);
  add_counts("collectives", match.all_collectives(), where, findings);
  add_counts("operators", match.all_compute(), where, findings);
  for (std::size_t i = 0; i < std::min(match.differences.size(), most_match_differences); ++i) {
    const MatchDifference& difference = match.differences[i];
    const auto text = [](const std::string& side) { return side.empty() ? "nothing" : side; };
    findings.push_back({difference.what == "compute" ? Severity::note : Severity::warning, where,
                        fmt::format("{}{}{}: predicted {}; in the trace {}", difference.step,
                                    difference.step.empty() ? "" : ", ", difference.what,
                                    text(difference.predicted), text(difference.profiled))});
  }
  for (const std::string& note : match.notes) findings.push_back({Severity::note, where, note});
}

}  // namespace

std::vector<Finding> diagnosis_of(const Scenario& scenario) {
  std::vector<Finding> findings = scenario.findings;
  for (const SideKind kind : {SideKind::predicted, SideKind::profiled})
    if (const Side* side = scenario.side(kind)) add_side(*side, findings);
  if (scenario.match)
    for (const RankMatch& match : scenario.match->ranks) add_match(match, findings);
  const std::vector<Finding> identities = identities_of(scenario);
  findings.insert(findings.end(), identities.begin(), identities.end());
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.severity > b.severity; });
  return findings;
}

FindingCounts counts_of(const std::vector<Finding>& findings) {
  FindingCounts counts;
  for (const Finding& finding : findings) {
    if (finding.severity == Severity::holds) ++counts.holding;
    if (finding.severity == Severity::warning) ++counts.warnings;
    if (finding.severity == Severity::note) ++counts.notes;
    if (finding.severity == Severity::broken) ++counts.broken;
    if (finding.severity == Severity::error) ++counts.errors;
  }
  return counts;
}

std::string summary_text(const std::vector<Finding>& findings) {
  const FindingCounts counts = counts_of(findings);
  if (findings.empty()) return "nothing is open";
  std::string text =
      plural(counts.holding, "consistency check passed", "consistency checks passed");
  if (counts.broken > 0) text += fmt::format(", {} failed", grouped(counts.broken));
  if (counts.errors > 0) text += "; " + plural(counts.errors, "error", "errors");
  if (counts.warnings > 0) text += "; " + plural(counts.warnings, "warning", "warnings");
  return text;
}

std::string plain_text(const std::string& label, const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings)
    text += fmt::format("{}\t{}\t{}\t{}\n", name_of(finding.severity), label, finding.where,
                        finding.what);
  return text;
}

}  // namespace shardscope::gui
