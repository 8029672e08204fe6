#include "traces/import/memory_activity.h"

#include <algorithm>

#include "traces/held_sum.h"

namespace shardscope {

std::vector<MemoryChange> memory_changes(const ImportedTrace& trace, std::uint32_t device) {
  std::vector<MemoryChange> changes;
  for (std::size_t i = 0; i < trace.memory.size(); ++i) {
    if (trace.memory[i].device == device) changes.push_back(trace.memory[i]);
  }
  const auto time = [&](const MemoryChange& change) { return trace.events.start_ns[change.event]; };
  std::stable_sort(changes.begin(), changes.end(),
                   [&](const MemoryChange& a, const MemoryChange& b) {
                     return time(a) != time(b) ? time(a) < time(b) : a.order < b.order;
                   });
  return changes;
}

MemoryFigures memory_figures(const ImportedTrace& trace, std::uint32_t device) {
  const std::vector<MemoryChange> changes = memory_changes(trace, device);
  MemoryFigures figures{.device = trace.memory_devices[device]};
  figures.changes = static_cast<std::int64_t>(changes.size());
  if (changes.empty()) return figures;
  const MemoryChange& first = changes.front();
  const MemoryChange* peak = &first;
  figures.before_first = held_sum(first.allocated, held_negative(first.bytes));
  figures.final_allocated = changes.back().allocated;
  figures.lowest_allocated = first.allocated;
  figures.peak_reserved = figures.lowest_reserved = first.reserved;
  Bytes before = figures.before_first;
  for (const MemoryChange& change : changes) {
    if (change.allocated > peak->allocated) peak = &change;
    figures.lowest_allocated = std::min(figures.lowest_allocated, change.allocated);
    figures.peak_reserved = std::max(figures.peak_reserved, change.reserved);
    figures.lowest_reserved = std::min(figures.lowest_reserved, change.reserved);
    Bytes& sum = change.bytes.count > 0 ? figures.taken : figures.freed;
    sum = held_sum(sum, change.bytes.count > 0 ? change.bytes : held_negative(change.bytes));
    figures.inconsistent += change.allocated != held_sum(before, change.bytes);
    before = change.allocated;
  }
  figures.peak_allocated = peak->allocated;
  figures.peak_time = {trace.events.start_ns[peak->event]};
  return figures;
}

}  // namespace shardscope
