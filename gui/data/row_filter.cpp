#include "gui/data/row_filter.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "core/base/error.h"

namespace shardscope::gui {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), [](char c) { return lower(c); });
  return result;
}

/// At blanks, but for those between quotes, which vanish.
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  bool is_quoted = false;
  for (const char c : text) {
    if (c == '"') {
      is_quoted = !is_quoted;
    } else if (!is_quoted && (c == ' ' || c == '\t')) {
      if (!word.empty()) words.push_back(std::exchange(word, {}));
    } else {
      word += c;
    }
  }
  if (!word.empty()) words.push_back(word);
  return words;
}

/// The column of that id, else the first whose id begins so; null: none.
const Column* column_of(const ColumnTable& table, std::string_view id) {
  if (id.empty()) return nullptr;
  if (const Column* exact = table.find(id)) return exact;
  for (const Column& column : table.columns)
    if (column.id.starts_with(id)) return &column;
  return nullptr;
}

FilterTerm term_of(std::string_view word, const ColumnTable& table) {
  FilterTerm term;
  term.is_negated = word.size() > 1 && word.front() == '-';
  if (term.is_negated) word.remove_prefix(1);
  const std::size_t sign = word.find_first_of(":<>");
  const std::string column = sign == std::string_view::npos ? "" : lower(word.substr(0, sign));
  if (column_of(table, column) == nullptr) {
    term.word = lower(word);
    return term;
  }
  term.column = column;
  term.word = lower(word.substr(sign + 1));
  if (word[sign] != ':')
    term.test = word[sign] == '>' ? FilterTerm::Test::above : FilterTerm::Test::below;
  return term;
}

std::optional<double> bare_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// "4mib" as parse_bytes wants it.
std::string with_proper_unit(std::string_view text) {
  static constexpr std::pair<std::string_view, std::string_view> units[] = {
      {"kib", " KiB"}, {"mib", " MiB"}, {"gib", " GiB"}, {"kb", " kB"},
      {"mb", " MB"},   {"gb", " GB"},   {"b", " B"}};
  for (const auto& [typed, proper] : units)
    if (text.ends_with(typed))
      return std::string(text.substr(0, text.size() - typed.size())) + std::string(proper);
  return std::string(text);
}

/// The bound in the column's base unit; none: it is no number.
std::optional<double> bound_of(const FilterTerm& term, const Column& column) {
  if (const auto bare = bare_number(term.word)) return *bare * column.unit.size;
  try {
    if (column.quantity == Quantity::bytes)
      return static_cast<double>(parse_bytes(with_proper_unit(term.word), "filter").count);
    if (column.quantity == Quantity::duration)
      return static_cast<double>(parse_duration(term.word, "filter").ns);
  } catch (const Error&) {
    return std::nullopt;
  }
  if (column.quantity == Quantity::share && term.word.ends_with('%'))
    if (const auto percent =
            bare_number(std::string_view(term.word).substr(0, term.word.size() - 1)))
      return *percent / 100;
  return std::nullopt;
}

std::vector<bool> words_with(const Column& column, const std::string& part) {
  std::vector<bool> has(column.words.size());
  for (std::size_t i = 0; i < has.size(); ++i)
    has[i] = lower(column.words[i]).find(part) != std::string::npos;
  return has;
}

/// Adds to `passes` the rows whose text has the term's word.
void add_texts(const Column& column, const FilterTerm& term, const std::vector<std::uint32_t>& rows,
               std::vector<bool>& passes) {
  const std::vector<bool> has = words_with(column, term.word);
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (has[column.codes[rows[i]]]) passes[i] = true;
}

void add_numbers(const Column& column, const FilterTerm& term,
                 const std::vector<std::uint32_t>& rows, std::vector<bool>& passes) {
  const std::optional<double> bound = bound_of(term, column);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double value = column.numbers[rows[i]];
    if (std::isnan(value)) continue;
    if (term.test == FilterTerm::Test::contains)
      passes[i] = number_text(value, column.unit, column.is_signed).starts_with(term.word);
    else if (bound)
      passes[i] = term.test == FilterTerm::Test::above ? std::abs(value) > *bound
                                                       : std::abs(value) < *bound;
  }
}

std::vector<bool> passing(const ColumnTable& table, const FilterTerm& term,
                          const std::vector<std::uint32_t>& rows) {
  std::vector<bool> passes(rows.size());
  if (const Column* column = column_of(table, term.column)) {
    if (column->is_text())
      add_texts(*column, term, rows, passes);
    else
      add_numbers(*column, term, rows, passes);
    return passes;
  }
  for (const Column& column : table.columns)
    if (column.is_text()) add_texts(column, term, rows, passes);
  return passes;
}

}  // namespace

std::vector<FilterTerm> parse_filter(std::string_view text, const ColumnTable& table) {
  std::vector<FilterTerm> terms;
  for (const std::string& word : words_of(text)) terms.push_back(term_of(word, table));
  return terms;
}

std::vector<std::uint32_t> filtered_rows(const ColumnTable& table,
                                         const std::vector<FilterTerm>& terms,
                                         std::vector<std::uint32_t> rows, std::stop_token stop) {
  for (const FilterTerm& term : terms) {
    if (stop.stop_requested()) return {};
    const std::vector<bool> passes = passing(table, term, rows);
    std::size_t kept = 0;
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (passes[i] != term.is_negated) rows[kept++] = rows[i];
    rows.resize(kept);
  }
  return rows;
}

}  // namespace shardscope::gui
