// Units and operations of a scenario as tables: what was predicted beside what was profiled, and
// where the difference comes from.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "gui/data/column_table.h"
#include "gui/data/scenario.h"

namespace shardscope::gui {

/// What a row stands for.
struct RowTarget {
  OperationId operation;                          ///< none: a unit, or a span of no schedule
  std::optional<std::string> unit;                ///< "" is the root
  std::optional<std::uint32_t> predicted_span;    ///< index into the predicted trace's spans
  std::optional<std::uint32_t> profiled_span;     ///< of the rank's trace; none of imported matches
  std::optional<std::uint32_t> event;             ///< of the imported trace
  std::optional<TimeWindow> predicted, profiled;  ///< where it ran, on each side's clock
};

struct RowTable {
  ColumnTable table;
  std::vector<RowTarget> targets;  ///< by row, operations ascending; empty where rows are spans
  /// Rows are its spans, in their order; null where they are units or operations.
  std::shared_ptr<const Trace> spans;
  SideKind side_of_spans = SideKind::profiled;
  std::string problem;  ///< why there are no rows, in words
};

RowTarget target_of(const RowTable& rows, std::uint32_t row);
/// The row of that operation, unit, span or event, whichever the rows are; none: there is none.
std::optional<std::uint32_t> row_of(const RowTable& rows, const RowTarget& target);

/// The traces that are compared for one rank; null: there is none. Of an imported side that was
/// matched, `profiled` is its matched part.
struct ComparedTraces {
  std::shared_ptr<const Trace> shared;  ///< the profiled one, else the predicted one
  const Trace* predicted = nullptr;
  const Trace* profiled = nullptr;
  const RankMatch* match = nullptr;
  std::vector<const Trace*> ranks;  ///< profiled ones, `profiled` first
};
ComparedTraces compared_traces(const Scenario& scenario, std::size_t rank);

/// A row for each unit: compute, communication, exposed communication and bytes of its collectives
/// in the shown steps. Differences are predicted - profiled. Ids: "unit", "compute_predicted", ...,
/// "communication_difference", ...
RowTable unit_table(const Scenario& scenario, std::size_t rank);

/// A row for each operation that either side has, ascending by id; without a schedule one for each
/// span. Differences are predicted - profiled, the `most_explained` largest with the likely cause.
/// Ids: "name", "unit", "kind", "phase", "duration_predicted", "difference", "error", "cause", ...
RowTable operation_table(const Scenario& scenario, std::size_t rank, std::stop_token stop = {});

inline constexpr std::size_t most_explained = 1000;

}  // namespace shardscope::gui
