// Memory over time as rows of the timeline, on one axis with its streams.
#pragma once

#include <memory>
#include <span>

#include "gui/data/memory_picture.h"

namespace shardscope::gui {

struct MemoryTrack {
  ScenarioPointer scenario;
  SideKind side = SideKind::profiled;
  std::size_t rank = 0;  ///< index into Side::ranks
  MemorySideCurve curve;
  Bytes highest;              ///< of all totals and reserved figures
  MemoryPictureRequest axis;  ///< on which it was laid
};

using MemoryTrackPointer = std::shared_ptr<const MemoryTrack>;

/// The memory of one rank of a side; null where the side has none of that rank. `axis` says what
/// the axis is: its A, mode and step. `known`: tracks that were made before.
MemoryTrackPointer memory_track(const ScenarioPointer& scenario, SideKind side, std::size_t rank,
                                const MemoryPictureRequest& axis,
                                std::span<const MemoryTrackPointer> known = {});

/// What the track holds at an instant of the axis; none where it has no level.
const MemoryLevel* level_at(const MemoryTrack& track, double time);

}  // namespace shardscope::gui
