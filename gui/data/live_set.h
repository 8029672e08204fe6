// What is alive at an instant: the buffers behind a memory level, and what differs between two.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gui/data/memory_bands.h"
#include "gui/data/memory_sources.h"
#include "gui/data/scenario.h"

namespace shardscope::gui {

struct LiveBuffer {
  std::uint64_t key = 0;  ///< the same buffer of the same source has the same at every instant
  std::size_t band = 0;
  Bytes bytes;
  std::string unit;  ///< "" is the root or none; of a snapshot the code that asked for it
  std::string name;
  std::string allocated_by, freed_by;  ///< in words; "" where that is not known
  std::uint32_t stack = no_stack;      ///< of a snapshot
};

struct LiveSet {
  BandBytes held;                   ///< the level's bands
  std::vector<LiveBuffer> buffers;  ///< by falling size, then by key
  /// `held` less the buffers: what an allocator rounds up, or what has no record.
  BandBytes unlisted;
  std::shared_ptr<const MemorySnapshot> snapshot;  ///< null: it is of none

  Bytes total() const { return held.total(); }
};

/// The code that asked for a buffer of a snapshot, a frame a line, innermost first, at most 64;
/// "" where that is not known.
std::string stack_text(const LiveSet& set, const LiveBuffer& buffer);

/// Of `level`, which is one of `source`. Buffers of a profiled run of ours are those of its
/// prediction, as both play one schedule. Of profiler events and timelines nothing is listed.
LiveSet live_set(const Scenario& scenario, const MemorySource& source, const MemoryLevel& level);
/// Has any level of the source buffers to list.
bool has_buffers(const Scenario& scenario, const MemorySource& source);

/// Between two instants of one source.
struct LiveChange {
  std::vector<LiveBuffer> fresh;   ///< alive at b and not at a; all three by falling size
  std::vector<LiveBuffer> freed;   ///< alive at a and not at b
  std::vector<LiveBuffer> common;  ///< alive at both
  Bytes fresh_bytes, freed_bytes, common_bytes;
};
LiveChange change_between(const LiveSet& a, const LiveSet& b);

/// What two sources hold of one category and unit.
struct HeldByUnit {
  std::size_t band = 0;
  std::string unit;
  bool is_listed = true;  ///< false: of `unlisted`
  Bytes a, b;
  Bytes difference() const { return b - a; }
  bool operator==(const HeldByUnit&) const = default;
};
/// The largest differences first, then by band and unit.
std::vector<HeldByUnit> held_by_unit(const LiveSet& a, const LiveSet& b);

}  // namespace shardscope::gui
