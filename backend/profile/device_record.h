// What a device says that it did, one thing at a time: plain values, whoever recorded them.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/schedule/schedule.h"

namespace shardscope {

enum class RecordKind : std::uint8_t {
  kernel,
  copy,
  set,              ///< of memory
  call,             ///< of the host, that caused others
  synchronization,  ///< the host waits, or a stream is told to
  event,            ///< of a stream
  overhead,         ///< of the profiler or of loading code
  allocation,
  release
};
std::string_view name_of(RecordKind kind);

/// Does it occupy a stream of the device: a kernel, copy or set.
bool is_device_work(RecordKind kind);

enum class CopyKind : std::uint8_t {
  none,  ///< no copy
  host_to_device,
  device_to_host,
  device_to_device,
  host_to_host,
  peer,
  other
};
std::string_view name_of(CopyKind kind);

struct DeviceRecord {
  /// A number that its maker did not give.
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  RecordKind kind = RecordKind::kernel;
  CopyKind copy = CopyKind::none;
  /// Nanoseconds on the clock of monotonic_ns(); start = end where it is a moment; both 0: the
  /// device had no room to note them.
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t bytes = 0;        ///< copied, set, allocated or released
  std::uint64_t address = 0;     ///< of an allocation or release
  bool on_host = false;          ///< of an allocation or release: pinned memory of the host
  std::uint64_t graph_node = 0;  ///< 0: it was not part of a graph
  std::uint32_t graph = 0;       ///< of an executable graph
  std::uint32_t device = none;
  std::uint32_t context = none;
  std::uint32_t stream = none;    ///< as CUPTI numbers them
  std::uint32_t correlation = 0;  ///< the call that caused it; 0: not known
  /// Into the names beside it: a kernel's, a call's, the library that asks for memory, what is
  /// copied.
  std::uint32_t name = 0;
  OperationId operation;  ///< that it was queued for; none: not ours
  std::int32_t step = 0;  ///< training step, from 1; 0: outside of steps

  std::int64_t duration_ns() const { return end_ns - start_ns; }
  bool operator==(const DeviceRecord&) const = default;
};

}  // namespace shardscope
