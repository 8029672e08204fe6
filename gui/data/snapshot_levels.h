// Memory snapshots and timelines as levels: every event of theirs, none left out.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "gui/data/memory_bands.h"
#include "traces/import/memory_snapshot.h"
#include "traces/import/memory_timeline.h"

namespace shardscope::gui {

/// Active memory as requested, by the categories of traces/import/snapshot_categories.h, before the
/// first event and after each. Times are nanoseconds since the first event; events of one
/// microsecond are laid over it; where the file has no times, one nanosecond an event.
MemoryLevels snapshot_levels(const MemorySnapshot& snapshot, std::int64_t device);
/// Wall clock of time 0, Unix nanoseconds; none where no event says when it was.
std::optional<std::int64_t> snapshot_begin(const MemorySnapshot& snapshot, std::int64_t device);
/// When each event was, of the same clock.
std::vector<double> snapshot_event_times(const MemorySnapshot& snapshot, std::int64_t device);
double snapshot_length(const MemorySnapshot& snapshot, std::int64_t device);

/// PyTorch's categories as ours: temporary and autograd detail are both `temporaries`. Of rows,
/// what was there before the profile is there at 0.
MemoryLevels timeline_levels(const MemoryTimeline& timeline);
double timeline_length(const MemoryTimeline& timeline);

}  // namespace shardscope::gui
