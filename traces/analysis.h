// What a trace amounts to: time accounting, per step and per unit, and memory peaks.
#pragma once

#include <string>
#include <vector>

#include "traces/intervals.h"
#include "traces/trace.h"

namespace shardscope {

/// From the first device span's start to the last one's end; empty at 0 without device spans.
TimeWindow device_window(const Trace& trace);

/// When a device was busy, by class of what ran.
struct BusyTimes {
  IntervalUnion compute, communication, copies;
};

/// The accounting of `busy`, all of it inside `window`.
Accounting account(const BusyTimes& busy, TimeWindow window);

/// The accounting of what runs on the device inside `window`, exact to the nanosecond:
///   compute = union of compute; exposed_communication = union of collectives less compute;
///   exposed_copy = union of copies less both; idle = the rest, so that the four always sum to
///   `span`.
/// Host spans and annotations count nowhere. O(n log n) in the spans. Source: TraceLens'
/// definition, memset as a copy. Example: compute [0, 10), a collective [6, 14), window [0, 20): 10
/// + 4 + 0 + 6 = 20, overlap 4.
Accounting account(const Trace& trace, TimeWindow window);

/// One training step's place on the clock.
struct StepWindow {
  int step = 0;  ///< from 1; 0: the trace does not say
  TimeWindow window;
  bool operator==(const StepWindow&) const = default;
};

/// The steps of a trace, ascending. A step spans its annotation "ProfilerStep#N" where the trace
/// has one, else all spans tagged with it; the first one of a prediction begins at 0. A trace that
/// tags nothing is one step 0 over `device_window`.
std::vector<StepWindow> step_windows(const Trace& trace);

/// Index of the step that stands for the run: the lower median by duration, the first step
/// (warm-up) left out where there are at least three. `steps` must not be empty.
std::size_t steady_step(const std::vector<StepWindow>& steps);

/// One unit's share of the time.
struct UnitAccounting {
  std::string unit;                ///< "" is the root
  Duration compute;                ///< union of its compute
  Duration communication;          ///< union of its collectives
  Duration exposed_communication;  ///< its collectives less all compute of all units
  Bytes communication_bytes;       ///< payload of its collectives that start in the window
  bool operator==(const UnitAccounting&) const = default;
};

/// Per unit, in order of first appearance in `Trace::facts`; operations without facts count
/// nowhere.
std::vector<UnitAccounting> account_by_unit(const Trace& trace, TimeWindow window);

/// The highest live total of a window.
struct MemoryPeak {
  Bytes total;
  Duration time;          ///< when it is first reached
  OperationId operation;  ///< that reached it; none if before the window or unknown
  CategoryBytes at_peak;  ///< live then
  CategoryBytes maximum;  ///< of each category by itself, over the window
  bool operator==(const MemoryPeak&) const = default;
};

/// The peak over `window`, what was live at its start included.
MemoryPeak memory_peak(const Trace& trace, TimeWindow window);

}  // namespace shardscope
