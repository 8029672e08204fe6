// Any bytes as a Chrome trace, plain or gzip: either an Error, or a trace whose parts fit together.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "core/base/error.h"
#include "tests/fuzz/memory_file.h"
#include "traces/chrome_reader.h"

namespace {

/// Small, so that a gzip bomb shows itself at once if nothing stops it.
constexpr std::int64_t max_text_bytes = 1 << 17;

bool fits_together(const shardscope::OwnTrace& imported) {
  if (imported.statistics.events_kept > imported.statistics.events_read) return false;
  for (const shardscope::Span& span : imported.trace.spans) {
    if (span.name >= imported.trace.names.size() || span.track >= imported.trace.tracks.size())
      return false;
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const shardscope::fuzz::MemoryFile file(data, size);
  try {
    if (!fits_together(shardscope::read_chrome_trace(file.path(), max_text_bytes))) std::abort();
  } catch (const shardscope::Error&) {
  }
  return 0;
}
