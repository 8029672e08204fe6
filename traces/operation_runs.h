// What each operation of a schedule did in a trace: one execution that stands for all.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>

#include "traces/analysis.h"
#include "traces/intervals.h"
#include "traces/trace.h"

namespace shardscope {

/// One operation in one step.
struct OperationRun {
  OperationId operation;
  std::int32_t step = 0;
  std::uint32_t span = 0;  ///< index of its first span on the device
  TimeWindow window;       ///< from its first span's start to its last one's end
  Duration duration;       ///< of its spans together
  /// Of compute: how long its stream did nothing before it, since the operation before it or the
  /// step's begin.
  Duration gap;

  Duration total() const { return gap + duration; }
  TimeWindow gap_window() const { return {window.begin - gap, window.begin}; }
};

/// Of each operation the execution with the lower median of `total`, over all steps but the first
/// where there are three.
std::map<OperationId, OperationRun> typical_runs(const Trace& trace);

/// The operation of that class with the longest part in `window`, other than `but`.
struct Beside {
  std::uint32_t span = 0;  ///< index into Trace::spans
  Duration time;
};
std::optional<Beside> longest_beside(const Trace& trace, SpanClass span_class, TimeWindow window,
                                     OperationId but);

}  // namespace shardscope
