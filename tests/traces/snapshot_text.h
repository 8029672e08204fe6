// Memory snapshots as Python pickles them, for tests of their readers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "traces/import/memory_snapshot.h"

namespace shardscope::samples {

/// {"name", "filename", "line"}
std::string frame(std::string_view file, int line, std::string_view name);

/// An event on stream 0, `address` microseconds after a second; `more` are pickled pairs.
std::string event(std::string_view action, std::int64_t address, std::int64_t size,
                  const std::vector<std::string>& frames = {},
                  const std::vector<std::pair<std::string, std::string>>& more = {});

/// A snapshot of these segments, and events of device 0, as bytes.
std::string snapshot_bytes(const std::vector<std::string>& segments,
                           const std::vector<std::string>& events);

/// The same, read.
MemorySnapshot snapshot(const std::vector<std::string>& segments,
                        const std::vector<std::string>& events);

}  // namespace shardscope::samples
