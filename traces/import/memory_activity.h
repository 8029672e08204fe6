// Allocated and reserved memory over time, from the [memory] events of an imported trace.
#pragma once

#include <cstdint>
#include <vector>

#include "traces/import/imported_trace.h"
#include "traces/intervals.h"

namespace shardscope {

/// The changes of one device, by time and the profiler's own order.
std::vector<MemoryChange> memory_changes(const ImportedTrace& trace, std::uint32_t device);

/// The figures of one device. "allocated" is of tensors, "reserved" of segments held.
struct MemoryFigures {
  MemoryDevice device;
  std::int64_t changes = 0;
  Bytes before_first;  ///< allocated when the trace begins
  Bytes final_allocated, lowest_allocated, peak_allocated;
  Duration peak_time;  ///< of the first of equal peaks
  Bytes peak_reserved, lowest_reserved;
  Bytes taken, freed;             ///< sums of allocations and of releases
  std::int64_t inconsistent = 0;  ///< changes whose total is not the one before plus their bytes
};

MemoryFigures memory_figures(const ImportedTrace& trace, std::uint32_t device);

}  // namespace shardscope
