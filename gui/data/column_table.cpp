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

struct Magnitudes {
  double largest = 0;
  double smallest = HUGE_VAL;  ///< but 0
  void add(const Magnitudes& other) {
    largest = std::max(largest, other.largest);
    smallest = std::min(smallest, other.smallest);
  }
};

Magnitudes magnitudes_of(const std::vector<double>& numbers) {
  Magnitudes found;
  for (const double number : numbers) {
    const double magnitude = std::abs(number);
    if (std::isnan(number) || magnitude == 0) continue;
    found.add({.largest = magnitude, .smallest = magnitude});
  }
  return found;
}

}  // namespace

std::string common_modules(const std::vector<std::string>& names) {
  std::string_view common;
  int counted = 0;
  for (const std::string_view name : names) {
    const std::string_view modules = name.substr(0, name.find(' '));
    if (modules.find('.') == std::string_view::npos) continue;
    if (counted++ == 0) {
      common = modules;
      continue;
    }
    const auto end = std::mismatch(common.begin(), common.end(), modules.begin(), modules.end());
    common = common.substr(0, static_cast<std::size_t>(end.first - common.begin()));
  }
  if (counted < 2) return "";
  // Up to a dot, behind which no name goes on with a number.
  for (std::size_t dot = common.rfind('.'); dot != std::string_view::npos && dot > 0;
       dot = common.rfind('.', dot - 1)) {
    const std::string_view modules = common.substr(0, dot + 1);
    const bool counts = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return name.starts_with(modules) && name.size() > modules.size() &&
             name[modules.size()] >= '0' && name[modules.size()] <= '9';
    });
    if (!counts) return std::string(modules);
  }
  return "";
}

void set_texts(Column& column, const std::vector<std::string>& texts) {
  column.quantity = Quantity::text;
  column.words = texts;
  std::sort(column.words.begin(), column.words.end());
  column.words.erase(std::unique(column.words.begin(), column.words.end()), column.words.end());
  column.common = common_modules(column.words);
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

NumberUnit unit_for(Quantity quantity, double largest, double smallest) {
  const std::span<const Scale> scales = scales_of(quantity);
  Scale fitting = scales.front();
  for (const Scale& scale : scales)
    if (largest >= scale.size) fitting = scale;
  NumberUnit unit{.name = fitting.name, .size = fitting.size};
  if (quantity == Quantity::count || quantity == Quantity::text) return unit;
  // Four significant digits of the largest and two of the smallest, never parts of a byte or a
  // nanosecond.
  const double shown = largest / fitting.size;
  const bool is_whole = fitting.size == 1 && quantity != Quantity::rate;
  if (!is_whole) unit.decimals = shown >= 1000 ? 0 : shown >= 100 ? 1 : 2;
  const bool is_fine = quantity == Quantity::bytes || quantity == Quantity::duration;
  constexpr int most_decimals = 3;
  for (double digits = smallest / fitting.size; is_fine && !is_whole && digits > 0;) {
    if (unit.decimals >= most_decimals || digits * std::pow(10, unit.decimals) >= 10) break;
    ++unit.decimals;
  }
  return unit;
}

void set_units(ColumnTable& table) {
  std::map<std::string, Magnitudes> of_scale;
  std::vector<Magnitudes> of_column;
  for (const Column& column : table.columns) {
    of_column.push_back(magnitudes_of(column.numbers));
    of_scale[column.scale].add(of_column.back());
  }
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    Column& column = table.columns[i];
    const Magnitudes& found = column.scale.empty() ? of_column[i] : of_scale[column.scale];
    column.largest = column.look == CellLook::difference ? of_column[i].largest : found.largest;
    column.unit = unit_for(column.quantity, found.largest, found.smallest);
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
