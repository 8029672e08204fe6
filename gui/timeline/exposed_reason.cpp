#include "gui/timeline/exposed_reason.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "gui/data/unit_rows.h"
#include "gui/data/what_if.h"
#include "sim/planner/enumerate.h"
#include "traces/difference_causes.h"

namespace shardscope::gui {
namespace {

/// A collective with what is known of it.
struct Collective {
  const TimelineRank& rank;
  std::size_t span;
  TimeWindow window;
  const OperationFacts* facts;  ///< null: not known
};

std::optional<Collective> collective_at(const TimelineData& data, const SpanPlace& place) {
  const auto index = span_of(data, place);
  if (!index) return std::nullopt;
  const TimelineRank& rank = *data.sources[place.source];
  const Span& span = rank.trace->spans[*index];
  if (span.span_class != SpanClass::communication) return std::nullopt;
  return Collective{.rank = rank,
                    .span = *index,
                    .window = {span.start, span.end()},
                    .facts = rank.facts_of(rank.operation_of(*index))};
}

std::vector<const Trace*> traces_from(const Side& side, std::size_t first) {
  std::vector<const Trace*> traces{side.ranks[first].get()};
  for (std::size_t i = 0; i < side.ranks.size(); ++i)
    if (i != first) traces.push_back(side.ranks[i].get());
  return traces;
}

/// "rank 1 came 1.40 ms late"; "" where that makes less than half of what is exposed.
std::string late_peer(const Collective& of, Duration exposed) {
  const Side* side = of.rank.scenario->side(of.rank.side);
  if (of.rank.side != SideKind::profiled || side == nullptr || of.rank.imported) return "";
  const DifferenceEvidence evidence(*of.rank.trace, traces_from(*side, of.rank.rank));
  const auto late = evidence.late_peer(static_cast<std::uint32_t>(of.span));
  if (!late || late->by * 2 < exposed) return "";
  return fmt::format("rank {} came {} late", late->rank, rounded_text(late->by));
}

/// What the same operation took in the prediction; none: it is not there.
std::optional<Duration> predicted_duration(const Collective& of) {
  const Side* predicted = of.rank.scenario->side(SideKind::predicted);
  const OperationId operation = of.rank.operation_of(of.span);
  if (of.rank.side != SideKind::profiled || predicted == nullptr || !predicted->has_trace() ||
      !operation)
    return std::nullopt;
  const auto& runs = typical_runs(*predicted->ranks[of.rank.predicted_rank()]);
  const auto found = runs.find(operation);
  return found == runs.end() ? std::nullopt : std::optional(found->second.duration);
}

std::string took_long(const Collective& of, Duration exposed) {
  const auto predicted = predicted_duration(of);
  const Duration taken = of.window.length();
  if (!predicted || (taken - *predicted) * 2 < exposed) return "";
  return fmt::format("it took {}, and {} were predicted", rounded_text(taken),
                     rounded_text(*predicted));
}

/// The compute that follows, and that which ended before: what is exposed lies between them.
std::string between(const Collective& of) {
  const Trace& trace = *of.rank.trace;
  const Span *before = nullptr, *after = nullptr;
  const TimeWindow step = shown_step(trace);
  for (const Span& span : trace.spans) {
    if (span.span_class != SpanClass::compute || !is_on_device(trace, span)) continue;
    if (span.start >= of.window.end && (after == nullptr || span.start < after->start))
      after = &span;
    if (span.start < of.window.end && (before == nullptr || before->start < span.start))
      before = &span;
  }
  const std::string next = after == nullptr ? "" : std::string(trace.name(*after));
  if (after == nullptr || (of.window.begin < step.end && after->start >= step.end))
    return "no computation follows it in this step";
  if (before == nullptr || before->start < step.begin)
    return fmt::format("it is the first of the step: {} waits for it", next);
  return fmt::format("nothing else is ready: {} waits for it", next);
}

/// Exposed time of the operation of that name in a prediction; none: it is not there.
std::optional<Duration> exposed_in(const Scenario& tried, const OperationFacts& like) {
  const Side* side = tried.side(SideKind::predicted);
  if (side == nullptr || !side->has_trace()) return std::nullopt;
  const Trace& trace = *side->ranks.front();
  const Coverage coverage(trace);
  const auto runs = named_runs(trace);
  const auto found = runs.find(run_key(like));
  if (found == runs.end()) return std::nullopt;
  const TimeWindow window = found->second.run.window;
  return Duration{coverage.exposed_time().covered(window.begin.ns, window.end.ns)};
}

}  // namespace

std::optional<ExposedTime> exposed_time(const TimelineData& data, const SpanPlace& place) {
  const auto of = collective_at(data, place);
  if (!of) return std::nullopt;
  const Duration exposed{
      of->rank.coverage.exposed_time().covered(of->window.begin.ns, of->window.end.ns)};
  if (exposed <= Duration{}) return std::nullopt;
  return ExposedTime{.exposed = exposed, .whole = of->window.length()};
}

std::string exposed_reason(const TimelineData& data, const SpanPlace& place) {
  const auto time = exposed_time(data, place);
  if (!time) return "";
  const Collective of = *collective_at(data, place);
  std::string reason = late_peer(of, time->exposed);
  if (reason.empty()) reason = took_long(of, time->exposed);
  if (reason.empty()) reason = between(of);
  const bool is_whole = time->exposed == time->whole;
  return fmt::format("{}{} exposed: {}", rounded_text(time->exposed),
                     is_whole ? "" : " of " + rounded_text(time->whole), reason);
}

std::string prefetch_remedy(const TimelineData& data, const SpanPlace& place,
                            const std::stop_token& stop) {
  const auto of = collective_at(data, place);
  if (!of || of->facts == nullptr || of->facts->kind != OperationKind::all_gather) return "";
  try {
    WhatIf what_if(what_if_inputs(*of->rank.scenario));
    const WhatIfSettings& start = what_if.inputs().start;
    const WhatIfAnswer as_it_is = what_if.answer(start, false, stop);
    if (!as_it_is.scenario) return "";
    const auto now = exposed_in(*as_it_is.scenario, *of->facts);
    if (!now || *now <= Duration{}) return "";
    std::optional<std::pair<Duration, std::string>> best;
    for (const planner::Prefetch prefetch : planner::prefetches_of(
             start.choice.runtime, start.choice.sharding, start.choice.blocks_per_unit)) {
      if (prefetch == start.choice.prefetch) continue;
      WhatIfSettings other = start;
      other.choice.prefetch = prefetch;
      const WhatIfAnswer answer = what_if.answer(other, false, stop);
      const auto left = answer.scenario ? exposed_in(*answer.scenario, *of->facts) : std::nullopt;
      if (left && *left * 2 < *now && (!best || *left < best->first))
        best = std::pair(*left, std::string(planner::name_of(prefetch)));
    }
    if (!best || stop.stop_requested()) return "";
    if (best->first <= Duration{}) return fmt::format("prefetch {} would hide it", best->second);
    return fmt::format("prefetch {} would leave {} of its predicted {} exposed", best->second,
                       rounded_text(best->first), rounded_text(*now));
  } catch (const Error&) {
    // A trace of others has no settings that could be changed.
    return "";
  }
}

}  // namespace shardscope::gui
