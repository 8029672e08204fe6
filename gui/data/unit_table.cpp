#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <utility>

#include "core/base/side_by_side.h"
#include "gui/data/unit_rows.h"
#include "traces/analysis.h"
#include "traces/match/match_errors.h"

namespace shardscope::gui {
namespace {

/// One side's figures of a unit; none where that side cannot tell.
struct UnitFigures {
  std::optional<Duration> compute, communication, exposed;
  std::optional<Bytes> bytes;
};

/// Whose figures stand beside one another: of one scenario predicted, profiled and What-if, of two
/// A and B.
enum Place : std::size_t { first, second, third, place_count };

struct UnitRow {
  std::string unit;
  bool has_name = true;  ///< else: what belongs to no unit
  std::array<UnitFigures, place_count> of{};
};

/// A column for each figure.
struct Head {
  const char* id;
  std::string title;
  CellLook look;
  Place place;
};
struct DifferenceHead {
  const char* title;
  const char* about;
  Place from, less;
};

/// Rows in the order in which units come first.
class UnitRows {
 public:
  UnitRow& row(const std::string& unit, bool has_name = true) {
    const auto [place, is_new] = places_.try_emplace({has_name, unit}, rows_.size());
    if (is_new) rows_.push_back({.unit = unit, .has_name = has_name});
    return rows_[place->second];
  }
  std::vector<UnitRow> take() { return std::move(rows_); }

 private:
  std::map<std::pair<bool, std::string>, std::size_t> places_;
  std::vector<UnitRow> rows_;
};

/// Traces of others may say of collectives alone what operation they are, and nothing of units.
bool says_units(const Trace& trace) {
  const FactsTable facts(trace);
  const bool has_names = std::ranges::any_of(
      trace.facts, [](const OperationFacts& operation) { return !operation.unit.empty(); });
  return has_names || std::ranges::any_of(trace.spans, [&](const Span& span) {
           return span.span_class == SpanClass::compute && facts.find(span.operation) != nullptr;
         });
}

void add_trace(UnitRows& rows, const Trace& trace, Place place) {
  const bool has_units = says_units(trace);
  for (const UnitAccounting& unit : account_by_unit(trace, shown_step(trace))) {
    UnitFigures& figures = rows.row(unit.unit, has_units).of[place];
    figures = {.compute = unit.compute,
               .communication = unit.communication,
               .exposed = unit.exposed_communication,
               .bytes = unit.communication_bytes};
    if (!has_units) figures.compute.reset();
    if (unit.communication > Duration{} && unit.communication_bytes == Bytes{})
      figures.bytes.reset();
  }
}

/// Of matched operations only, so that both sides have the same ones.
void add_match(UnitRows& rows, const ComparedTraces& traces) {
  add_trace(rows, *traces.predicted, first);
  const MatchErrors errors = match_errors({{.predicted = traces.predicted, .match = traces.match}});
  for (const UnitErrors& unit : errors.by_unit) {
    UnitRow& row = rows.row(unit.unit.value_or(""), unit.unit.has_value());
    row.of[first].compute = unit.compute.predicted.value;
    row.of[first].communication = unit.communication.predicted.value;
    row.of[second].compute = unit.compute.profiled.value;
    row.of[second].communication = unit.communication.profiled.value;
  }
}

double number(std::optional<Duration> time) {
  return time ? static_cast<double>(time->ns) : no_number;
}
double number(std::optional<Bytes> bytes) {
  return bytes ? static_cast<double>(bytes->count) : no_number;
}

struct Figure {
  const char* id;
  const char* title;
  const char* about;
  Quantity quantity;
  double (*of)(const UnitFigures&);
};
constexpr Figure all_figures[] = {
    {"compute", "Compute", "Time in which an operation of the unit is computed", Quantity::duration,
     [](const UnitFigures& f) { return number(f.compute); }},
    {"communication", "Communication", "Time in which a collective of the unit runs",
     Quantity::duration, [](const UnitFigures& f) { return number(f.communication); }},
    {"exposed", "Exposed", "Communication of the unit while nothing of any unit is computed",
     Quantity::duration, [](const UnitFigures& f) { return number(f.exposed); }},
    {"bytes", "Collective bytes", "Payload of the unit's collectives", Quantity::bytes,
     [](const UnitFigures& f) { return number(f.bytes); }},
};

void add_figure(ColumnTable& table, const Figure& figure, const std::vector<UnitRow>& rows,
                const std::vector<Head>& heads, const DifferenceHead& less) {
  const auto number_of = [&](const UnitRow& row, Place place) { return figure.of(row.of[place]); };
  const auto add = [&](Column column, const auto& value) {
    for (const UnitRow& row : rows) column.numbers.push_back(value(row));
    table.columns.push_back(std::move(column));
  };
  const auto column = [&](const std::string& id, const std::string& title, const char* about) {
    return Column{.id = std::string(figure.id) + "_" + id,
                  .title = std::string(figure.title) + ", " + title,
                  .about = about,
                  .scale = figure.id,
                  .quantity = figure.quantity};
  };
  for (const Head& head : heads) {
    Column of = column(head.id, head.title, figure.about);
    of.look = head.look;
    add(std::move(of), [&](const UnitRow& row) { return number_of(row, head.place); });
  }
  Column difference = column("difference", less.title, less.about);
  difference.look = CellLook::difference;
  difference.is_signed = true;
  add(std::move(difference),
      [&](const UnitRow& row) { return number_of(row, less.from) - number_of(row, less.less); });
}

/// (predicted - profiled) / profiled of compute and communication together.
Column error_column(const std::vector<UnitRow>& rows) {
  Column column{.id = "error",
                .title = "Error",
                .about = "(predicted - profiled) / profiled, of compute and communication together",
                .quantity = Quantity::share,
                .look = CellLook::difference,
                .is_signed = true};
  const auto both = [](const UnitFigures& figures) {
    return number(figures.compute) + number(figures.communication);
  };
  for (const UnitRow& row : rows)
    column.numbers.push_back(
        error_share(SideBySide<double>{{both(row.of[first])}, {both(row.of[second])}})
            .value_or(no_number));
  return column;
}

std::string name_of(const UnitRow& row) {
  if (!row.has_name) return "(no unit)";
  return row.unit.empty() ? "(root)" : row.unit;
}

/// From the first to the last operation of each unit in the phase that it first runs in.
std::map<std::string, TimeWindow> first_runs(const Trace& trace) {
  struct First {
    Phase phase;
    std::int32_t micro_batch;
    TimeWindow window;
  };
  const TimeWindow step = shown_step(trace);
  const FactsTable facts(trace);
  std::map<std::string, First> firsts;
  std::vector<std::size_t> spans;
  for (std::size_t i = 0; i < trace.spans.size(); ++i)
    if (is_on_device(trace, trace.spans[i]) && trace.spans[i].start >= step.begin &&
        trace.spans[i].start < step.end)
      spans.push_back(i);
  std::stable_sort(spans.begin(), spans.end(), [&](std::size_t a, std::size_t b) {
    return trace.spans[a].start < trace.spans[b].start;
  });
  for (const std::size_t i : spans) {
    const Span& span = trace.spans[i];
    const OperationFacts* of = facts.find(span.operation);
    if (of == nullptr || span.span_class != SpanClass::compute) continue;
    const auto [place, is_new] =
        firsts.try_emplace(of->unit, First{of->phase, of->micro_batch, {span.start, span.end()}});
    First& first_run = place->second;
    if (first_run.phase == of->phase && first_run.micro_batch == of->micro_batch)
      first_run.window.end = std::max(first_run.window.end, span.end());
  }
  std::map<std::string, TimeWindow> windows;
  for (const auto& [unit, first_run] : firsts) windows[unit] = first_run.window;
  return windows;
}

void place_units(RowTable& rows, const Trace* trace, std::optional<TimeWindow> RowTarget::*side) {
  if (trace == nullptr) return;
  const std::map<std::string, TimeWindow> windows = first_runs(*trace);
  for (RowTarget& target : rows.targets) {
    const auto found = target.unit ? windows.find(*target.unit) : windows.end();
    if (found != windows.end()) target.*side = found->second;
  }
}

RowTable rows_table(const std::vector<UnitRow>& rows, const std::vector<Head>& heads,
                    const DifferenceHead& less) {
  RowTable result{.table = {.columns = {}, .rows = rows.size()}};
  if (rows.empty()) result.problem = "No operation of this trace belongs to a unit";
  std::vector<std::string> names;
  for (const UnitRow& row : rows) {
    names.push_back(name_of(row));
    RowTarget target;
    if (row.has_name) target.unit = row.unit;
    result.targets.push_back(std::move(target));
  }
  Column unit{.id = "unit",
              .title = "Unit",
              .about = "FSDP unit, DDP or ZeRO bucket; (no unit): the trace does not say"};
  set_texts(unit, names);
  result.table.columns.push_back(std::move(unit));
  for (const Figure& figure : all_figures) add_figure(result.table, figure, rows, heads, less);
  return result;
}

}  // namespace

RowTable unit_table(const Scenario& scenario, std::size_t rank, const Scenario* ghost) {
  const ComparedTraces traces = compared_traces(scenario, rank);
  UnitRows collected;
  if (traces.match != nullptr) {
    add_match(collected, traces);
  } else {
    if (traces.predicted != nullptr) add_trace(collected, *traces.predicted, first);
    if (traces.profiled != nullptr) add_trace(collected, *traces.profiled, second);
  }
  std::vector<Head> heads{{"predicted", "predicted", CellLook::predicted, first},
                          {"profiled", "profiled", CellLook::profiled, second}};
  const ComparedTraces tried = ghost == nullptr ? ComparedTraces{} : compared_traces(*ghost, 0);
  if (tried.predicted != nullptr) {
    add_trace(collected, *tried.predicted, third);
    heads.push_back({"what_if", "what-if", CellLook::predicted, third});
  }
  const std::vector<UnitRow> rows = collected.take();
  RowTable result =
      rows_table(rows, heads, {"predicted less profiled", "predicted - profiled", first, second});
  result.table.columns.push_back(error_column(rows));
  place_units(result, traces.predicted, &RowTarget::predicted);
  place_units(result, traces.profiled, &RowTarget::profiled);
  set_units(result.table);
  return result;
}

RowTable unit_pair_table(const Scenario& a, const Scenario& b, std::size_t rank) {
  const PairedTraces pair = paired_traces(a, b, rank);
  if (pair.a == nullptr)
    return {.problem = "A and B have no side in common: profile or predict both"};
  UnitRows collected;
  add_trace(collected, *pair.a, first);
  add_trace(collected, *pair.b, second);
  const bool is_predicted = pair.kind == SideKind::predicted;
  const CellLook look = is_predicted ? CellLook::predicted : CellLook::profiled;
  const std::string kind = is_predicted ? " predicted" : " profiled";
  RowTable result = rows_table(collected.take(),
                               {{"a", "A" + kind, look, first}, {"b", "B" + kind, look, second}},
                               {"B less A", "B - A: above 0 where B has more", second, first});
  place_units(result, pair.a, is_predicted ? &RowTarget::predicted : &RowTarget::profiled);
  set_units(result.table);
  return result;
}

}  // namespace shardscope::gui
