// Any bytes as an export of Nsight Systems: either an Error, or a trace whose columns fit together
// and whose report says where every row went.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "core/base/error.h"
#include "tests/fuzz/memory_file.h"
#include "traces/import/imported_spans.h"
#include "traces/import/nsight_reader.h"
#include "traces/import/trace_report.h"

namespace {

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
  return trace.report.events_kept == static_cast<std::int64_t>(events.size()) &&
         trace.report.events_read == trace.report.events_kept + skipped;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const shardscope::fuzz::MemoryFile file(data, size);
  try {
    std::vector<shardscope::ImportedTrace> traces;
    traces.push_back(shardscope::read_nsight(file.path(), "fuzz", {}));
    if (!fits_together(traces.front())) std::abort();
    shardscope::device_spans(traces.front());
    shardscope::to_json(shardscope::report_of(traces));
  } catch (const shardscope::Error&) {
  }
  return 0;
}
