// The order of a table's rows by one of its columns.
#pragma once

#include <cstdint>
#include <vector>

#include "gui/data/column_table.h"

namespace shardscope::gui {

enum class SortOrder : std::uint8_t {
  ascending,
  descending,
  by_magnitude,  ///< largest magnitude first, for signed differences
};

/// `rows` sorted by the column; rows with the same value keep their order, rows without a value
/// come last in every order. Texts go by their UTF-8 bytes. O(n), by the keys' bits.
std::vector<std::uint32_t> sorted_rows(const Column& column, std::vector<std::uint32_t> rows,
                                       SortOrder order);

/// 0, 1, ... count - 1.
std::vector<std::uint32_t> all_rows(std::size_t count);

}  // namespace shardscope::gui
