// Any bytes as a foreign trace, plain, gzip or tar: either an Error, or traces whose columns fit
// together, whose accounting sums, and whose report says where every event went.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "core/base/error.h"
#include "tests/fuzz/memory_file.h"
#include "traces/import/import.h"
#include "traces/import/imported_spans.h"
#include "traces/import/trace_report.h"

namespace {

/// Small, so that a gzip bomb shows itself at once if nothing stops it.
constexpr std::int64_t max_text_bytes = 1 << 20;

bool fits_together(const shardscope::ImportedTrace& trace) {
  const auto& events = trace.events;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (events.name[i] >= trace.names.size() || events.track[i] >= trace.tracks.size() ||
        events.category[i] >= trace.categories.size() || events.duration_ns[i] < 0)
      return false;
    if (trace.text_of(i).size() != events.text_length[i]) return false;
  }
  std::int64_t skipped = 0;
  for (const auto& [reason, count] : trace.report.skipped) skipped += count;
  const auto joined = trace.report.odd.find("are ends, joined with their beginnings");
  const std::int64_t ends = joined == trace.report.odd.end() ? 0 : joined->second;
  return trace.report.events_kept == static_cast<std::int64_t>(events.size()) &&
         trace.report.events_read == trace.report.events_kept + skipped + ends;
}

bool sums(const shardscope::Accounting& time) {
  return time.span == time.compute + time.exposed_communication + time.exposed_copy + time.idle;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const shardscope::fuzz::MemoryFile file(data, size);
  try {
    const auto traces =
        shardscope::import_traces(file.path(), {.max_text_bytes = max_text_bytes, .progress = {}});
    for (const auto& trace : traces) {
      if (!fits_together(trace)) std::abort();
      shardscope::device_spans(trace);
    }
    for (const shardscope::Definitions definitions : shardscope::all_definitions) {
      const auto report = shardscope::report_of(traces, {.definitions = definitions});
      for (const auto& rank : report.ranks) {
        if (!sums(rank.time)) std::abort();
      }
      shardscope::to_json(report);
    }
  } catch (const shardscope::Error&) {
  }
  return 0;
}
