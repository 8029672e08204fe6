#include "traces/import/file_format.h"

#include <algorithm>
#include <array>

#include "traces/import/json_scanner.h"
#include "traces/import/text_input.h"

namespace shardscope {
namespace {

using namespace std::string_view_literals;

constexpr std::array trace_keys{"traceEvents"sv, "deviceProperties"sv, "schemaVersion"sv};

void skip_space(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
}

bool is_pickle(std::string_view bytes) {
  return bytes.size() > 1 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5;
}

bool has_events(std::string_view text) { return text.find("\"ph\"") != text.npos; }

/// Looks at the object's own keys, as far as they are there; a damaged one may still have events.
FileFormat object_format(std::string_view text) {
  JsonScanner scanner(text.data(), text.data() + text.size());
  std::string_view key, value;
  scanner.take('{');
  for (;;) {
    Scan scan = scanner.key(key);
    if (scan == Scan::ok) {
      if (std::find(trace_keys.begin(), trace_keys.end(), key) != trace_keys.end())
        return FileFormat::chrome_trace;
      if (key == "nodes") return FileFormat::execution_trace;
      scan = scanner.value(value);
    }
    if (scan == Scan::ok && scanner.take(',')) continue;
    const bool is_damaged = scan == Scan::bad && scanner.peek() != '}';
    return is_damaged && has_events(text) ? FileFormat::chrome_trace : FileFormat::unknown;
  }
}

FileFormat json_format(std::string_view text) {
  skip_space(text);
  if (text.starts_with('{')) return object_format(text);
  if (!text.starts_with('[')) return FileFormat::unknown;
  std::string_view inside = text.substr(1);
  skip_space(inside);
  if (inside.starts_with('[')) return FileFormat::memory_timeline;
  return inside.starts_with('{') && has_events(inside) ? FileFormat::chrome_trace
                                                       : FileFormat::unknown;
}

}  // namespace

FileFormat file_format(std::string_view first_bytes) {
  if (first_bytes.empty()) return FileFormat::empty;
  if (first_bytes.starts_with("SQLite format 3\0"sv)) return FileFormat::nsight;
  if (is_pickle(first_bytes)) return FileFormat::memory_snapshot;
  if (TarArchive::looks_like(first_bytes)) return FileFormat::tar;
  if (first_bytes.starts_with("\xEF\xBB\xBF")) first_bytes.remove_prefix(3);
  return json_format(first_bytes);
}

}  // namespace shardscope
