#include "backend/profile/device_recording.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace shardscope {
namespace {

/// One stream's records as they come, by start.
class BusyCount {
 public:
  void add(const DeviceRecord& record) {
    const std::int64_t begin = any_ ? std::max(record.start_ns, busy_until_) : record.start_ns;
    const std::int64_t fresh = std::max<std::int64_t>(record.end_ns - begin, 0);
    const bool overlaps = any_ && record.start_ns < busy_until_ && record.duration_ns() > 0;
    sum_.overlaps += overlaps ? 1 : 0;
    sum_.overlapped = sum_.overlapped + Duration{record.duration_ns() - fresh};
    sum_.busy = sum_.busy + Duration{fresh};
    Duration& own = sum_.by_operation[record.operation];
    own = own + Duration{fresh};
    busy_until_ = any_ ? std::max(busy_until_, record.end_ns) : record.end_ns;
    any_ = true;
  }
  StreamBusy take(std::uint32_t context, std::uint32_t stream) && {
    sum_.context = context;
    sum_.stream = stream;
    return std::move(sum_);
  }

 private:
  StreamBusy sum_;
  std::int64_t busy_until_ = 0;
  bool any_ = false;
};

}  // namespace

bool is_untimed(const DeviceRecord& record) {
  return is_device_work(record.kind) && record.start_ns == 0 && record.end_ns == 0;
}

std::vector<StreamBusy> busy_by_stream(const DeviceRecording& recording) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, BusyCount> counts;
  for (const DeviceRecord& record : recording.records) {
    if (is_device_work(record.kind) && !is_untimed(record))
      counts[{record.context, record.stream}].add(record);
  }
  std::vector<StreamBusy> streams;
  for (auto& [where, count] : counts)
    streams.push_back(std::move(count).take(where.first, where.second));
  return streams;
}

std::vector<LibraryMemory> memory_by_library(const DeviceRecording& recording) {
  std::map<std::string_view, LibraryMemory> libraries;
  // By address: a release may name another library than the one that took the memory, or no bytes.
  std::map<std::uint64_t, const DeviceRecord*> taken;
  for (const DeviceRecord& record : recording.records) {
    const bool allocates = record.kind == RecordKind::allocation;
    if ((!allocates && record.kind != RecordKind::release) || record.on_host) continue;
    if (allocates && record.address != 0) taken[record.address] = &record;
    const auto found = taken.find(record.address);
    const DeviceRecord& owner = found == taken.end() ? record : *found->second;
    LibraryMemory& memory = libraries[recording.name(owner)];
    (allocates ? memory.allocations : memory.releases) += 1;
    Bytes& bytes = allocates ? memory.allocated : memory.released;
    bytes = bytes + Bytes{owner.bytes};
  }
  std::vector<LibraryMemory> sums;
  for (auto& [name, memory] : libraries) {
    memory.library = name;
    sums.push_back(std::move(memory));
  }
  return sums;
}

}  // namespace shardscope
