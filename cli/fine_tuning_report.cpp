#include "cli/fine_tuning_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "cli/skipped_rows.h"
#include "cli/summary_text.h"
#include "cli/table.h"

namespace shardscope {
namespace {

using Json = nlohmann::ordered_json;

std::string percent(double share) { return fmt::format("{:.1f}%", 100 * share); }

std::string part(int some, int all) { return all > 0 ? fmt::format("{} of {}", some, all) : "-"; }

std::vector<Cell> statistics_cells(const MemoryStatistics& s) {
  const bool any = s.rows > 0;
  return {s.source.empty() ? "all" : s.source,
          std::to_string(s.rows),
          any ? percent(s.median_abs_error) : "-",
          {any ? error_text(s.mean_error) : "-", error_paint(s.mean_error)},
          any ? percent(s.within_a_tenth) : "-",
          {any ? error_text(s.worst_error) : "-", error_paint(s.worst_error)},
          part(s.ran_right, s.ran),
          part(s.failed_right, s.failed),
          std::to_string(s.rates),
          s.rates > 0 ? percent(s.median_abs_rate_error) : "-",
          {s.rates > 0 ? error_text(s.mean_rate_error) : "-", error_paint(s.mean_rate_error)}};
}

std::string statistics_table(std::span<const ValidatedFineTuning> rows, const Painter& painter) {
  Table table({{"source", Align::left},
               {"rows", Align::right},
               {"median", Align::right},
               {"bias", Align::right},
               {"within 10%", Align::right},
               {"worst", Align::right},
               {"ran, fits", Align::right},
               {"out of memory, does not fit", Align::right},
               {"rows with tokens/s", Align::right},
               {"median of tokens/s", Align::right},
               {"bias of tokens/s", Align::right}});
  for (const MemoryStatistics& source : statistics_by_source(rows))
    table.row(statistics_cells(source));
  table.rule();
  table.row(statistics_cells(statistics_of(rows)));
  return table.text(painter);
}

std::string rows_table(std::span<const ValidatedFineTuning> rows, const Painter& painter) {
  Table table({{"row", Align::right},
               {"model", Align::left},
               {"method", Align::left},
               {"strategy", Align::left},
               {"memory", Align::left},
               {"predicted", Align::right},
               {"measured", Align::right},
               {"error", Align::right},
               {"tokens/s", Align::right},
               {"measured tokens/s", Align::right},
               {"error of tokens/s", Align::right},
               {"fits", Align::left}});
  const auto rate = [](const std::optional<double>& tokens) {
    return tokens ? fmt::format("{:.0f}", *tokens) : std::string("-");
  };
  const auto text = [](const std::optional<Bytes>& bytes) {
    return bytes ? rounded_text(*bytes) : std::string("-");
  };
  for (const ValidatedFineTuning& row : rows) {
    const std::optional<double> error = row.counts() ? std::optional(row.error()) : std::nullopt;
    const std::optional<double> rate_error =
        row.has_rates() ? std::optional(row.rate_error()) : std::nullopt;
    table.row({std::to_string(row.number),
               row.model,
               row.method,
               row.strategy,
               std::string(name_of(row.kind)),
               text(row.predicted),
               row.out_of_memory ? "out of memory" : text(row.measured),
               {error_text(error), error_paint(error)},
               rate(row.predicted_rate),
               rate(row.measured_rate),
               {error_text(rate_error), error_paint(rate_error)},
               row.predicted ? (row.fits ? "yes" : "no") : row.skipped});
  }
  return table.text(painter);
}

/// Rows without a prediction by the reason, in order of first appearance.
std::string skipped_text(std::span<const ValidatedFineTuning> rows) {
  std::vector<SkippedRow> skipped;
  for (const ValidatedFineTuning& row : rows)
    if (!row.predicted) skipped.push_back({row.number, row.skipped});
  return skipped_rows_text(skipped);
}

Json bytes_of(const std::optional<Bytes>& bytes) { return bytes ? Json(bytes->count) : Json(); }

Json json_of(const ValidatedFineTuning& row) {
  return {{"row", row.number},
          {"source", row.repository},
          {"model", row.model},
          {"memory", name_of(row.kind)},
          {"predicted_bytes", bytes_of(row.predicted)},
          {"predicted_loading_bytes", bytes_of(row.loading)},
          {"measured_bytes", bytes_of(row.measured)},
          {"error_share", row.counts() ? Json(row.error()) : Json()},
          {"predicted_tokens_per_s", row.predicted_rate ? Json(*row.predicted_rate) : Json()},
          {"measured_tokens_per_s", row.measured_rate ? Json(*row.measured_rate) : Json()},
          {"tokens_per_s_error_share", row.has_rates() ? Json(row.rate_error()) : Json()},
          {"fits", row.predicted ? Json(row.fits) : Json()},
          {"ran_out_of_memory", row.out_of_memory},
          {"skipped", row.predicted ? Json() : Json(row.skipped)},
          {"assumed", row.assumed}};
}

Json json_of(const MemoryStatistics& s) {
  const auto of_some = [&](double share) { return s.rows > 0 ? Json(share) : Json(); };
  return {{"source", s.source.empty() ? Json() : Json(s.source)},
          {"rows", s.rows},
          {"median_abs_error_share", of_some(s.median_abs_error)},
          {"mean_error_share", of_some(s.mean_error)},
          {"within_a_tenth_share", of_some(s.within_a_tenth)},
          {"worst_error_share", of_some(s.worst_error)},
          {"rates", s.rates},
          {"rate_median_abs_error_share", s.rates > 0 ? Json(s.median_abs_rate_error) : Json()},
          {"rate_mean_error_share", s.rates > 0 ? Json(s.mean_rate_error) : Json()},
          {"ran", s.ran},
          {"ran_and_fits", s.ran_right},
          {"out_of_memory", s.failed},
          {"out_of_memory_and_does_not_fit", s.failed_right}};
}

}  // namespace

std::string fine_tuning_text(std::span<const ValidatedFineTuning> rows, bool every_row,
                             const Painter& painter) {
  std::string text;
  if (every_row) text += rows_table(rows, painter) + "\n";
  text += statistics_table(rows, painter);
  return text + "\n" + skipped_text(rows);
}

std::string fine_tuning_json(std::span<const ValidatedFineTuning> rows) {
  Json json{{"schema", "shardscope.validate-memory/1"},
            {"rows", Json::array()},
            {"by_source", Json::array()},
            {"all", json_of(statistics_of(rows))}};
  for (const ValidatedFineTuning& row : rows) json["rows"].push_back(json_of(row));
  for (const MemoryStatistics& source : statistics_by_source(rows))
    json["by_source"].push_back(json_of(source));
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace shardscope
