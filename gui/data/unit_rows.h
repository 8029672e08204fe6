// Units and operations of a scenario as tables: what was predicted beside what was profiled, and
// where the difference comes from.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "gui/data/column_table.h"
#include "gui/data/scenario.h"
#include "traces/operation_runs.h"

namespace shardscope::gui {

/// What a row stands for.
struct RowTarget {
  OperationId operation;                          ///< none: a unit, or a span of no schedule
  std::optional<std::string> unit;                ///< "" is the root
  std::optional<std::uint32_t> predicted_span;    ///< index into the predicted trace's spans
  std::optional<std::uint32_t> profiled_span;     ///< of the rank's trace; none of imported matches
  std::optional<std::uint32_t> event;             ///< of the imported trace
  std::optional<TimeWindow> predicted, profiled;  ///< where it ran, on each side's clock
  bool is_of_b = false;  ///< of a table of two scenarios: only the second has it
};

struct RowTable {
  ColumnTable table;
  /// By row; empty where rows are spans. Operations ascend, those of B alone behind the others.
  std::vector<RowTarget> targets;
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

/// Where a trace's operations are laid beside those of another schedule, which has other ids.
struct RunKey {
  std::string name;
  Phase phase = Phase::other;
  std::int32_t micro_batch = 0;
  int number = 0;  ///< among those that are the same in all of these
  auto operator<=>(const RunKey&) const = default;
};
RunKey run_key(const OperationFacts& facts);
struct NamedRun {
  OperationRun run;
  OperationFacts facts;
};
/// The typical run of each operation that has facts.
std::map<RunKey, NamedRun> named_runs(const Trace& trace);

/// The side by which two scenarios are compared: the profiled ones where both have one, else the
/// predicted ones; null where they have none in common.
struct PairedTraces {
  const Trace* a = nullptr;
  const Trace* b = nullptr;
  SideKind kind = SideKind::profiled;
};
PairedTraces paired_traces(const Scenario& a, const Scenario& b, std::size_t rank);

/// A row for each unit: compute, communication, exposed communication and bytes of its collectives
/// in the shown steps. Differences are predicted - profiled. With a `ghost` (What-if) its figures
/// stand beside them. Ids: "unit", "compute_predicted", ..., "communication_difference",
/// "compute_what_if", ...
RowTable unit_table(const Scenario& scenario, std::size_t rank, const Scenario* ghost = nullptr);
/// The same of two scenarios. Differences are B - A. Ids: "unit", "compute_a", "compute_b",
/// "compute_difference", ...
RowTable unit_pair_table(const Scenario& a, const Scenario& b, std::size_t rank);

/// A row for each operation that either side has, ascending by id; without a schedule one for each
/// span. Differences are predicted - profiled, the `most_explained` largest with the likely cause.
/// Ids: "name", "unit", "kind", "phase", "duration_predicted", "difference", "error", "cause", ...
RowTable operation_table(const Scenario& scenario, std::size_t rank, std::stop_token stop = {},
                         const Scenario* ghost = nullptr);
/// A row for each operation of two scenarios, matched by name, phase and micro-batch. Differences
/// are B - A. Ids: "name", "unit", "kind", "phase", "duration_a", "duration_b", "difference", ...
RowTable operation_pair_table(const Scenario& a, const Scenario& b, std::size_t rank);

/// A row for each unit of each memory category that holds something at either side's peak.
/// Differences are predicted - profiled, of two scenarios B - A. Ids: "unit", "category",
/// "memory_predicted", "memory_profiled", "difference", or "memory_a", "memory_b".
RowTable memory_table(const Scenario& scenario, std::size_t rank);
RowTable memory_pair_table(const Scenario& a, const Scenario& b, std::size_t rank);

inline constexpr std::size_t most_explained = 1000;

}  // namespace shardscope::gui
