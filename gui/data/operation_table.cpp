#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "core/base/side_by_side.h"
#include "gui/data/unit_rows.h"
#include "traces/analysis.h"
#include "traces/difference_causes.h"
#include "traces/operation_runs.h"

namespace shardscope::gui {
namespace {

/// Explaining looks at all spans for each difference; not at more than so many together.
constexpr std::size_t most_looked_at = 200'000'000;

/// One side's run of an operation.
struct RunFigures {
  const OperationRun* run = nullptr;  ///< null: it did not run there
  const OperationFacts* facts = nullptr;
  Duration start;  ///< since its step's begin
};

struct OperationRow {
  OperationId operation;
  RunFigures predicted, profiled;
  Cause cause;
  bool is_explained = false;

  const RunFigures& any() const { return profiled.run != nullptr ? profiled : predicted; }
  bool has_both() const { return predicted.run != nullptr && profiled.run != nullptr; }
  /// predicted - profiled, the gap before it included, as causes are found by.
  Duration difference() const { return predicted.run->total() - profiled.run->total(); }
};

/// One trace with its typical runs.
class TraceRuns {
 public:
  TraceRuns(const Trace& trace, bool has_gaps) : trace_(trace), facts_(trace) {
    runs_ = typical_runs(trace);
    // Between matched operations may lie others, which are not in the trace.
    if (!has_gaps)
      for (auto& [operation, run] : runs_) run.gap = {};
    for (const StepWindow& step : step_windows(trace)) begins_[step.step] = step.window.begin;
  }

  const std::map<OperationId, OperationRun>& runs() const { return runs_; }
  const Trace& trace() const { return trace_; }
  RunFigures figures(OperationId operation) const {
    const auto run = runs_.find(operation);
    if (run == runs_.end()) return {};
    const auto begin = begins_.find(run->second.step);
    return {
        .run = &run->second,
        .facts = facts_.find(operation),
        .start = run->second.window.begin - (begin == begins_.end() ? Duration{} : begin->second)};
  }

 private:
  const Trace& trace_;
  FactsTable facts_;
  std::map<OperationId, OperationRun> runs_;
  std::map<int, Duration> begins_;
};

std::vector<OperationRow> rows_of(const TraceRuns* predicted, const TraceRuns* profiled) {
  std::set<OperationId> all;
  for (const TraceRuns* side : {predicted, profiled})
    if (side != nullptr)
      for (const auto& [operation, run] : side->runs()) all.insert(operation);
  std::vector<OperationRow> rows;
  for (const OperationId operation : all) {
    OperationRow row{.operation = operation};
    if (predicted != nullptr) row.predicted = predicted->figures(operation);
    if (profiled != nullptr) row.profiled = profiled->figures(operation);
    rows.push_back(std::move(row));
  }
  return rows;
}

OperationDifference difference_of(const OperationRow& row) {
  const OperationRun &plan = *row.predicted.run, &real = *row.profiled.run;
  OperationDifference difference{.operation = row.operation,
                                 .name = {},
                                 .unit = {},
                                 .duration = {{plan.duration}, {real.duration}},
                                 .gap = {{plan.gap}, {real.gap}},
                                 .bytes = {},
                                 .cause = {}};
  if (row.predicted.facts != nullptr) difference.bytes.predicted.value = row.predicted.facts->bytes;
  if (row.profiled.facts != nullptr) {
    difference.bytes.profiled.value = row.profiled.facts->bytes;
    difference.kind = row.profiled.facts->kind;
  }
  return difference;
}

/// The largest differences, with their causes.
void explain(std::vector<OperationRow>& rows, const ComparedTraces& traces,
             const std::stop_token& stop) {
  std::vector<OperationRow*> differing;
  for (OperationRow& row : rows)
    if (row.has_both() && row.difference() != Duration{}) differing.push_back(&row);
  std::stable_sort(differing.begin(), differing.end(), [](const auto* a, const auto* b) {
    return std::abs(a->difference().ns) > std::abs(b->difference().ns);
  });
  const std::size_t spans = std::max<std::size_t>(1, traces.profiled->spans.size());
  differing.resize(std::min({differing.size(), most_explained, 1 + most_looked_at / spans}));
  if (differing.empty()) return;
  const DifferenceEvidence evidence(*traces.predicted, traces.ranks);
  for (OperationRow* row : differing) {
    if (stop.stop_requested()) return;
    row->cause = cause_of(difference_of(*row), *row->predicted.run, *row->profiled.run, evidence);
    row->is_explained = true;
  }
}

double number(Duration time) { return static_cast<double>(time.ns); }

std::string cause_text(const OperationRow& row) {
  if (!row.has_both()) return row.predicted.run != nullptr ? "only predicted" : "only profiled";
  if (!row.is_explained) return "";
  std::string text(name_of(row.cause.kind));
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

Column text_column(Column head, const std::vector<OperationRow>& rows,
                   const std::function<std::string(const OperationRow&)>& text) {
  std::vector<std::string> texts;
  texts.reserve(rows.size());
  for (const OperationRow& row : rows) texts.push_back(text(row));
  set_texts(head, texts);
  return head;
}

Column number_column(Column head, const std::vector<OperationRow>& rows,
                     const std::function<double(const OperationRow&)>& value) {
  head.numbers.reserve(rows.size());
  for (const OperationRow& row : rows) head.numbers.push_back(value(row));
  return head;
}

/// A text of the operation's facts; "" without.
std::function<std::string(const OperationRow&)> fact(std::string (*of)(const OperationFacts&)) {
  return [of](const OperationRow& row) {
    const OperationFacts* facts = row.any().facts;
    return facts == nullptr ? std::string() : of(*facts);
  };
}

void add_texts(ColumnTable& table, const std::vector<OperationRow>& rows,
               const ComparedTraces& traces) {
  const Trace& named = traces.profiled != nullptr ? *traces.profiled : *traces.predicted;
  table.columns.push_back(
      text_column({.id = "name", .title = "Operation", .about = "As the schedule calls it"}, rows,
                  fact([](const OperationFacts& f) { return f.name; })));
  table.columns.push_back(text_column(
      {.id = "unit", .title = "Unit", .about = "FSDP unit, DDP or ZeRO bucket; (root)"}, rows,
      fact([](const OperationFacts& f) { return f.unit.empty() ? "(root)" : f.unit; })));
  table.columns.push_back(
      text_column({.id = "kind", .title = "Kind", .about = "compute, all_gather, ..."}, rows,
                  fact([](const OperationFacts& f) { return std::string(name_of(f.kind)); })));
  table.columns.push_back(text_column(
      {.id = "phase", .title = "Phase", .about = "forward, backward, optimizer, ..."}, rows,
      fact([](const OperationFacts& f) { return std::string(name_of(f.phase)); })));
  table.columns.push_back(text_column(
      {.id = "stream", .title = "Stream", .about = "Where it ran", .is_shown_at_first = false},
      rows, [&](const OperationRow& row) {
        const Trace& trace =
            row.profiled.run != nullptr || traces.predicted == nullptr ? named : *traces.predicted;
        return trace.tracks[trace.spans[row.any().run->span].track].name;
      }));
}

using SideNumber = double (*)(const RunFigures&);

void add_sides(ColumnTable& table, const std::vector<OperationRow>& rows, const Column& head,
               SideNumber value) {
  for (const bool is_predicted : {true, false}) {
    Column column = head;
    column.id += is_predicted ? "_predicted" : "_profiled";
    column.title += is_predicted ? ", predicted" : ", profiled";
    column.scale = head.id;
    column.look = is_predicted ? CellLook::predicted : CellLook::profiled;
    table.columns.push_back(number_column(std::move(column), rows, [&](const OperationRow& row) {
      const RunFigures& side = is_predicted ? row.predicted : row.profiled;
      return side.run == nullptr ? no_number : value(side);
    }));
  }
}

void add_numbers(ColumnTable& table, const std::vector<OperationRow>& rows) {
  add_sides(table, rows,
            {.id = "start",
             .title = "Start",
             .about = "Since its step's begin",
             .quantity = Quantity::duration,
             .is_shown_at_first = false},
            [](const RunFigures& f) { return number(f.start); });
  add_sides(table, rows,
            {.id = "duration",
             .title = "Duration",
             .about = "Of the typical step: the lower median",
             .quantity = Quantity::duration},
            [](const RunFigures& f) { return number(f.run->duration); });
  table.columns.push_back(number_column(
      {.id = "difference",
       .title = "Difference, predicted less profiled",
       .about = "predicted - profiled duration: above 0 where it is faster than predicted",
       .scale = "duration",
       .quantity = Quantity::duration,
       .look = CellLook::difference,
       .is_signed = true},
      rows, [](const OperationRow& row) {
        return row.has_both() ? number(row.predicted.run->duration - row.profiled.run->duration)
                              : no_number;
      }));
  table.columns.push_back(number_column({.id = "error",
                                         .title = "Error",
                                         .about = "(predicted - profiled) / profiled duration",
                                         .quantity = Quantity::share,
                                         .look = CellLook::difference,
                                         .is_signed = true},
                                        rows, [](const OperationRow& row) {
                                          if (!row.has_both()) return no_number;
                                          const SideBySide<Duration> pair{
                                              {row.predicted.run->duration},
                                              {row.profiled.run->duration}};
                                          return error_share(pair).value_or(no_number);
                                        }));
  add_sides(table, rows,
            {.id = "gap",
             .title = "Wait before",
             .about = "How long its stream did nothing before it (compute)",
             .quantity = Quantity::duration,
             .is_shown_at_first = false},
            [](const RunFigures& f) { return number(f.run->gap); });
  add_sides(table, rows,
            {.id = "bytes",
             .title = "Bytes",
             .about = "Read and written; of a collective its payload",
             .quantity = Quantity::bytes},
            [](const RunFigures& f) {
              const bool is_known = f.facts != nullptr && f.facts->bytes > Bytes{};
              return is_known ? static_cast<double>(f.facts->bytes.count) : no_number;
            });
}

/// What the operation of the same name takes in the prediction that is being tried.
void add_what_if(ColumnTable& table, const std::vector<OperationRow>& rows, const Scenario& ghost) {
  const ComparedTraces traces = compared_traces(ghost, 0);
  if (traces.predicted == nullptr) return;
  const std::map<RunKey, NamedRun> tried = named_runs(*traces.predicted);
  std::map<RunKey, int> seen;
  table.columns.push_back(
      number_column({.id = "duration_what_if",
                     .title = "Duration, what-if",
                     .about = "With the settings that are being tried, by the operation's name",
                     .scale = "duration",
                     .quantity = Quantity::duration,
                     .look = CellLook::predicted},
                    rows, [&](const OperationRow& row) {
                      const OperationFacts* facts = row.any().facts;
                      if (facts == nullptr) return no_number;
                      RunKey key = run_key(*facts);
                      key.number = seen[key]++;
                      const auto same = tried.find(key);
                      return same == tried.end() ? no_number : number(same->second.run.duration);
                    }));
}

void add_causes(ColumnTable& table, const std::vector<OperationRow>& rows) {
  table.columns.push_back(
      text_column({.id = "cause", .title = "Cause", .about = "Why the two differ, most likely"},
                  rows, cause_text));
  table.columns.push_back(
      text_column({.id = "reason", .title = "Reason", .about = "The figures behind the cause"},
                  rows, [](const OperationRow& row) { return row.cause.reason; }));
}

/// The first event of each operation that was found in an imported trace.
std::map<OperationId, std::uint32_t> events_of(const RankMatch* match) {
  std::map<OperationId, std::uint32_t> events;
  if (match == nullptr) return events;
  for (const CollectivePair& pair : match->collectives) events.emplace(pair.operation, pair.event);
  for (const ComputePair& pair : match->compute) events.emplace(pair.operation, pair.event);
  return events;
}

std::vector<RowTarget> targets_of(const std::vector<OperationRow>& rows, const RankMatch* match) {
  const std::map<OperationId, std::uint32_t> events = events_of(match);
  std::vector<RowTarget> targets;
  for (const OperationRow& row : rows) {
    RowTarget target{.operation = row.operation};
    if (row.any().facts != nullptr) target.unit = row.any().facts->unit;
    if (row.predicted.run != nullptr) {
      target.predicted_span = row.predicted.run->span;
      target.predicted = row.predicted.run->window;
    }
    if (row.profiled.run != nullptr) {
      if (match == nullptr) target.profiled_span = row.profiled.run->span;
      target.profiled = row.profiled.run->window;
    }
    if (const auto event = events.find(row.operation); event != events.end())
      target.event = event->second;
    targets.push_back(std::move(target));
  }
  return targets;
}

/// Texts of what spans refer to by an index.
Column interned(Column head, const std::vector<std::string>& texts, const Trace& trace,
                std::uint32_t (*of)(const Span&)) {
  std::vector<std::uint32_t> indices;
  indices.reserve(trace.spans.size());
  for (const Span& span : trace.spans) indices.push_back(of(span));
  set_texts(head, texts, std::move(indices));
  return head;
}

Column times(Column head, const Trace& trace, Duration Span::*of) {
  head.quantity = Quantity::duration;
  head.numbers.reserve(trace.spans.size());
  for (const Span& span : trace.spans) head.numbers.push_back(number(span.*of));
  return head;
}

/// Spans that name no operation of a schedule, as they are.
RowTable span_table(const std::shared_ptr<const Trace>& shared, SideKind side) {
  const Trace& trace = *shared;
  RowTable result{.table = {.columns = {}, .rows = trace.spans.size()},
                  .targets = {},
                  .spans = shared,
                  .side_of_spans = side};
  if (trace.spans.empty()) result.problem = "The trace has no spans";
  std::vector<std::string> classes, tracks;
  for (const SpanClass one : {SpanClass::compute, SpanClass::communication, SpanClass::copy,
                              SpanClass::host, SpanClass::annotation})
    classes.emplace_back(name_of(one));
  for (const Track& track : trace.tracks) tracks.push_back(track.name);
  result.table.columns = {
      interned({.id = "name", .title = "Event", .about = "As the trace calls it"}, trace.names,
               trace, [](const Span& span) { return span.name; }),
      interned({.id = "kind", .title = "Class", .about = "compute, communication, copy, ..."},
               classes, trace,
               [](const Span& span) { return static_cast<std::uint32_t>(span.span_class); }),
      interned({.id = "stream", .title = "Track", .about = "Where it ran"}, tracks, trace,
               [](const Span& span) { return std::uint32_t{span.track}; }),
      times({.id = "start", .title = "Start", .about = "Since the trace's begin"}, trace,
            &Span::start),
      times({.id = "duration",
             .title = "Duration",
             .about = "Of this event",
             .look = side == SideKind::predicted ? CellLook::predicted : CellLook::profiled},
            trace, &Span::duration)};
  set_units(result.table);
  return result;
}

}  // namespace

RowTable operation_table(const Scenario& scenario, std::size_t rank, std::stop_token stop,
                         const Scenario* ghost) {
  const ComparedTraces traces = compared_traces(scenario, rank);
  std::optional<TraceRuns> predicted, profiled;
  // Gaps are compared only where both sides have all that ran.
  const bool has_gaps = traces.match == nullptr;
  if (traces.predicted != nullptr) predicted.emplace(*traces.predicted, has_gaps);
  if (traces.profiled != nullptr) profiled.emplace(*traces.profiled, has_gaps);
  std::vector<OperationRow> rows =
      rows_of(predicted ? &*predicted : nullptr, profiled ? &*profiled : nullptr);
  if (rows.empty()) {
    if (traces.shared)
      return span_table(traces.shared,
                        traces.profiled != nullptr ? SideKind::profiled : SideKind::predicted);
    return {.table = {}, .targets = {}, .spans = {}, .problem = "There is no trace"};
  }
  if (predicted && profiled) explain(rows, traces, stop);
  RowTable result{.table = {.columns = {}, .rows = rows.size()},
                  .targets = targets_of(rows, traces.match),
                  .spans = {}};
  add_texts(result.table, rows, traces);
  add_numbers(result.table, rows);
  if (ghost != nullptr) add_what_if(result.table, rows, *ghost);
  add_causes(result.table, rows);
  set_units(result.table);
  return result;
}

}  // namespace shardscope::gui
