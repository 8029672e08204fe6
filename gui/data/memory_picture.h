// Everything that the memory view draws of the scenarios that are shown, prepared beside the UI
// thread.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "gui/data/band_columns.h"
#include "gui/data/live_set.h"
#include "gui/data/memory_bands.h"
#include "gui/data/memory_sources.h"
#include "gui/data/scenario.h"
#include "gui/data/trace_times.h"

namespace shardscope::gui {

/// A request for memory that failed, on the axis.
struct FailedRequestMark {
  double time = 0;
  Bytes requested;
  std::optional<Bytes> free;
  std::string operation, unit;  ///< "" where that is not known
};

/// One side's memory on the axis.
struct MemorySideCurve {
  MemorySource source;
  MemoryClock clock = MemoryClock::host;
  MemoryLevels levels;
  std::vector<double> begins;  ///< of the levels
  Extremes totals;             ///< of the bands that are shown
  Extremes reserved, active;   ///< empty: not known
  /// Of all bands, within what is measured; none: the side has no level there.
  std::optional<std::size_t> peak;
  std::vector<FailedRequestMark> failed;
};

/// Both sides of a scenario.
struct ScenarioCurves {
  ScenarioPointer scenario;
  std::optional<MemorySideCurve> predicted, profiled;
  /// Sides that have memory over time, but none of the rank or device that is shown.
  std::vector<SideKind> unmatched;
  PairedLevels pairs;  ///< of one side alone, where there is one only
  std::vector<double> pair_begins;
  double pairs_end = 0;           ///< of what both sides have
  Extremes difference;            ///< predicted less profiled of the shown bands, by pair
  Extremes selected_difference;   ///< of one band
  std::optional<Bytes> capacity;  ///< of one device
  Bytes outside;                  ///< of the process, in no arena and no allocator
  Bytes arena;                    ///< 0: there is none

  const std::optional<MemorySideCurve>& side(SideKind kind) const {
    return kind == SideKind::predicted ? predicted : profiled;
  }
  bool empty() const { return !predicted && !profiled; }
};

struct MemoryPictureRequest {
  ScenarioPointer a, b, ghost;
  TimeMode mode = TimeMode::step;
  StepChoice step = {};
  TimeRange whole;         ///< where peaks are looked for
  std::size_t source = 0;  ///< of A's sources to choose; the other curves are those that match it
  BandSet shown = all_bands;
  std::optional<std::size_t> selected;
  bool operator==(const MemoryPictureRequest&) const = default;
};

struct MemoryPicture {
  MemoryPictureRequest request;
  std::shared_ptr<const ScenarioCurves> a, b, ghost;  ///< null: there is none
  std::optional<MemorySource> source;                 ///< that is shown; none: A has none
  Bytes highest;  ///< of all totals, reserved figures and arenas
  BandSet held;   ///< bands that are ever more or less than 0

  BandSet shown() const { return request.shown; }
  std::optional<std::size_t> selected() const { return request.selected; }
  bool empty() const { return !a || a->empty(); }
};

/// From a source's times to the axis: `map.axis_of(time + shift)`.
struct SourceClock {
  TimeMap map;
  double shift = 0;
};
SourceClock source_clock(const Scenario& scenario, const MemorySource& source,
                         const MemoryPictureRequest& request);

/// One source of the scenario, laid on the request's axis; `request.a` is what it is laid on. A
/// snapshot beside a trace of the same time lies by the wall clock, else from its first event on.
MemorySideCurve memory_side_curve(const Scenario& scenario, const MemorySource& source,
                                  const MemoryPictureRequest& request);

/// `before`: curves of a picture that differs in other scenarios only are taken over.
MemoryPicture memory_picture(const MemoryPictureRequest& request, std::stop_token stop = {},
                             const MemoryPicture& before = {});

/// Bytes of a pair of levels; 0 where a side has none.
BandBytes predicted_less_profiled(const ScenarioCurves& curves, const PairedLevels::Row& row);

}  // namespace shardscope::gui
