#include "core/format/csv_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/utf8.h"
#include "core/format/atomic_file.h"

namespace shardscope {
namespace {

constexpr std::size_t most_columns = 1000;
constexpr std::size_t most_rows = 100'000;
constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace

/// Goes through the text once, field by field.
class CsvTable::Parser {
 public:
  Parser(std::string_view text, CsvTable& table) : rest_(text), table_(table) {
    if (rest_.starts_with(byte_order_mark)) rest_.remove_prefix(byte_order_mark.size());
    table_.text_.reserve(rest_.size());
  }

  void parse() {
    while (!rest_.empty())
      if (!pass_line_end()) row();
    take_header();
  }

 private:
  Error error(std::int64_t line, std::string what) const {
    return Error({.where = fmt::format("{}:{}", table_.file_name_, line), .what = std::move(what)});
  }

  bool pass_line_end() {
    for (const std::string_view end : {"\r\n", "\n"})
      if (rest_.starts_with(end)) {
        rest_.remove_prefix(end.size());
        ++line_;
        return true;
      }
    return false;
  }

  bool at_line_end() const {
    return rest_.empty() || rest_.starts_with("\n") || rest_.starts_with("\r\n");
  }

  void row() {
    if (table_.rows_.size() > most_rows)
      throw error(line_, fmt::format("more than {} rows", most_rows));
    Row row{.first = table_.fields_.size(), .count = 0, .line = line_};
    const std::size_t most = table_.rows_.empty() ? most_columns : table_.rows_.front().count;
    do {
      if (row.count == most)
        throw error(row.line, table_.rows_.empty()
                                  ? fmt::format("more than {} columns", most)
                                  : fmt::format("more fields than the header's {} columns", most));
      field();
      ++row.count;
    } while (pass_comma());
    pass_line_end();
    table_.rows_.push_back(row);
  }

  bool pass_comma() {
    if (!rest_.starts_with(',')) return false;
    rest_.remove_prefix(1);
    return true;
  }

  void field() {
    const auto begin = static_cast<std::uint32_t>(table_.text_.size());
    if (rest_.starts_with('"'))
      quoted_field();
    else
      plain_field();
    table_.fields_.push_back({begin, static_cast<std::uint32_t>(table_.text_.size())});
  }

  void plain_field() {
    std::size_t length = std::min(rest_.find_first_of(",\n"), rest_.size());
    if (length > 0 && length < rest_.size() && rest_[length] == '\n' && rest_[length - 1] == '\r')
      --length;
    table_.text_ += trimmed(rest_.substr(0, length));
    rest_.remove_prefix(length);
  }

  void quoted_field() {
    const std::int64_t begin = line_;
    rest_.remove_prefix(1);
    while (true) {
      const std::size_t quote = rest_.find('"');
      if (quote == std::string_view::npos) throw error(begin, "a quote that does not end");
      const std::string_view part = rest_.substr(0, quote);
      table_.text_ += part;
      line_ += std::ranges::count(part, '\n');
      rest_.remove_prefix(quote + 1);
      if (!rest_.starts_with('"')) break;
      table_.text_ += '"';
      rest_.remove_prefix(1);
    }
    if (!at_line_end() && !rest_.starts_with(','))
      throw error(line_, "text behind a closing quote");
  }

  void take_header() {
    if (table_.rows_.empty())
      throw Error({.where = table_.file_name_, .what = "is empty; a first line names the columns"});
    const std::int64_t line = table_.rows_.front().line;
    for (std::size_t i = 0; i < table_.rows_.front().count; ++i) {
      std::string name(table_.field(0, i));
      if (!name.empty() && std::ranges::find(table_.columns_, name) != table_.columns_.end())
        throw error(line, fmt::format("column \"{}\" stands there twice", shown(name)));
      table_.columns_.push_back(std::move(name));
    }
    table_.rows_.erase(table_.rows_.begin());
  }

  std::string_view rest_;
  CsvTable& table_;
  std::int64_t line_ = 1;
};

CsvTable CsvTable::read_file(const std::filesystem::path& path, std::int64_t max_bytes) {
  return parse(read_whole(path, max_bytes), path.string());
}

CsvTable CsvTable::parse(std::string_view text, std::string_view file_name) {
  CsvTable table;
  table.file_name_ = file_name;
  refuse_wide_encoding(text, file_name);
  if (!is_utf8(text)) throw Error({.where = table.file_name_, .what = "is no UTF-8 text"});
  Parser(text, table).parse();
  return table;
}

std::optional<std::size_t> CsvTable::column(std::string_view name) const {
  const auto found = std::ranges::find(columns_, name);
  if (found == columns_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - columns_.begin());
}

std::string_view CsvTable::field(std::size_t row, std::size_t column) const {
  const Row& at = rows_[row];
  if (column >= at.count) return {};
  const Field& field = fields_[at.first + column];
  return std::string_view(text_).substr(field.begin, field.end - field.begin);
}

std::string CsvTable::where(std::size_t row) const {
  return fmt::format("{}:{}", file_name_, rows_[row].line);
}

}  // namespace shardscope
