// What people type to see only some rows of a table: words, and words of columns.
#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "gui/data/column_table.h"

namespace shardscope::gui {

/// One condition; a row is shown where all hold.
struct FilterTerm {
  enum class Test : std::uint8_t { contains, above, below };
  std::string column;  ///< id, or the begin of one; "" is any text column
  Test test = Test::contains;
  std::string word;  ///< lower case
  bool is_negated = false;
  bool operator==(const FilterTerm&) const = default;
};

/// `unit:layers.0 kind:all_gather -phase:forward "weight grad" difference>1ms bytes<4MiB`: words
/// contain what is given, in either case; quotes keep spaces; a minus turns a condition round.
/// Anything is a filter: what is no column's word is looked for as it is.
std::vector<FilterTerm> parse_filter(std::string_view text, const ColumnTable& table);

/// Rows of `rows` for which all terms hold, in their order; none where `stop` is requested.
/// Numbers without a unit are in the unit that the column is written in, and compared without
/// their sign.
std::vector<std::uint32_t> filtered_rows(const ColumnTable& table,
                                         const std::vector<FilterTerm>& terms,
                                         std::vector<std::uint32_t> rows, std::stop_token stop);

}  // namespace shardscope::gui
