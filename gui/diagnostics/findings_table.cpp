#include "gui/diagnostics/findings_table.h"

#include <algorithm>
#include <array>
#include <utility>

#include "gui/diagnostics/diagnosis.h"

namespace shardscope::gui {
namespace {

constexpr std::array gravest_first{Severity::error, Severity::broken, Severity::warning,
                                   Severity::holds, Severity::note};

struct Row {
  const std::string* label;
  const Finding* finding;
};

std::uint32_t place_of(Severity severity) {
  const auto found = std::find(gravest_first.begin(), gravest_first.end(), severity);
  return static_cast<std::uint32_t>(found - gravest_first.begin());
}

std::vector<Row> rows_of(const std::vector<Diagnosis>& diagnoses) {
  std::vector<Row> rows;
  for (const Diagnosis& diagnosis : diagnoses)
    for (const Finding& finding : diagnosis.findings) rows.push_back({&diagnosis.label, &finding});
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return place_of(a.finding->severity) < place_of(b.finding->severity);
  });
  return rows;
}

/// Codes are by how grave a finding is and not by its word, so that the column sorts by that.
Column severity_column(const std::vector<Row>& rows) {
  Column column{.id = "severity", .title = "Severity", .about = "how grave it is"};
  for (const Severity severity : gravest_first) column.words.push_back(severity_text(severity));
  for (const Row& row : rows) column.codes.push_back(place_of(row.finding->severity));
  return column;
}

template <class Text>
Column text_column(const std::vector<Row>& rows, Column column, const Text& text) {
  std::vector<std::string> texts;
  texts.reserve(rows.size());
  for (const Row& row : rows) texts.push_back(text(row));
  set_texts(column, texts);
  return column;
}

}  // namespace

std::string severity_text(Severity severity) {
  switch (severity) {
    case Severity::error:
      return "\u2715 error";
    case Severity::broken:
      return "\u2260 broken";
    case Severity::warning:
      return "\u25b2 warning";
    case Severity::holds:
      return "\u2713 holds";
    case Severity::note:
      return "\u2022 note";
  }
  return "";
}

ColumnTable findings_table(const std::vector<Diagnosis>& diagnoses) {
  const std::vector<Row> rows = rows_of(diagnoses);
  ColumnTable table;
  table.rows = rows.size();
  table.columns.push_back(severity_column(rows));
  table.columns.push_back(
      text_column(rows, {.id = "scenario", .title = "Scenario", .about = "of which run or trace"},
                  [](const Row& row) { return *row.label; }));
  table.columns.push_back(
      text_column(rows, {.id = "where", .title = "Where", .about = "file, side or rank"},
                  [](const Row& row) { return row.finding->where; }));
  table.columns.push_back(text_column(
      rows, {.id = "what", .title = "What", .about = "what was found", .is_sentence = true},
      [](const Row& row) { return row.finding->what; }));
  set_units(table);
  return table;
}

std::string summary_text(const std::vector<Diagnosis>& diagnoses) {
  std::vector<Finding> all;
  for (const Diagnosis& diagnosis : diagnoses)
    all.insert(all.end(), diagnosis.findings.begin(), diagnosis.findings.end());
  return summary_text(all);
}

}  // namespace shardscope::gui
