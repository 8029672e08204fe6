// What rows of a table come to together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gui/data/column_table.h"

namespace shardscope::gui {

/// "Duration, predicted 3.21 ms, Duration, profiled 4.07 ms, Difference +861 us": sums of the
/// durations and bytes that are shown at first, of rows that have a number; "" of none.
std::string sums_text(const ColumnTable& table, const std::vector<std::uint32_t>& rows);

}  // namespace shardscope::gui
