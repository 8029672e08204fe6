#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "traces/measured/metric_formats.h"
#include "traces/measured/text_rows.h"

namespace shardscope {
namespace {

using namespace std::string_view_literals;

/// "memory.used [MiB]" without its unit.
std::string_view without_unit(std::string_view column) {
  return trimmed(column.substr(0, std::min(column.find('['), column.size())));
}

/// "12345 MiB", "98 %", "700.12 W": the number.
std::optional<double> number_in(std::string_view field) {
  return decimal(field.substr(0, std::min(field.find(' '), field.size())));
}

/// What tells the GPUs apart, the best first.
constexpr std::array gpu_columns{"index"sv,      "gpu"sv,        "uuid"sv, "gpu_uuid"sv,
                                 "pci.bus_id"sv, "gpu_bus_id"sv, "name"sv};

std::optional<std::size_t> place_of(const std::vector<std::string_view>& columns,
                                    std::string_view name) {
  for (std::size_t i = 0; i < columns.size(); ++i)
    if (without_unit(columns[i]) == name) return i;
  return std::nullopt;
}

std::optional<std::size_t> gpu_place(const std::vector<std::string_view>& columns) {
  for (const std::string_view name : gpu_columns)
    if (const auto place = place_of(columns, name)) return place;
  return std::nullopt;
}

bool is_label(std::string_view column) {
  const std::string_view name = without_unit(column);
  return name == "timestamp" || name == "Date" || name == "Time" ||
         std::find(gpu_columns.begin(), gpu_columns.end(), name) != gpu_columns.end();
}

/// Rows of a table as points of one series for each GPU and column.
struct Rows {
  std::vector<std::string_view> columns;
  std::optional<std::size_t> gpu;
  MetricCollector collector;
  std::size_t odd = 0;  ///< lines that are no row

  void begin(std::vector<std::string_view> headings) {
    columns = std::move(headings);
    gpu = gpu_place(columns);
  }

  /// False where a limit is met.
  bool add(const std::vector<std::string_view>& fields) {
    if (fields.size() != columns.size()) return ++odd, true;
    const std::string_view which = gpu ? fields[*gpu] : "0"sv;
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const auto value = is_label(columns[i]) ? std::nullopt : number_in(fields[i]);
      if (value && !collector.add(fmt::format("gpu.{}.{}", which, columns[i]), {.value = *value}))
        return false;
    }
    return true;
  }
};

bool is_csv_heading(std::string_view line) {
  return line.find(',') != line.npos &&
         (line.find("memory.used") != line.npos || line.find("used_gpu_memory") != line.npos ||
          line.find("used_memory") != line.npos);
}

/// "# gpu   pwr  temp ... fb  bar1": the first of the two headlines of dmon.
bool is_dmon_heading(std::string_view line) {
  const std::vector<std::string_view> words = words_in(line);
  return line.starts_with('#') && std::find(words.begin(), words.end(), "fb") != words.end();
}

std::vector<std::string_view> dmon_columns(std::string_view line) {
  std::vector<std::string_view> words = words_in(line.substr(1));
  for (std::string_view& word : words)
    if (word.starts_with('#')) word.remove_prefix(1);
  return words;
}

}  // namespace

bool is_smi_log(std::string_view first_bytes) {
  if (first_bytes.find('\0') != first_bytes.npos) return false;
  LineReader lines(first_bytes);
  for (auto line = lines.next(); line; line = lines.next())
    if (is_csv_heading(*line) || is_dmon_heading(*line)) return true;
  return false;
}

MetricLog read_smi_log(std::string_view text, const std::string& file) {
  Rows rows;
  bool is_dmon = false, is_whole = true;
  LineReader lines(text);
  for (auto line = lines.next(); line && is_whole; line = lines.next()) {
    if (trimmed(*line).empty()) continue;
    if (is_dmon_heading(*line)) {
      rows.begin(dmon_columns(*line));
      is_dmon = true;
    } else if (!is_dmon && is_csv_heading(*line)) {
      rows.begin(fields_between(*line, ','));
    } else if (line->starts_with('#') || rows.columns.empty()) {
      continue;  // the units of dmon, and what was printed before the headline
    } else {
      is_whole = rows.add(is_dmon ? words_in(*line) : fields_between(*line, ','));
    }
  }
  MetricLog log{.file = file,
                .format = MetricFormat::nvidia_smi,
                .series = rows.collector.take(),
                .notes = {}};
  if (rows.odd > 0)
    log.notes.push_back(fmt::format("{} lines that are no row were passed over", rows.odd));
  if (!is_whole) log.notes.emplace_back("more numbers than are read; the rest was left out");
  return log;
}

}  // namespace shardscope
