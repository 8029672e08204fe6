#include "traces/import/file_format.h"

#include <algorithm>
#include <array>

#include "traces/import/text_input.h"

namespace shardscope {
namespace {

using namespace std::string_view_literals;

constexpr std::array trace_keys{"\"traceEvents\""sv, "\"deviceProperties\""sv,
                                "\"schemaVersion\""sv};

void skip_space(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
}

bool is_pickle(std::string_view bytes) {
  return bytes.size() > 1 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5;
}

FileFormat json_format(std::string_view text) {
  skip_space(text);
  if (text.starts_with('{')) {
    const bool is_trace = std::any_of(trace_keys.begin(), trace_keys.end(),
                                      [&](auto key) { return text.find(key) != text.npos; });
    return is_trace ? FileFormat::chrome_trace : FileFormat::unknown;
  }
  if (!text.starts_with('[')) return FileFormat::unknown;
  text.remove_prefix(1);
  skip_space(text);
  if (text.starts_with('{')) {
    return text.find("\"ph\"") != text.npos ? FileFormat::chrome_trace : FileFormat::unknown;
  }
  return text.starts_with('[') ? FileFormat::memory_timeline : FileFormat::unknown;
}

}  // namespace

FileFormat file_format(std::string_view first_bytes) {
  if (first_bytes.starts_with("SQLite format 3\0"sv)) return FileFormat::nsight;
  if (is_pickle(first_bytes)) return FileFormat::memory_snapshot;
  if (TarArchive::looks_like(first_bytes)) return FileFormat::tar;
  if (first_bytes.starts_with("\xEF\xBB\xBF")) first_bytes.remove_prefix(3);
  return json_format(first_bytes);
}

}  // namespace shardscope
