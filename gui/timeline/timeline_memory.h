// Memory over time as rows of the timeline, on one axis with its streams.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "gui/data/memory_picture.h"

namespace shardscope::gui {

/// Whose clock stamps a memory curve. PyTorch allocates when the host issues an operation, which
/// the device runs later.
enum class MemoryClock : std::uint8_t { host, device };
/// "host's clock", "device's clock"
std::string_view name_of(MemoryClock clock);

struct MemoryTrack {
  ScenarioPointer scenario;
  SideKind side = SideKind::profiled;
  std::size_t rank = 0;  ///< index into Side::ranks
  MemoryClock clock = MemoryClock::host;
  MemorySideCurve curve;
  Bytes highest;              ///< of all totals and reserved figures
  MemoryPictureRequest axis;  ///< on which it was laid
};

using MemoryTrackPointer = std::shared_ptr<const MemoryTrack>;

/// Samples that a run of our own took when operations ran are on the device's clock; all others,
/// predicted ones too, on that of the host, which asks for memory.
MemoryClock memory_clock(const Side& side, const MemorySource& source);

/// The memory of one rank of a side; null where the side has none of that rank. `axis` says what
/// the axis is: its A, mode and step. `known`: tracks that were made before.
MemoryTrackPointer memory_track(const ScenarioPointer& scenario, SideKind side, std::size_t rank,
                                const MemoryPictureRequest& axis,
                                std::span<const MemoryTrackPointer> known = {});

/// What the track holds at an instant of the axis; none where it has no level.
const MemoryLevel* level_at(const MemoryTrack& track, double time);

}  // namespace shardscope::gui
