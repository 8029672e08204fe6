#include "traces/import/nsight_memory.h"

#include <algorithm>
#include <map>
#include <utility>

#include "traces/held_sum.h"

namespace shardscope {
namespace {

constexpr std::int64_t cuda_type = 1;

std::uint32_t memory_device(std::int64_t id, ImportedTrace& trace) {
  const MemoryDevice device{.type = cuda_type, .id = id};
  auto& devices = trace.memory_devices;
  const auto at = std::find(devices.begin(), devices.end(), device);
  const auto index = static_cast<std::uint32_t>(at - devices.begin());
  if (at == devices.end()) devices.push_back(device);
  return index;
}

}  // namespace

std::int64_t add_memory_changes(std::vector<NsightAllocation> allocations, ImportedTrace& trace) {
  std::stable_sort(allocations.begin(), allocations.end(), [&](const auto& a, const auto& b) {
    return trace.events.start_ns[a.event] < trace.events.start_ns[b.event];
  });
  std::map<std::pair<std::int64_t, std::int64_t>, Bytes> live;  // by process and address
  std::map<std::int64_t, Bytes> totals;                         // by device
  std::int64_t of_unknown_size = 0;
  for (const NsightAllocation& allocation : allocations) {
    const std::pair place{allocation.process, allocation.address};
    Bytes bytes = allocation.bytes.value_or(Bytes{});
    if (!allocation.is_free) live[place] = bytes;
    if (allocation.is_free) {
      const auto at = live.find(place);
      if (at != live.end()) bytes = at->second;
      if (at == live.end() && bytes == Bytes{}) ++of_unknown_size;
      if (at != live.end()) live.erase(at);
      bytes = held_negative(bytes);
    }
    Bytes& total = totals[allocation.device];
    total = held_sum(total, bytes);
    trace.memory.push_back({.event = allocation.event,
                            .device = memory_device(allocation.device, trace),
                            .order = static_cast<std::int64_t>(trace.memory.size()),
                            .bytes = bytes,
                            .allocated = total,
                            .reserved = total});
  }
  return of_unknown_size;
}

}  // namespace shardscope
