// Reads traces of PyTorch's profiler (Kineto) and others in the Chrome format.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "traces/import/imported_trace.h"
#include "traces/import/text_input.h"
#include "traces/import/text_store.h"

namespace shardscope {

/// How a file is read.
struct ImportOptions {
  std::int64_t max_text_bytes = std::int64_t{16} << 30;
  /// Called every few MiB with what there is so far (events in the order of the file, not laid out
  /// yet; nothing of a memory snapshot or timeline) and the bytes of the file that are behind us;
  /// true stops the reading.
  std::function<bool(const ImportedTrace&, std::int64_t file_bytes)> progress;
};

/// Reads a trace as PyTorch 1.8 to 2.15 write it; times in any of its three bases (integer or
/// fractional microseconds since 1970, or fractional ones after baseTimeNanoseconds). Events come
/// classified by our own rules and laid out. What cannot be read is counted in the report.
/// Stopped by `progress`: Error (ExitCode::interrupted).
ImportedTrace read_kineto(TextInput& input, TextStore store, std::string file,
                          const ImportOptions& options);

}  // namespace shardscope
