// Text in aligned columns.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/terminal.h"
#include "core/base/utf8.h"

namespace shardscope {

enum class Align : std::uint8_t { left, right };

struct Column {
  std::string heading;
  Align align = Align::left;
};

/// One field of a row, with what is not printable in it made visible. Widths count code points, not
/// colour.
struct Cell {
  // Implicit, so that a row is a list of texts.
  // NOLINTNEXTLINE(google-explicit-constructor)
  Cell(const std::string& content, Paint color = Paint::plain)
      : text(printable(content)), paint(color) {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  Cell(const char* content) : text(content) {}
  std::string text;
  Paint paint = Paint::plain;
};

/// Rows under headings, two spaces between columns and before the first; as wide as the widest cell
/// needs.
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// As many cells as columns; missing ones at the end are empty.
  void row(std::vector<Cell> cells);
  /// A line across, before the next row.
  void rule();
  std::string text(const Painter& painter) const;

 private:
  std::vector<std::size_t> widths() const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;  ///< an empty one is a rule
};

}  // namespace shardscope
