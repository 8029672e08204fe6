// Reads the Chrome traces that chrome_writer.h writes, to exactly the same Trace.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "traces/trace.h"

namespace shardscope {

/// Why events are passed over that say again what others said.
inline constexpr std::string_view derived_event = "follows from other events";

/// What a reader made of a file. Bad events are counted, not fatal.
struct ImportStatistics {
  std::int64_t events_read = 0;
  std::int64_t events_kept = 0;
  std::map<std::string, std::int64_t> skipped;  ///< reason: count
};

struct OwnTrace {
  Trace trace;
  ImportStatistics statistics;
};

/// A file (gzip or plain, by its first bytes) whose text is at most `max_text_bytes`; more, a
/// damaged gzip stream, or a file that is not a Shardscope trace throws Error naming the path.
OwnTrace read_chrome_trace(const std::filesystem::path& path,
                           std::int64_t max_text_bytes = std::int64_t{1} << 30);

/// The same from JSON text; `file_name` stands in errors.
OwnTrace parse_chrome_trace(std::string_view text, std::string_view file_name);

}  // namespace shardscope
