#include "gui/data/query_answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <memory>

#include "core/base/error.h"

namespace shardscope::gui {
namespace {

constexpr int real_decimals = 3;

void add_runs(const ScenarioPointer& scenario, std::vector<QueryRun>& runs) {
  if (!scenario) return;
  for (const SideKind kind : {SideKind::predicted, SideKind::profiled}) {
    const Side* side = scenario->side(kind);
    if (side == nullptr) continue;
    runs.push_back({.scenario = scenario->label,
                    .side = std::string(name_of(kind)),
                    .ranks = side->ranks,
                    .imported = side->imported,
                    .snapshots = side->snapshots,
                    .buffers = side->buffers});
  }
}

std::optional<std::size_t> column_of(const QueryResult& result, std::string_view name) {
  const auto at = std::find(result.columns.begin(), result.columns.end(), name);
  if (at == result.columns.end()) return std::nullopt;
  return static_cast<std::size_t>(at - result.columns.begin());
}

std::optional<double> number_in(const std::vector<QueryValue>& row,
                                const std::optional<std::size_t>& column) {
  if (!column) return std::nullopt;
  if (const auto* whole = std::get_if<std::int64_t>(&row[*column]))
    return static_cast<double>(*whole);
  if (const auto* real = std::get_if<double>(&row[*column])) return *real;
  return std::nullopt;
}

const std::string* text_in(const std::vector<QueryValue>& row,
                           const std::optional<std::size_t>& column) {
  return column ? std::get_if<std::string>(&row[*column]) : nullptr;
}

std::string cell_text(const QueryValue& value) {
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *whole);
  if (const auto* real = std::get_if<double>(&value)) return fmt::format("{:.6g}", *real);
  const auto* text = std::get_if<std::string>(&value);
  return text == nullptr ? std::string() : *text;
}

/// Nanoseconds and bytes are known by how their columns are called, as in the tables.
Quantity quantity_of(const std::string& name) {
  constexpr std::array bytes{std::string_view("allocated"), std::string_view("active"),
                             std::string_view("reserved")};
  if (name.ends_with("_ns")) return Quantity::duration;
  const bool is_bytes =
      name.ends_with("bytes") || std::find(bytes.begin(), bytes.end(), name) != bytes.end();
  return is_bytes ? Quantity::bytes : Quantity::count;
}

Column column_from(const QueryResult& result, std::size_t at) {
  Column column{.id = fmt::format("{}", at),
                .title = result.columns[at],
                .about = result.columns[at],
                .scale = {}};
  bool is_number = !result.rows.empty();
  for (const auto& row : result.rows) is_number &= !std::holds_alternative<std::string>(row[at]);
  if (is_number) {
    column.quantity = quantity_of(result.columns[at]);
    for (const auto& row : result.rows)
      column.numbers.push_back(number_in(row, at).value_or(no_number));
    return column;
  }
  std::vector<std::string> texts;
  for (const auto& row : result.rows) texts.push_back(cell_text(row[at]));
  set_texts(column, texts);
  return column;
}

ColumnTable table_from(const QueryResult& result) {
  ColumnTable table{.rows = result.rows.size()};
  for (std::size_t i = 0; i < result.columns.size(); ++i)
    table.columns.push_back(column_from(result, i));
  set_units(table);
  for (Column& column : table.columns) {
    const bool has_parts =
        column.quantity == Quantity::count &&
        std::any_of(column.numbers.begin(), column.numbers.end(), [](double number) {
          return std::isfinite(number) && number != std::floor(number);
        });
    if (has_parts) column.unit.decimals = real_decimals;
  }
  return table;
}

class RowPlaces {
 public:
  RowPlaces(const QueryQuestion& question, const QueryResult& result)
      : question_(question),
        scenario_(column_of(result, "scenario")),
        side_(column_of(result, "side")),
        rank_(column_of(result, "rank")),
        start_(column_of(result, "start_ns")),
        end_(column_of(result, "end_ns")),
        duration_(column_of(result, "duration_ns")),
        id_(column_of(result, "id")) {
    // `id` is that of a span where no other table has a row of that kind.
    const bool is_event = column_of(result, "category") || column_of(result, "correlation");
    if (is_event) id_.reset();
  }

  QueryRowPlace of(const std::vector<QueryValue>& row) const {
    QueryRowPlace place;
    const std::string* label = text_in(row, scenario_);
    for (const ScenarioPointer& scenario : {question_.a, question_.b})
      if (scenario && !place.scenario && (label == nullptr || scenario->label == *label))
        place.scenario = scenario;
    if (!place.scenario) return place;
    const std::string* side = text_in(row, side_);
    place.side = side != nullptr ? (*side == name_of(SideKind::predicted) ? SideKind::predicted
                                                                          : SideKind::profiled)
                 : place.scenario->profiled ? SideKind::profiled
                                            : SideKind::predicted;
    const Side* of = place.scenario->side(place.side);
    if (of == nullptr || of->ranks.empty()) return place;
    if (const auto rank = number_in(row, rank_)) {
      const auto at = std::find_if(of->ranks.begin(), of->ranks.end(),
                                   [&](const auto& trace) { return trace->rank == *rank; });
      if (at == of->ranks.end()) return place;
      place.rank = static_cast<std::size_t>(at - of->ranks.begin());
    }
    add_time(row, place);
    const auto id = number_in(row, id_);
    if (id && *id >= 0 && *id < static_cast<double>(of->ranks[place.rank]->spans.size()))
      place.span = static_cast<std::size_t>(*id);
    return place;
  }

 private:
  void add_time(const std::vector<QueryValue>& row, QueryRowPlace& place) const {
    const auto start = number_in(row, start_);
    if (!start) return;
    auto end = number_in(row, end_);
    if (!end)
      if (const auto duration = number_in(row, duration_)) end = *start + *duration;
    // SQL may answer with an infinite number.
    if (!end || !std::isfinite(*start) || !std::isfinite(*end) || *end < *start) return;
    const TimeMap map = time_map(*place.scenario, place.side, place.rank, question_.mode,
                                 question_.a.get(), question_.step);
    place.time = TimeRange{.begin = map.axis_of(*start), .end = map.axis_of(*end)};
  }

  const QueryQuestion& question_;
  std::optional<std::size_t> scenario_, side_, rank_, start_, end_, duration_, id_;
};

}  // namespace

std::vector<TimeRange> QueryAnswer::marks() const {
  std::vector<TimeRange> ranges;
  for (const QueryRowPlace& place : places)
    if (place.time) ranges.push_back(*place.time);
  return ranges;
}

std::vector<QueryRun> query_runs(const ScenarioPointer& a, const ScenarioPointer& b) {
  std::vector<QueryRun> runs;
  add_runs(a, runs);
  if (b != a) add_runs(b, runs);
  return runs;
}

QueryAnswer ask(const QueryQuestion& question, const std::stop_token& stop) {
  QueryAnswer answer;
  const auto begin = std::chrono::steady_clock::now();
  try {
    const std::vector<QueryRun> runs = query_runs(question.a, question.b);
    const QueryResult result = run_query(runs, question.sql, {}, stop);
    answer.table = std::make_shared<const ColumnTable>(table_from(result));
    answer.is_cut = result.is_cut;
    const RowPlaces places(question, result);
    for (const auto& row : result.rows) answer.places.push_back(places.of(row));
  } catch (const Error& error) {
    answer.error = error.what();
  }
  answer.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return answer;
}

}  // namespace shardscope::gui
