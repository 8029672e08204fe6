// Rows of a table of published runs that take no part in the errors.
#pragma once

#include <span>
#include <string>

namespace shardscope {

struct SkippedRow {
  int number = 0;
  std::string why;
};

/// A line for each reason, in order of first appearance: "not compared: 2 rows (3, 7): no length".
std::string skipped_rows_text(std::span<const SkippedRow> rows);

}  // namespace shardscope
