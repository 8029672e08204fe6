// Two traces of one schedule laid over each other, operation by operation.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/side_by_side.h"
#include "traces/analysis.h"
#include "traces/trace.h"

namespace shardscope {

/// One operation in both traces. Over several steps each figure is the median, the lower one of
/// two.
struct OperationComparison {
  OperationId id;
  std::string name;
  OperationKind kind = OperationKind::compute;
  Phase phase = Phase::other;
  std::string unit;
  SideBySide<Duration> duration;
  SideBySide<Duration> start;  ///< since its step's begin
  SideBySide<Bytes> bytes;     ///< read and written; of a collective its payload
};

/// Predicted against profiled. Signed errors are (predicted - profiled) / profiled, none where the
/// latter is 0.
struct Comparison {
  SideBySide<int> step;  ///< the steady step of each trace, whose figures stand here
  SideBySide<Duration> step_time;
  SideBySide<Accounting> time;  ///< of the steady steps
  SideBySide<MemoryPeak> memory;
  std::optional<double> step_time_error_share;
  Bytes peak_error;  ///< predicted - profiled
  std::optional<double> peak_error_share;
  CategoryBytes
      peak_error_by_category;  ///< predicted - profiled, of what is live at each one's peak
  std::vector<OperationComparison> operations;  ///< in both, ascending by id
  std::vector<OperationId> only_predicted;
  std::vector<OperationId> only_profiled;
};

Comparison compare(Predicted<const Trace&> predicted, Profiled<const Trace&> profiled);

}  // namespace shardscope
