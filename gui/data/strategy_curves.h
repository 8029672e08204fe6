// A scenario's step in small: memory over time and when what ran, on the axis that all share.
#pragma once

#include <optional>
#include <vector>

#include "gui/data/coverage.h"
#include "gui/data/memory_bands.h"
#include "gui/data/memory_sources.h"
#include "gui/data/scenario.h"
#include "gui/data/time_map.h"
#include "gui/data/time_range.h"

namespace shardscope::gui {

/// Live bytes from `axis` on.
struct MemoryPoint {
  double axis = 0;
  double bytes = 0;
  bool operator==(const MemoryPoint&) const = default;
};

/// More than a small picture has pixels.
inline constexpr std::size_t curve_parts = 1024;

/// One side of a scenario, of its first rank.
struct SideCurve {
  SideKind kind = SideKind::predicted;
  TimeMap map;
  TimeWindow step;                  ///< on the clock
  TimeRange extent;                 ///< of the step, on the axis
  std::vector<MemoryPoint> memory;  ///< ascending
  /// What is held at the highest level of each of `curve_parts` equal parts of `extent`; empty
  /// without memory.
  std::vector<BandBytes> bands;
  MemoryClock clock = MemoryClock::host;  ///< of `memory`
  double peak_bytes = 0;
  double peak_axis = 0;  ///< when it is first reached
  Coverage coverage;     ///< empty where no device was recorded
  bool ran_out = false;  ///< of memory, so that no step is shown
};

/// The sides that have a trace or a recording of memory, the predicted one first.
std::vector<SideCurve> strategy_curves(const Scenario& scenario, TimeMode mode,
                                       const Scenario* reference);

/// How a stretch of time was spent, as shares that sum to 1 within the step.
struct TimeShares {
  double compute = 0;     ///< without communication beside it
  double overlapped = 0;  ///< communication beside compute
  double exposed = 0;     ///< communication alone
  double copies = 0;      ///< beside nothing
  double idle = 0;
};

/// For each of `pixels` equal parts of `shown`, exact to the nanosecond; all 0 outside the step.
std::vector<TimeShares> time_shares(const SideCurve& side, TimeRange shown, int pixels);

/// The most bytes that are alive in each of `pixels` equal parts of `shown`; none outside the step.
std::vector<std::optional<double>> memory_pixels(const SideCurve& side, TimeRange shown,
                                                 int pixels);

/// The bands of the same, from `SideCurve::bands`; none outside the step.
std::vector<std::optional<BandBytes>> band_pixels(const SideCurve& side, TimeRange shown,
                                                  int pixels);

}  // namespace shardscope::gui
