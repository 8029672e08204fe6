// What memory snapshots and timelines amount to: the memory part of `shardscope report`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "traces/import/import.h"
#include "traces/import/snapshot_categories.h"
#include "traces/import/snapshot_owners.h"

namespace shardscope {

inline constexpr std::string_view memory_snapshot_source = "memory_snapshot";
inline constexpr std::string_view memory_timeline_source = "memory_timeline";

/// A device of a memory snapshot, or a memory timeline.
struct MemoryReport {
  std::string file;
  std::string_view source;             ///< one of the two above
  std::optional<std::int64_t> rank;    ///< as the file's name says: "rank3"
  std::optional<std::int64_t> device;  ///< timelines do not say
  /// As requested; reserved as held. A timeline has allocated only.
  std::optional<Bytes> peak_allocated, peak_active, peak_reserved;
  std::optional<Bytes> active_before;     ///< the first event
  std::optional<Bytes> reserved_at_peak;  ///< of active
  std::vector<MemoryOwner> categories;    ///< alive at the peak of active (or of a timeline)
  std::vector<MemoryOwner> owners;        ///< by frame, the 20 largest
  std::int64_t out_of_memory = 0;         ///< errors in the history
  bool is_cut = false;                    ///< the history's beginning was dropped
};

/// Of each device of each file, in their order.
std::vector<MemoryReport> memory_reports(const Imported& imported,
                                         const FrameRules& rules = frame_rules());

}  // namespace shardscope
