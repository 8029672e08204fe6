#include "cli/table.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace shardscope {
namespace {

constexpr std::size_t gap = 2;

/// Code points, as continuation bytes begin with the bits 10.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string padding(std::size_t width) { return std::string(width, ' '); }

std::string without_trailing_spaces(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace

void Table::row(std::vector<Cell> cells) {
  cells.resize(columns_.size(), Cell(""));
  rows_.push_back(std::move(cells));
}

void Table::rule() { rows_.emplace_back(); }

std::vector<std::size_t> Table::widths() const {
  std::vector<std::size_t> result;
  for (const Column& column : columns_) result.push_back(width_of(column.heading));
  for (const auto& cells : rows_) {
    for (std::size_t i = 0; i < cells.size(); ++i)
      result[i] = std::max(result[i], width_of(cells[i].text));
  }
  return result;
}

std::string Table::text(const Painter& painter) const {
  const std::vector<std::size_t> width = widths();
  std::size_t whole = 0;
  for (const std::size_t w : width) whole += w + gap;

  const auto line_of = [&](const std::vector<Cell>& cells) {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string fill = padding(width[i] - width_of(cells[i].text));
      const std::string painted = painter(cells[i].paint, cells[i].text);
      line += padding(gap) + (columns_[i].align == Align::right ? fill + painted : painted + fill);
    }
    return without_trailing_spaces(std::move(line)) + "\n";
  };

  std::vector<Cell> headings;
  for (const Column& column : columns_) headings.emplace_back(column.heading, Paint::dim);
  std::string result = line_of(headings);
  for (const auto& cells : rows_) {
    result += cells.empty()
                  ? padding(gap) + painter(Paint::dim, std::string(whole - gap, '-')) + "\n"
                  : line_of(cells);
  }
  return result;
}

}  // namespace shardscope
