// The tables of a query: rows that are made from runs when they are asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "traces/query/query.h"

namespace shardscope {

/// A cell: texts are views of what outlives the query, or made for it.
using QueryCell = std::variant<std::monostate, std::int64_t, double, std::string_view, std::string>;

struct QueryTable {
  QueryTableHelp help;
  std::function<std::size_t()> rows;
  std::function<QueryCell(std::size_t row, std::size_t column)> cell;
};

/// Refers to the runs, which must outlive it. Units and steps are measured when they are first
/// asked for.
std::vector<QueryTable> query_tables(const std::vector<QueryRun>& runs);

}  // namespace shardscope
