#include "sim/validate/fine_tuning_row.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/utf8.h"
#include "sim/validate/published_words.h"

namespace shardscope {
namespace {

constexpr std::pair<std::string_view, std::string FineTuningRow::*> text_columns[] = {
    {"source", &FineTuningRow::source},
    {"model", &FineTuningRow::model},
    {"method", &FineTuningRow::method},
    {"precision", &FineTuningRow::precision},
    {"gpu", &FineTuningRow::gpu},
    {"strategy", &FineTuningRow::strategy},
    {"checkpointing", &FineTuningRow::checkpointing},
    {"optimizer", &FineTuningRow::optimizer},
    {"memory_kind", &FineTuningRow::memory_kind},
    {"notes", &FineTuningRow::notes}};

/// What is beyond `most` is no run of our time.
struct CountColumn {
  std::string_view name;
  std::optional<std::int64_t> FineTuningRow::*field;
  std::int64_t most;
};
constexpr CountColumn count_columns[] = {{"gpus", &FineTuningRow::gpus, 1 << 16},
                                         {"micro_batch", &FineTuningRow::micro_batch, 1 << 16},
                                         {"seq", &FineTuningRow::seq, 1 << 24}};

std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  if (read.ec != std::errc() || read.ptr != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

class RowReader {
 public:
  RowReader(const CsvTable& table, std::size_t row) : table_(table), row_(row) {}

  FineTuningRow read() {
    result_.number = static_cast<int>(row_) + 1;
    for (const auto& [name, field] : text_columns) result_.*field = std::string(text_of(name));
    for (const CountColumn& column : count_columns) take(column);
    take_peak();
    take_rate();
    return std::move(result_);
  }

 private:
  std::string_view text_of(std::string_view name) const {
    const auto column = table_.column(name);
    return column ? table_.field(row_, *column) : std::string_view();
  }
  void refuse(std::string_view name, std::string_view expected, std::string_view text) {
    if (result_.unreadable.empty())
      result_.unreadable = fmt::format("{}: expected {}, got \"{}\"", name, expected, shown(text));
  }
  void take(const CountColumn& column) {
    const std::string_view text = text_of(column.name);
    if (text.empty()) return;
    const auto value = number_of(text);
    if (!value || *value < 1 || *value > static_cast<double>(column.most) ||
        *value != std::floor(*value))
      return refuse(column.name, fmt::format("1 to {}", column.most), text);
    result_.*column.field = static_cast<std::int64_t>(*value);
  }
  void take_peak() {
    const std::string_view text = text_of("peak_memory_gib");
    if (text.empty()) return;
    if (text == "OOM") {
      result_.out_of_memory = true;
      return;
    }
    constexpr double most = 1e6;
    const auto value = number_of(text);
    if (!value || *value <= 0 || *value > most)
      return refuse("peak_memory_gib", "GiB or OOM", text);
    result_.peak_gib = *value;
  }

  void take_rate() {
    constexpr double most = 1e9;
    const std::string_view text = text_of("tokens_per_s");
    if (text.empty()) return;
    const auto value = number_of(text);
    if (!value || *value <= 0 || *value > most)
      return refuse("tokens_per_s", "tokens a second", text);
    result_.tokens_per_s = *value;
  }

  const CsvTable& table_;
  std::size_t row_;
  FineTuningRow result_;
};

/// The number that stands right before `word`, with commas between thousands; none: no such
/// positive number.
std::optional<double> number_before(std::string_view text, std::string_view word) {
  const std::size_t end = text.find(word);
  if (end == std::string_view::npos) return std::nullopt;
  std::size_t begin = end;
  while (begin > 0 && (std::isdigit(static_cast<unsigned char>(text[begin - 1])) != 0 ||
                       text[begin - 1] == '.' || text[begin - 1] == ','))
    --begin;
  std::string digits(text.substr(begin, end - begin));
  std::erase(digits, ',');
  const auto value = number_of(digits);
  return value && *value > 0 ? value : std::nullopt;
}

}  // namespace

bool is_fine_tuning_table(const CsvTable& table) {
  return table.column("method") && table.column("peak_memory_gib");
}

std::vector<FineTuningRow> fine_tuning_rows(const CsvTable& table) {
  for (const std::string_view needed : {"model", "method", "gpus", "peak_memory_gib"})
    if (!table.column(needed))
      throw Error({.where = table.file_name(),
                   .what = fmt::format("the table has no column \"{}\"", needed),
                   .way_out = "docs/cli.md lists the columns"});
  std::vector<FineTuningRow> rows;
  rows.reserve(table.rows());
  for (std::size_t row = 0; row < table.rows(); ++row) rows.push_back(RowReader(table, row).read());
  return rows;
}

std::optional<double> measured_tokens_per_s(const FineTuningRow& row) {
  if (row.tokens_per_s) return row.tokens_per_s;
  // How many tokens a step had is not known where samples are shorter.
  if (!row.seq || !row.gpus || row.notes.find("seq is a cap") != std::string::npos)
    return std::nullopt;
  const auto length = static_cast<double>(*row.seq);
  if (const auto seconds = number_before(row.notes, "s/it"); seconds && row.micro_batch)
    return static_cast<double>(*row.micro_batch *
                               number_after(row.notes, "grad accumulation ").value_or(1)) *
           length / *seconds;
  const auto samples = number_before(row.notes, " samples in ");
  const auto seconds = number_before(row.notes, " s (whole run");
  if (!samples || !seconds) return std::nullopt;
  return *samples * length / *seconds / static_cast<double>(*row.gpus);
}

std::string repository_of(const FineTuningRow& row) {
  return row.source.substr(0, row.source.find(' '));
}

}  // namespace shardscope
