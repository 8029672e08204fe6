// A table as columns: what tables of views show, sort, filter and write, without Qt.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/schedule/schedule.h"

namespace shardscope::gui {

/// What a column's numbers count, which says how they are written.
enum class Quantity : std::uint8_t {
  text,
  count,
  bytes,     ///< in bytes
  duration,  ///< in nanoseconds
  share,     ///< of 1, written as percent
  rate,      ///< per second
};

/// How cells look: predicted ones hollow, profiled ones solid, differences shaded by their size.
enum class CellLook : std::uint8_t { plain, predicted, profiled, difference };

/// No value; sorts behind all others in either direction.
inline constexpr double no_number = std::numeric_limits<double>::quiet_NaN();

/// A unit that a column's numbers are written in.
struct NumberUnit {
  std::string name;  ///< "MiB", "ms", "%"; "" of counts
  double size = 1;   ///< in the base unit
  int decimals = 0;  ///< that tell the column's values apart
  bool operator==(const NumberUnit&) const = default;
};

/// Of `words` and `codes`, or `numbers`, one has a value for each row.
struct Column {
  std::string id;     ///< "step_predicted": the word of filters
  std::string title;  ///< "Step time, predicted"
  std::string about;  ///< one line for people
  std::string scale;  ///< columns of one scale are written in one unit and compared; "": its own
  Quantity quantity = Quantity::text;
  CellLook look = CellLook::plain;
  bool is_shown_at_first = true;
  bool is_signed = false;             ///< written with + or -
  bool is_sentence = false;           ///< of texts: on several lines where there is room
  std::vector<double> numbers;        ///< in the quantity's base unit
  std::vector<std::string> words;     ///< of texts, ascending, each once
  std::vector<std::uint32_t> codes;   ///< of texts: index into `words`
  std::vector<CategoryBytes> shares;  ///< what bytes consist of, drawn as bands; or none
  std::string common;                 ///< of texts: `common_modules` of the words

  NumberUnit unit = {};  ///< by `set_units`
  double largest = 0;    ///< magnitude, of its scale; of a difference its own; by `set_units`

  bool is_text() const { return quantity == Quantity::text; }
};

/// The outer modules that all names with modules share, with the dot: "transformer." of
/// "transformer.h.0", "transformer.h.1 linear_forward" and "(root)", a number staying with what it
/// counts; "" of fewer than two of them.
std::string common_modules(const std::vector<std::string>& names);

/// Texts of rows as a column's words and codes.
void set_texts(Column& column, const std::vector<std::string>& texts);
/// The same of rows that refer to texts by their index, each text in use once or not at all.
void set_texts(Column& column, const std::vector<std::string>& texts,
               std::vector<std::uint32_t> text_of_row);

/// The unit in which a largest magnitude of `largest` is between 1 and 1000 or so, with decimals
/// that tell values like `smallest` apart, three at most. Example: of bytes whose largest is 5 MiB,
/// MiB.
NumberUnit unit_for(Quantity quantity, double largest, double smallest);

/// As it is written in the column: "141.79", "-3.2" of a difference "+3.2"; "" of no number.
std::string number_text(double number, const NumberUnit& unit, bool is_signed);

struct ColumnTable {
  std::vector<Column> columns;
  std::size_t rows = 0;

  const Column* find(std::string_view id) const;  ///< null: no such column
  /// Its place; `columns.size()` where there is none.
  std::size_t place_of(std::string_view id) const;
  const std::string& text(std::size_t column, std::size_t row) const {
    return columns[column].words[columns[column].codes[row]];
  }
};

/// Gives every column its unit. To be called once all numbers are there.
void set_units(ColumnTable& table);

using ColumnTablePointer = std::shared_ptr<const ColumnTable>;

}  // namespace shardscope::gui
