// What a scenario comes to: the figures that strategies are compared by.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gui/data/column_table.h"
#include "gui/data/scenario.h"

namespace shardscope::gui {

/// The collectives of one step of one rank.
struct StepTraffic {
  std::int64_t collectives = 0;
  Bytes bytes;  ///< their payloads together; 0: the trace does not say
  bool operator==(const StepTraffic&) const = default;
};

/// One side's figures, of the step that stands for it.
struct SideFigures {
  bool ran_out = false;       ///< of memory, so that it has no times
  Duration step;              ///< 0: not known
  Accounting time;            ///< of that step
  double spread_share = 0;    ///< how far steps are from `step`, of it; 0: not known
  std::optional<Bytes> peak;  ///< allocated; none: no memory was recorded
  CategoryBytes at_peak;      ///< all 0 where categories are not known
  std::optional<Bytes> reserved, outside;
  std::optional<Bytes> needed;  ///< `needed_memory` (traces/memory_fit.h): of the largest step
  std::optional<double> mfu_share;
  std::optional<double> tokens_per_s;
  std::optional<StepTraffic> traffic;
  std::optional<bool> on_gpu;  ///< none: not known
  std::string machine;         ///< "h100_sxm"; "": not known

  bool has_step() const { return step > Duration{}; }
  /// Of communication; none where there is none.
  std::optional<double> overlap_share() const;
};

struct StrategyRow {
  ScenarioPointer scenario;  ///< null in tests of formulas
  std::string label;         ///< "full_shard x2"
  std::string strategy;      ///< "full_shard"; "" of traces of others
  int world = 1;
  std::optional<Bytes> device_memory;
  bool fits = true;  ///< where `device_memory` is known
  std::optional<SideFigures> predicted, profiled;
  bool is_tried = false;  ///< a What-if that is no scenario of its own yet

  /// The profiled figures, else the predicted ones; null without either.
  const SideFigures* figures() const;
  /// Whether those are of a run that ran out of memory.
  bool ran_out() const { return figures() != nullptr && figures()->ran_out; }
  const SideFigures* figures(SideKind kind) const;
  /// What the device has left of what the largest step needs; negative: lacks.
  std::optional<Bytes> margin() const;
};

/// Reads the summaries, and where there is none the traces. O(n log n) in the spans.
StrategyRow strategy_row(const ScenarioPointer& scenario);

/// Whether its strategy leaves each rank all parameters, gradients and optimizer states: DDP.
bool is_unsharded(const StrategyRow& row);

/// Index of the row that others are best compared with: nothing sharded (no_shard, DDP), else the
/// fastest whose step time is known; none of no such rows. One that ran out of memory only where
/// there is no other row.
std::optional<std::size_t> default_baseline(const std::vector<StrategyRow>& rows);

/// Which rows no other beats in both memory and step time. A row that lacks either is on no front.
std::vector<bool> pareto_front(const std::vector<StrategyRow>& rows);

/// One row for each, in their order. Column ids: "strategy", "fits", "margin", "peak_predicted",
/// "peak_profiled", "peak_error", "step_predicted", ...
ColumnTable strategy_table(const std::vector<StrategyRow>& rows);

}  // namespace shardscope::gui
