// What laying a trace's clock on the axis needs of it: its extents and its landmarks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gui/data/scenario.h"

namespace shardscope::gui {

/// What two sides must have in common to be laid on one another: the first time in a step that a
/// unit's operations of a phase begin in a micro batch.
using Landmark = std::tuple<std::string, Phase, std::int32_t>;

struct TraceTimes {
  TimeWindow device;  ///< as `device_window`
  TimeWindow step;    ///< as `shown_step`
  /// When compute of each first begins inside the step, on the trace's clock; by landmark.
  std::vector<std::pair<Landmark, double>> landmarks;
};

/// O(n log n) in spans and facts.
TraceTimes measure_times(const Trace& trace);

/// Measured when a trace is first asked for, from any thread, and kept while it lives.
std::shared_ptr<const TraceTimes> times_of(const std::shared_ptr<const Trace>& trace);

/// Measures all traces of the scenario. Whoever makes one beside the UI thread calls it, so that
/// the UI thread has nothing to measure.
void measure_times(const Scenario& scenario);

}  // namespace shardscope::gui
