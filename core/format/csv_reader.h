// CSV with positions: a header and rows of text, believed only within bounds.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace shardscope {

/// A table as RFC 4180 writes it: fields between commas, in double quotes where they hold commas,
/// quotes or line ends. Lines end in LF or CRLF; a byte order mark and empty lines are passed over.
class CsvTable {
 public:
  /// Throws Error with file and line for a file over `max_bytes`, more than 1000 columns or 100,000
  /// rows, a header that is missing or names a column twice, a row longer than the header, a quote
  /// that does not end, and bytes that are no UTF-8.
  static CsvTable read_file(const std::filesystem::path& path, std::int64_t max_bytes = 16 << 20);
  static CsvTable parse(std::string_view text, std::string_view file_name);

  /// As it was given to `read_file` or `parse`.
  const std::string& file_name() const { return file_name_; }
  const std::vector<std::string>& columns() const { return columns_; }
  std::optional<std::size_t> column(std::string_view name) const;
  std::size_t rows() const { return rows_.size(); }
  /// Without blanks around it; "" where the row ends before the column.
  std::string_view field(std::size_t row, std::size_t column) const;
  /// "runs.csv:12": where the row begins.
  std::string where(std::size_t row) const;

 private:
  struct Field {
    std::uint32_t begin = 0, end = 0;  // in text_
  };
  struct Row {
    std::size_t first = 0;  // in fields_
    std::size_t count = 0;
    std::int64_t line = 0;
  };
  class Parser;

  std::string file_name_;
  std::string text_;  ///< of all fields, unquoted
  std::vector<Field> fields_;
  std::vector<Row> rows_;
  std::vector<std::string> columns_;
};

}  // namespace shardscope
