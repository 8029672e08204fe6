// SQL over the open runs, as a table of the window and as marks on its axis.
#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "gui/data/column_table.h"
#include "gui/data/scenario.h"
#include "gui/data/side_times.h"
#include "gui/data/time_range.h"
#include "traces/query/query.h"

namespace shardscope::gui {

struct QueryQuestion {
  ScenarioPointer a, b;
  TimeMode mode = TimeMode::step;
  StepChoice step = {};
  std::string sql;
};

/// Where a row of the result lies: none of what its columns do not say.
struct QueryRowPlace {
  ScenarioPointer scenario;
  SideKind side = SideKind::profiled;
  std::size_t rank = 0;  ///< index into Side::ranks
  std::optional<TimeRange> time;
  std::optional<std::size_t> span;  ///< index into Trace::spans
};

struct QueryAnswer {
  std::string error;  ///< one line; "": none
  ColumnTablePointer table = std::make_shared<const ColumnTable>();
  std::vector<QueryRowPlace> places;  ///< by row
  bool is_cut = false;
  double seconds = 0;  ///< that the query took

  /// Stretches of all rows that have one.
  std::vector<TimeRange> marks() const;
};

/// Both sides of A, then of B.
std::vector<QueryRun> query_runs(const ScenarioPointer& a, const ScenarioPointer& b);

/// A row lies on the axis where it has `start_ns` and `end_ns` or `duration_ns`, of the scenario,
/// side and rank that it names; else of A's first side and rank.
QueryAnswer ask(const QueryQuestion& question, const std::stop_token& stop = {});

}  // namespace shardscope::gui
