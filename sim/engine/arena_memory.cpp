#include "sim/engine/arena_memory.h"

#include <algorithm>

#include "traces/schedule_trace.h"

namespace shardscope {

void note_peak(const CategoryBytes& live, OperationId operation, StepMemory& memory) {
  if (live.total() > memory.at_peak.total()) {
    memory.at_peak = live;
    memory.at_operation = operation;
  }
  for (const MemoryCategory c : memory_categories)
    memory.maximum[c] = std::max(memory.maximum[c], live[c]);
}

ArenaMemory memory_of_arena(const Schedule& schedule, const Step& step,
                            const std::function<Duration(std::uint32_t)>& reached, Duration end) {
  ArenaMemory result;
  const std::vector<CategoryBytes> live = live_bytes(schedule);
  const CategoryBytes resting = resting_bytes(schedule);
  note_peak(resting, {}, result.memory);
  CategoryBytes before = resting;
  for (std::uint32_t op = step.operations.begin; op < step.operations.end; ++op) {
    if (live[op] == before) continue;
    before = live[op];
    note_peak(before, OperationId{op}, result.memory);
    result.samples.push_back({.time = reached(op), .operation = OperationId{op}, .live = before});
  }
  result.samples.push_back({.time = end, .live = resting});
  result.memory.peak_allocated = result.memory.peak_active = result.memory.at_peak.total();
  result.memory.peak_reserved = arena_layout(schedule).size;
  return result;
}

}  // namespace shardscope
