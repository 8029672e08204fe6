// What laying a trace's clock on the axis needs of it: its extents and its landmarks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gui/data/scenario.h"
#include "traces/analysis.h"

namespace shardscope::gui {

/// What two sides must have in common to be laid on one another: the first time in a step that a
/// unit's operations of a phase begin in a micro batch.
using Landmark = std::tuple<std::string, Phase, std::int32_t>;

/// The number of the step that the axis begins with; none: the one that stands for the run.
using StepChoice = std::optional<int>;

struct TraceTimes {
  TimeWindow device;              ///< as `device_window`
  std::vector<StepWindow> steps;  ///< as `step_windows`
  TimeWindow step;                ///< the chosen one
  /// When compute of each first begins inside the step, on the trace's clock; by landmark.
  std::vector<std::pair<Landmark, double>> landmarks;
};

/// The window of the chosen step. A step that the trace lacks is the one that stands for the run;
/// of a prediction, whose last step repeats, the last where the number is higher.
TimeWindow window_of(TraceKind kind, const std::vector<StepWindow>& steps, StepChoice choice);

/// O(n log n) in spans and facts.
TraceTimes measure_times(const Trace& trace, StepChoice step = {});

/// Measured when a trace is first asked for, from any thread, and kept while it lives.
std::shared_ptr<const TraceTimes> times_of(const std::shared_ptr<const Trace>& trace,
                                           StepChoice step = {});

/// Measures all traces of the scenario. Whoever makes one beside the UI thread calls it, so that
/// the UI thread has nothing to measure.
void measure_times(const Scenario& scenario, StepChoice step = {});

/// A step that a side of some scenario has.
struct KnownStep {
  int number = 0;
  bool is_predicted = false, is_profiled = false;
  bool is_steady = false;  ///< of a prediction: all later steps are like it
  bool operator==(const KnownStep&) const = default;
};

/// By number, of the first ranks of both sides of all of them; empty where no trace marks steps.
std::vector<KnownStep> known_steps(std::span<const ScenarioPointer> scenarios);

}  // namespace shardscope::gui
