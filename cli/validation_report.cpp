#include "cli/validation_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/skipped_rows.h"
#include "cli/summary_text.h"
#include "cli/table.h"

namespace shardscope {
namespace {

using Json = nlohmann::ordered_json;

std::string percent(double share) { return fmt::format("{:.1f}%", 100 * share); }

std::vector<Cell> statistics_cells(const ErrorStatistics& s) {
  return {s.source.empty() ? "all" : s.source,
          std::to_string(s.rows),
          percent(s.mean_abs_error),
          percent(s.median_abs_error),
          {error_text(s.worst_error), error_paint(s.worst_error)},
          s.kendall_tau ? fmt::format("{:.2f}", *s.kendall_tau) : "-",
          percent(s.band_coverage)};
}

std::string statistics_table(std::span<const ValidatedRow> rows, const Painter& painter) {
  Table table({{"source", Align::left},
               {"rows", Align::right},
               {"mean error", Align::right},
               {"median", Align::right},
               {"worst", Align::right},
               {"Kendall tau", Align::right},
               {"in the band", Align::right}});
  for (const ErrorStatistics& source : statistics_by_source(rows))
    table.row(statistics_cells(source));
  table.rule();
  table.row(statistics_cells(statistics_of(rows)));
  return table.text(painter);
}

std::string rows_table(std::span<const ValidatedRow> rows, const Painter& painter) {
  Table table({{"row", Align::right},
               {"model", Align::left},
               {"strategy", Align::left},
               {"predicted", Align::right},
               {"measured", Align::right},
               {"error", Align::right},
               {"band", Align::left}});
  const auto text = [](const std::optional<Duration>& time) {
    return time ? rounded_text(*time) : std::string("-");
  };
  for (const ValidatedRow& row : rows) {
    const std::optional<double> error = row.counts() ? std::optional(row.error()) : std::nullopt;
    table.row(
        {std::to_string(row.number),
         row.model,
         row.strategy,
         text(row.predicted),
         text(row.measured),
         {error_text(error), error_paint(error)},
         row.predicted ? fmt::format("{} to {}", text(row.low), text(row.high)) : row.skipped});
  }
  return table.text(painter);
}

constexpr const char* without_measurement =
    "predicted, but no step time in the row and no rate that it follows from";

/// Rows that take no part in the errors by the reason, in order of first appearance.
std::string skipped_text(std::span<const ValidatedRow> rows) {
  std::vector<SkippedRow> skipped;
  for (const ValidatedRow& row : rows)
    if (!row.counts())
      skipped.push_back({row.number, row.predicted ? without_measurement : row.skipped});
  return skipped_rows_text(skipped);
}

Json nanoseconds(const std::optional<Duration>& time) { return time ? Json(time->ns) : Json(); }

Json json_of(const ValidatedRow& row) {
  return {{"row", row.number},
          {"source", row.source},
          {"model", row.model},
          {"predicted_ns", nanoseconds(row.predicted)},
          {"measured_ns", nanoseconds(row.measured)},
          {"error_share", row.counts() ? Json(row.error()) : Json()},
          {"low_ns", nanoseconds(row.low)},
          {"high_ns", nanoseconds(row.high)},
          {"skipped", row.predicted ? Json() : Json(row.skipped)},
          {"assumed", row.assumed}};
}

Json json_of(const ErrorStatistics& s) {
  const auto of_some = [&](double share) { return s.rows > 0 ? Json(share) : Json(); };
  return {{"source", s.source.empty() ? Json() : Json(s.source)},
          {"rows", s.rows},
          {"mean_abs_error_share", of_some(s.mean_abs_error)},
          {"median_abs_error_share", of_some(s.median_abs_error)},
          {"worst_error_share", of_some(s.worst_error)},
          {"kendall_tau", s.kendall_tau ? Json(*s.kendall_tau) : Json()},
          {"band_coverage_share", of_some(s.band_coverage)}};
}

}  // namespace

std::string validation_text(std::span<const ValidatedRow> rows, bool every_row,
                            const Painter& painter) {
  std::string text;
  if (every_row) text += rows_table(rows, painter) + "\n";
  const bool compared = std::ranges::any_of(rows, &ValidatedRow::counts);
  text += compared ? statistics_table(rows, painter)
                   : "nothing was compared: no row has both a prediction and a measurement\n";
  return text + "\n" + skipped_text(rows);
}

std::string validation_json(std::span<const ValidatedRow> rows) {
  Json json{{"schema", "shardscope.validate/1"},
            {"rows", Json::array()},
            {"by_source", Json::array()},
            {"all", json_of(statistics_of(rows))}};
  for (const ValidatedRow& row : rows) json["rows"].push_back(json_of(row));
  for (const ErrorStatistics& source : statistics_by_source(rows))
    json["by_source"].push_back(json_of(source));
  return json.dump(2);
}

}  // namespace shardscope
