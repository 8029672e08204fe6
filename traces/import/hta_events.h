// What HolisticTraceAnalysis takes for the work of a rank's device.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "traces/import/imported_trace.h"
#include "traces/intervals.h"

namespace shardscope {

/// How HolisticTraceAnalysis reads a job's traces.
struct HtaReading {
  /// Begins are rounded up and ends down to whole microseconds, where a trace has fractions of
  /// them. It is HTA's default; HTA_DISABLE_NS_ROUNDING=1 turns it off.
  bool rounds_times = true;
  /// Where the ranks name at least two steps: what a call after the begin of the last one launched
  /// is left out.
  bool leaves_out_last_step = false;
};
HtaReading hta_reading(const std::vector<ImportedTrace>& traces, bool rounds_times);

/// A kernel, copy or synchronization on a stream.
struct HtaEvent {
  std::uint32_t event = 0;
  std::int64_t stream = 0;
  SpanClass span_class = SpanClass::compute;  ///< host: "other", a synchronization
  bool is_kernel = true;                      ///< or copy; no synchronization
  TimeWindow window;                          ///< rounded, it may end before it begins
  std::optional<Duration> launched;           ///< begin of the call that launched it
};

/// Events with a stream, in the order of the file, as often as they have calls that launched them
/// where the last step is left out, else once. The trace must be classified by HTA's rules. Source:
/// HolisticTraceAnalysis 0.5.0, hta/common/trace_parser.py and trace.py (round_down_time_stamps,
/// _filter_irrelevant_gpu_kernels, transform_correlation_to_index).
std::vector<HtaEvent> hta_events(const ImportedTrace& trace, const HtaReading& reading);

}  // namespace shardscope
