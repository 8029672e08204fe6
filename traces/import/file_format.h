// What kind of file a trace is, by its first bytes.
#pragma once

#include <cstdint>
#include <string_view>

namespace shardscope {

enum class FileFormat : std::uint8_t {
  chrome_trace,     ///< Kineto's and ours
  memory_timeline,  ///< PyTorch's export_memory_timeline, raw or not
  memory_snapshot,  ///< PyTorch's CUDA memory snapshot, a pickle
  nsight,           ///< SQLite export of Nsight Systems
  tar,
  execution_trace,  ///< PyTorch's ExecutionTraceObserver: what ran, and not when
  empty,
  unknown,
};

/// Of the (decompressed) bytes that a file begins with; a MiB is enough, and one readable byte must
/// follow them. An object is a trace if one of its own keys there is traceEvents, schemaVersion or
/// deviceProperties, or if it is damaged and has events; an execution trace if one is nodes.
FileFormat file_format(std::string_view first_bytes);

}  // namespace shardscope
