#include <algorithm>
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

struct UnitRow {
  std::string unit;
  bool has_name = true;  ///< else: what belongs to no unit
  UnitFigures predicted, profiled;
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

void add_trace(UnitRows& rows, const Trace& trace, UnitFigures UnitRow::*side) {
  for (const UnitAccounting& unit : account_by_unit(trace, shown_step(trace)))
    rows.row(unit.unit).*side = {.compute = unit.compute,
                                 .communication = unit.communication,
                                 .exposed = unit.exposed_communication,
                                 .bytes = unit.communication_bytes};
}

/// Of matched operations only, so that both sides have the same ones.
void add_match(UnitRows& rows, const ComparedTraces& traces) {
  add_trace(rows, *traces.predicted, &UnitRow::predicted);
  const MatchErrors errors = match_errors({{.predicted = traces.predicted, .match = traces.match}});
  for (const UnitErrors& unit : errors.by_unit) {
    UnitRow& row = rows.row(unit.unit.value_or(""), unit.unit.has_value());
    row.predicted.compute = unit.compute.predicted.value;
    row.predicted.communication = unit.communication.predicted.value;
    row.profiled.compute = unit.compute.profiled.value;
    row.profiled.communication = unit.communication.profiled.value;
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

void add_figure(ColumnTable& table, const Figure& figure, const std::vector<UnitRow>& rows) {
  Column predicted{.id = std::string(figure.id) + "_predicted",
                   .title = std::string(figure.title) + ", predicted",
                   .about = figure.about,
                   .scale = figure.id,
                   .quantity = figure.quantity,
                   .look = CellLook::predicted};
  Column profiled = predicted, difference = predicted;
  profiled.id = std::string(figure.id) + "_profiled";
  profiled.title = std::string(figure.title) + ", profiled";
  profiled.look = CellLook::profiled;
  difference.id = std::string(figure.id) + "_difference";
  difference.title = std::string(figure.title) + ", predicted less profiled";
  difference.about = "predicted - profiled";
  difference.look = CellLook::difference;
  difference.is_signed = true;
  for (const UnitRow& row : rows) {
    predicted.numbers.push_back(figure.of(row.predicted));
    profiled.numbers.push_back(figure.of(row.profiled));
    difference.numbers.push_back(predicted.numbers.back() - profiled.numbers.back());
  }
  for (Column* column : {&predicted, &profiled, &difference})
    table.columns.push_back(std::move(*column));
}

/// (predicted - profiled) / profiled of compute and communication together.
Column error_column(const std::vector<UnitRow>& rows) {
  Column column{.id = "error",
                .title = "Error",
                .about = "(predicted - profiled) / profiled, of compute and communication together",
                .quantity = Quantity::share,
                .look = CellLook::difference,
                .is_signed = true};
  for (const UnitRow& row : rows) {
    const double predicted = number(row.predicted.compute) + number(row.predicted.communication);
    const double profiled = number(row.profiled.compute) + number(row.profiled.communication);
    column.numbers.push_back(
        error_share(SideBySide<double>{{predicted}, {profiled}}).value_or(no_number));
  }
  return column;
}

std::string name_of(const UnitRow& row) {
  if (!row.has_name) return "(no unit)";
  return row.unit.empty() ? "(root)" : row.unit;
}

}  // namespace

RowTable unit_table(const Scenario& scenario, std::size_t rank) {
  const ComparedTraces traces = compared_traces(scenario, rank);
  UnitRows collected;
  if (traces.match != nullptr) {
    add_match(collected, traces);
  } else {
    if (traces.predicted != nullptr) add_trace(collected, *traces.predicted, &UnitRow::predicted);
    if (traces.profiled != nullptr) add_trace(collected, *traces.profiled, &UnitRow::profiled);
  }
  const std::vector<UnitRow> rows = collected.take();
  RowTable result{.table = {.columns = {}, .rows = rows.size()}};
  if (rows.empty()) result.problem = "No operation of this trace belongs to a unit";
  std::vector<std::string> names;
  for (const UnitRow& row : rows) {
    names.push_back(name_of(row));
    RowTarget target;
    if (row.has_name) target.unit = row.unit;
    result.targets.push_back(std::move(target));
  }
  Column unit{.id = "unit", .title = "Unit", .about = "FSDP unit, DDP or ZeRO bucket"};
  set_texts(unit, names);
  result.table.columns.push_back(std::move(unit));
  for (const Figure& figure : all_figures) add_figure(result.table, figure, rows);
  result.table.columns.push_back(error_column(rows));
  set_units(result.table);
  return result;
}

}  // namespace shardscope::gui
