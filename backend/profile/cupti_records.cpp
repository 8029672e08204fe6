#include "backend/profile/cupti_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

namespace shardscope {
namespace {

using Bytes8 = std::span<const std::uint8_t>;

/// What readers of single records need.
struct Reader {
  const Cupti& library;
  const ParseLimits& limits;
  ParsedRecords& into;
};

/// What a record lacks is 0.
template <class Raw>
Raw take(Bytes8 bytes) {
  Raw raw;
  std::memset(static_cast<void*>(&raw), 0, sizeof raw);
  std::memcpy(static_cast<void*>(&raw), bytes.data(), std::min(sizeof raw, bytes.size()));
  return raw;
}

template <class Number>
struct Named {
  Number value;
  std::string_view name;
};
template <class Number>
Named(Number, std::string_view) -> Named<Number>;

/// The name of a value in a table; else `other`.
template <class Table, class Number>
std::string_view name_in(const Table& table, Number value, std::string_view other) {
  const auto* found = std::ranges::find(table, value, &Table::value_type::value);
  return found == table.end() ? other : found->name;
}

std::string_view text_of(const char* text, std::string_view where_null) {
  return text == nullptr ? where_null : text;
}

void add(Reader& reader, DeviceRecord record, std::string_view name) {
  if (record.end_ns < record.start_ns) {
    ++reader.into.unordered;
    return;
  }
  if (reader.into.records.size() >= reader.limits.most_records) {
    ++reader.into.not_kept;
    return;
  }
  record.name = reader.into.names.intern(name);
  reader.into.records.push_back(record);
}

/// What all records of work on a device have.
template <class Raw>
DeviceRecord device_work(const Raw& raw, RecordKind kind) {
  return {.kind = kind,
          .start_ns = static_cast<std::int64_t>(raw.start),
          .end_ns = static_cast<std::int64_t>(raw.end),
          .graph_node = raw.graphNodeId,
          .graph = raw.graphId,
          .device = raw.deviceId,
          .context = raw.contextId,
          .stream = raw.streamId,
          .correlation = raw.correlationId,
          .operation = {}};
}

void read_kernel(Bytes8 bytes, Reader& reader) {
  const auto raw = take<CUpti_ActivityKernel10>(bytes);
  add(reader, device_work(raw, RecordKind::kernel), text_of(raw.name, "kernel without a name"));
}

constexpr std::array copy_kinds{
    std::pair{CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, CopyKind::host_to_device},
    std::pair{CUPTI_ACTIVITY_MEMCPY_KIND_DTOH, CopyKind::device_to_host},
    std::pair{CUPTI_ACTIVITY_MEMCPY_KIND_DTOD, CopyKind::device_to_device},
    std::pair{CUPTI_ACTIVITY_MEMCPY_KIND_HTOH, CopyKind::host_to_host},
    std::pair{CUPTI_ACTIVITY_MEMCPY_KIND_PTOP, CopyKind::peer},
};

constexpr std::array memory_kinds{
    Named{CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE, "Pageable"},
    Named{CUPTI_ACTIVITY_MEMORY_KIND_PINNED, "Pinned"},
    Named{CUPTI_ACTIVITY_MEMORY_KIND_DEVICE, "Device"},
    Named{CUPTI_ACTIVITY_MEMORY_KIND_ARRAY, "Array"},
    Named{CUPTI_ACTIVITY_MEMORY_KIND_MANAGED, "Managed"},
    Named{CUPTI_ACTIVITY_MEMORY_KIND_DEVICE_STATIC, "Device Static"},
    Named{CUPTI_ACTIVITY_MEMORY_KIND_MANAGED_STATIC, "Managed Static"},
};

std::string_view memory_name(int kind) {
  return name_in(memory_kinds, static_cast<CUpti_ActivityMemoryKind>(kind), "Unknown");
}

/// Names as Kineto has them (libkineto, CuptiActivity.cpp): "Memcpy HtoD (Pageable -> Device)".
template <class Raw>
void read_copy(Bytes8 bytes, Reader& reader) {
  const auto raw = take<Raw>(bytes);
  DeviceRecord record = device_work(raw, RecordKind::copy);
  const auto* kind =
      std::ranges::find(copy_kinds, static_cast<CUpti_ActivityMemcpyKind>(raw.copyKind),
                        [](const auto& pair) { return pair.first; });
  record.copy = kind == copy_kinds.end() ? CopyKind::other : kind->second;
  record.bytes = static_cast<std::int64_t>(raw.bytes);
  add(reader, record,
      fmt::format("Memcpy {} ({} -> {})", name_of(record.copy), memory_name(raw.srcKind),
                  memory_name(raw.dstKind)));
}

void read_set(Bytes8 bytes, Reader& reader) {
  const auto raw = take<CUpti_ActivityMemset4>(bytes);
  DeviceRecord record = device_work(raw, RecordKind::set);
  record.bytes = static_cast<std::int64_t>(raw.bytes);
  add(reader, record, fmt::format("Memset ({})", memory_name(raw.memoryKind)));
}

template <CUpti_CallbackDomain domain>
void read_call(Bytes8 bytes, Reader& reader) {
  const auto raw = take<CUpti_ActivityAPI>(bytes);
  if (reader.into.calls.size() < reader.limits.most_records)
    reader.into.calls.push_back({raw.correlationId, static_cast<std::int64_t>(raw.start)});
  if (!reader.limits.keep_calls) return;
  const char* name = nullptr;
  reader.library.callback_name(domain, raw.cbid, &name);
  add(reader,
      {.kind = RecordKind::call,
       .start_ns = static_cast<std::int64_t>(raw.start),
       .end_ns = static_cast<std::int64_t>(raw.end),
       .correlation = raw.correlationId,
       .operation = {}},
      text_of(name, "call without a name"));
}

constexpr std::array synchronizations{
    Named{CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE, "event synchronize"},
    Named{CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT, "stream waits for event"},
    Named{CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE, "stream synchronize"},
    Named{CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE, "context synchronize"},
};

void read_synchronization(Bytes8 bytes, Reader& reader) {
  const auto raw = take<CUpti_ActivitySynchronization2>(bytes);
  add(reader,
      {.kind = RecordKind::synchronization,
       .start_ns = static_cast<std::int64_t>(raw.start),
       .end_ns = static_cast<std::int64_t>(raw.end),
       .context = raw.contextId,
       .stream = raw.streamId,
       .correlation = raw.correlationId,
       .operation = {}},
      name_in(synchronizations, raw.type, "synchronize"));
}

void read_event(Bytes8 bytes, Reader& reader) {
  const auto raw = take<CUpti_ActivityCudaEvent2>(bytes);
  const auto at = static_cast<std::int64_t>(raw.deviceTimestamp);
  add(reader,
      {.kind = RecordKind::event,
       .start_ns = at,
       .end_ns = at,
       .device = raw.deviceId,
       .context = raw.contextId,
       .stream = raw.streamId,
       .correlation = raw.correlationId,
       .operation = {}},
      "event");
}

constexpr std::array overheads{
    Named{CUPTI_ACTIVITY_OVERHEAD_DRIVER_COMPILER, "driver compiles"},
    Named{CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH, "CUPTI flushes buffers"},
    Named{CUPTI_ACTIVITY_OVERHEAD_CUPTI_INSTRUMENTATION, "CUPTI instruments"},
    Named{CUPTI_ACTIVITY_OVERHEAD_CUPTI_RESOURCE, "CUPTI takes resources"},
    Named{CUPTI_ACTIVITY_OVERHEAD_RUNTIME_TRIGGERED_MODULE_LOADING, "module is loaded"},
    Named{CUPTI_ACTIVITY_OVERHEAD_LAZY_FUNCTION_LOADING, "function is loaded"},
    Named{CUPTI_ACTIVITY_OVERHEAD_COMMAND_BUFFER_FULL, "command buffer is full"},
    Named{CUPTI_ACTIVITY_OVERHEAD_ACTIVITY_BUFFER_REQUEST, "CUPTI asks for a buffer"},
    Named{CUPTI_ACTIVITY_OVERHEAD_UVM_ACTIVITY_INIT, "unified memory is prepared"},
};

void read_overhead(Bytes8 bytes, Reader& reader) {
  const auto raw = take<CUpti_ActivityOverhead3>(bytes);
  add(reader,
      {.kind = RecordKind::overhead,
       .start_ns = static_cast<std::int64_t>(raw.start),
       .end_ns = static_cast<std::int64_t>(raw.end),
       .correlation = raw.correlationId,
       .operation = {}},
      name_in(overheads, raw.overheadKind, "overhead"));
}

/// The file's name of a path.
std::string_view last_part(std::string_view path) {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

void read_memory(Bytes8 bytes, Reader& reader) {
  const auto raw = take<CUpti_ActivityMemory4>(bytes);
  const bool releases = raw.memoryOperationType == CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE;
  const auto at = static_cast<std::int64_t>(raw.timestamp);
  add(reader,
      {.kind = releases ? RecordKind::release : RecordKind::allocation,
       .start_ns = at,
       .end_ns = at,
       .bytes = static_cast<std::int64_t>(raw.bytes),
       .address = raw.address,
       .on_host = raw.memoryKind == CUPTI_ACTIVITY_MEMORY_KIND_PINNED ||
                  raw.memoryKind == CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE,
       .device = raw.deviceId,
       .context = raw.contextId,
       .stream = raw.streamId,
       .correlation = raw.correlationId,
       .operation = {}},
      last_part(text_of(raw.source, "unknown library")));
}

void read_link(Bytes8 bytes, Reader& reader) {
  const auto raw = take<CUpti_ActivityExternalCorrelation>(bytes);
  if (raw.externalKind != external_kind) return;
  if (reader.into.links.size() >= reader.limits.most_records) {
    ++reader.into.not_kept;
    return;
  }
  reader.into.links.push_back({.correlation = raw.correlationId, .external_id = raw.externalId});
}

struct KindReader {
  CUpti_ActivityKind kind;
  void (*read)(Bytes8, Reader&);
};

constexpr std::array readers{
    KindReader{CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, read_kernel},
    KindReader{CUPTI_ACTIVITY_KIND_KERNEL, read_kernel},
    KindReader{CUPTI_ACTIVITY_KIND_MEMCPY, read_copy<CUpti_ActivityMemcpy6>},
    KindReader{CUPTI_ACTIVITY_KIND_MEMCPY2, read_copy<CUpti_ActivityMemcpyPtoP4>},
    KindReader{CUPTI_ACTIVITY_KIND_MEMSET, read_set},
    KindReader{CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, read_link},
    KindReader{CUPTI_ACTIVITY_KIND_RUNTIME, read_call<CUPTI_CB_DOMAIN_RUNTIME_API>},
    KindReader{CUPTI_ACTIVITY_KIND_DRIVER, read_call<CUPTI_CB_DOMAIN_DRIVER_API>},
    KindReader{CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, read_synchronization},
    KindReader{CUPTI_ACTIVITY_KIND_CUDA_EVENT, read_event},
    KindReader{CUPTI_ACTIVITY_KIND_OVERHEAD, read_overhead},
    KindReader{CUPTI_ACTIVITY_KIND_MEMORY2, read_memory},
};

void read_record(Bytes8 bytes, Reader& reader) {
  const auto kind = take<CUpti_Activity>(bytes).kind;
  const auto* found = std::ranges::find(readers, kind, &KindReader::kind);
  if (found == readers.end())
    ++reader.into.unknown;
  else
    found->read(bytes, reader);
}

}  // namespace

void parse_records(std::span<std::uint8_t> buffer, const Cupti& library, const ParseLimits& limits,
                   ParsedRecords& into) {
  if (buffer.empty()) return;
  Reader reader{library, limits, into};
  CUpti_Activity* record = nullptr;
  CUptiResult result = library.next_record(buffer.data(), buffer.size(), &record);
  while (result == CUPTI_SUCCESS) {
    const auto* begin = reinterpret_cast<const std::uint8_t*>(record);
    result = library.next_record(buffer.data(), buffer.size(), &record);
    const auto* end = result == CUPTI_SUCCESS ? reinterpret_cast<const std::uint8_t*>(record)
                                              : buffer.data() + buffer.size();
    read_record({begin, end}, reader);
  }
  if (result != CUPTI_ERROR_MAX_LIMIT_REACHED) ++into.broken;
}

std::int64_t count_records(std::span<std::uint8_t> buffer, const Cupti& library) {
  std::int64_t count = 0;
  CUpti_Activity* record = nullptr;
  while (!buffer.empty() &&
         library.next_record(buffer.data(), buffer.size(), &record) == CUPTI_SUCCESS)
    ++count;
  return count;
}

}  // namespace shardscope
