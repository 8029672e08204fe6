#include "gui/data/column_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <span>
#include <utility>

namespace shardscope::gui {
namespace {

struct Scale {
  const char* name;
  double size;
};
constexpr std::array<Scale, 4> byte_scales{
    {{"B", 1}, {"KiB", 1024}, {"MiB", 1048576}, {"GiB", 1073741824}}};
constexpr std::array<Scale, 4> time_scales{{{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}}};
constexpr std::array<Scale, 1> shares{{{"%", 0.01}}};
constexpr std::array<Scale, 1> rates{{{"1/s", 1}}};
constexpr std::array<Scale, 1> counts{{{"", 1}}};

std::span<const Scale> scales_of(Quantity quantity) {
  switch (quantity) {
    case Quantity::bytes:
      return byte_scales;
    case Quantity::duration:
      return time_scales;
    case Quantity::share:
      return shares;
    case Quantity::rate:
      return rates;
    case Quantity::text:
    case Quantity::count:
      break;
  }
  return counts;
}

double largest_magnitude(const std::vector<double>& numbers) {
  double largest = 0;
  for (const double number : numbers)
    if (!std::isnan(number)) largest = std::max(largest, std::abs(number));
  return largest;
}

}  // namespace

void set_texts(Column& column, const std::vector<std::string>& texts) {
  column.quantity = Quantity::text;
  column.words = texts;
  std::sort(column.words.begin(), column.words.end());
  column.words.erase(std::unique(column.words.begin(), column.words.end()), column.words.end());
  column.codes.clear();
  column.codes.reserve(texts.size());
  for (const std::string& text : texts)
    column.codes.push_back(static_cast<std::uint32_t>(
        std::lower_bound(column.words.begin(), column.words.end(), text) - column.words.begin()));
}

void set_texts(Column& column, const std::vector<std::string>& texts,
               std::vector<std::uint32_t> text_of_row) {
  set_texts(column, texts);
  for (std::uint32_t& text : text_of_row) text = column.codes[text];
  column.codes = std::move(text_of_row);
}

NumberUnit unit_for(Quantity quantity, double largest) {
  const std::span<const Scale> scales = scales_of(quantity);
  Scale fitting = scales.front();
  for (const Scale& scale : scales)
    if (largest >= scale.size) fitting = scale;
  NumberUnit unit{.name = fitting.name, .size = fitting.size};
  if (quantity == Quantity::count || quantity == Quantity::text) return unit;
  // Four significant digits of the largest, never parts of a byte or a nanosecond.
  const double shown = largest / fitting.size;
  const bool is_whole = fitting.size == 1 && quantity != Quantity::rate;
  if (!is_whole) unit.decimals = shown >= 1000 ? 0 : shown >= 100 ? 1 : 2;
  return unit;
}

void set_units(ColumnTable& table) {
  std::map<std::string, double> largest_of_scale;
  for (Column& column : table.columns) {
    column.largest = largest_magnitude(column.numbers);
    double& largest = largest_of_scale[column.scale];
    largest = std::max(largest, column.largest);
  }
  for (Column& column : table.columns) {
    if (!column.scale.empty()) column.largest = largest_of_scale[column.scale];
    column.unit = unit_for(column.quantity, column.largest);
  }
}

std::string number_text(double number, const NumberUnit& unit, bool is_signed) {
  if (std::isnan(number)) return "";
  const double shown = number / unit.size;
  std::string text = is_signed ? fmt::format("{:+.{}f}", shown, unit.decimals)
                               : fmt::format("{:.{}f}", shown, unit.decimals);
  // What rounds to nothing has no sign.
  if (text.find_first_of("123456789") == std::string::npos && (text[0] == '-' || text[0] == '+'))
    text.erase(0, 1);
  return text;
}

const Column* ColumnTable::find(std::string_view id) const {
  const std::size_t place = place_of(id);
  return place == columns.size() ? nullptr : &columns[place];
}

std::size_t ColumnTable::place_of(std::string_view id) const {
  return static_cast<std::size_t>(
      std::find_if(columns.begin(), columns.end(), [&](const Column& c) { return c.id == id; }) -
      columns.begin());
}

}  // namespace shardscope::gui
