// A memory snapshot's allocations as a picture of addresses over time, and as rows.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "gui/data/column_table.h"
#include "gui/data/memory_picture.h"
#include "gui/data/time_range.h"
#include "traces/import/snapshot_growth.h"
#include "traces/import/snapshot_state.h"

namespace shardscope::gui {

/// One device of one snapshot of a side.
struct SnapshotPlace {
  ScenarioPointer scenario;
  SideKind side = SideKind::profiled;
  MemorySource source;  ///< of the kind `snapshot`
  std::string label;    ///< "ddp: rank0.pickle, device 0"

  const MemorySnapshot& snapshot() const { return *scenario->side(side)->snapshots[source.index]; }
  bool operator==(const SnapshotPlace&) const = default;
};

/// Of both, A's first.
std::vector<SnapshotPlace> snapshot_places(const ScenarioPointer& a, const ScenarioPointer& b);

/// One block of memory from its allocation to its free.
struct SnapshotAllocation {
  TimeRange time;     ///< on the axis; of what was there before from the first event on
  double bottom = 0;  ///< bytes from the foot of all regions to its address
  Bytes size;         ///< as requested
  std::int64_t address = 0;
  std::uint32_t stack = no_stack, stream = 0;
  std::uint8_t band = 0;  ///< of gui/data/memory_bands.h
  bool is_from_before = false, is_alive_at_end = false;
};

/// Addresses that were ever in use, laid end to end: what lies between them was never the
/// allocator's.
struct AddressRegion {
  std::int64_t begin = 0, end = 0;
  double bottom = 0;  ///< as of allocations
};

struct SnapshotAllocations {
  SnapshotPlace place;
  std::vector<SnapshotAllocation> blocks;  ///< by falling size, then by begin
  std::vector<AddressRegion> regions;      ///< ascending
  double height = 0;                       ///< bytes of all regions
  TimeRange time;                          ///< of the whole history, on the axis
  std::vector<std::string> names;          ///< of each stack in use, by id; "": no frame
  /// Segments of the device by falling size: indices into MemorySnapshot::segments; and the band of
  /// each of MemorySnapshot::blocks.
  std::vector<std::uint32_t> segments;
  std::vector<std::uint8_t> final_bands;
  SnapshotState state;       ///< when the snapshot was taken
  ColumnTablePointer table;  ///< a row for each of `blocks`, in that order

  /// Index into `blocks` of what lies at that address and time; none: nothing.
  std::optional<std::size_t> at(double time, double bottom) const;
};

/// `axis` says what the axis is: its A, mode and step. On a stop request something is missing.
SnapshotAllocations snapshot_allocations(const SnapshotPlace& place,
                                         const MemoryPictureRequest& axis,
                                         const std::stop_token& stop = {});

/// A stack's frames, one a line, innermost first; at most 200. "" where nothing was recorded.
std::string all_frames(const MemorySnapshot& snapshot, std::uint32_t stack);

/// A frame where there is little room: "forward, model.py:12" of "a/b/model.py:12:forward"; of C++
/// the name alone, without its namespaces.
std::string short_frame(std::string_view frame);

/// What the allocator held in segments when the snapshot was taken, in a sentence with figures:
/// how much of what is reserved is free, and the largest free block.
std::string fragmentation_text(const SnapshotState& state);

/// When two snapshots are compared.
enum class ComparedInstant : std::uint8_t {
  end,   ///< when they were taken
  peak,  ///< when most was active
};

/// Rows of `memory_growth`: frame, size of a block, before, after, difference.
ColumnTable growth_table(const SnapshotPlace& before, const SnapshotPlace& after,
                         ComparedInstant instant, GrowthBy by);

}  // namespace shardscope::gui
