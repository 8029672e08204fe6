// Memory over time by category, of snapshots and timelines: what their pictures show.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "traces/import/memory_snapshot.h"
#include "traces/import/memory_timeline.h"
#include "traces/import/snapshot_categories.h"
#include "traces/memory_frame.h"

namespace shardscope {

struct MemoryBand {
  std::string name;  ///< "activations", "unknown"
  Bytes at_peak;     ///< of the total
  bool operator==(const MemoryBand&) const = default;
};

struct MemoryCurve {
  std::string what;               ///< "snapshot.pickle, device 0"
  std::vector<MemoryBand> bands;  ///< as the stack's, the lowest first
  BandStack stack;                ///< time 0 is the first event
  Bytes peak;
  Duration peak_time;             ///< of the first of equal ones
  std::optional<Bytes> reserved;  ///< its peak
  /// The file has no times: events stand for nanoseconds.
  bool is_by_event = false;
};

/// Active memory as requested. Of a device without a history: a curve without levels.
MemoryCurve memory_curve(const MemorySnapshot& snapshot, std::int64_t device,
                         const FrameRules& rules = frame_rules());

/// PyTorch's own categories.
MemoryCurve memory_curve(const MemoryTimeline& timeline);

}  // namespace shardscope
