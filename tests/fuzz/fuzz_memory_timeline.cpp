// Any bytes as a memory timeline: either an Error, or rows that are all accounted for, and a
// picture.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "core/base/error.h"
#include "tests/fuzz/memory_file.h"
#include "traces/import/memory_curve_figure.h"
#include "traces/import/memory_timeline.h"

namespace {

bool is_accounted_for(const shardscope::MemoryTimeline& timeline) {
  std::int64_t skipped = 0;
  for (const auto& [reason, count] : timeline.report.skipped) skipped += count;
  const auto kept = static_cast<std::int64_t>(timeline.rows.count() + timeline.points.count());
  return timeline.report.events_kept == kept && timeline.report.events_read == kept + skipped;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const shardscope::fuzz::MemoryFile file(data, size);
  try {
    const auto input = shardscope::decompressed(shardscope::open_bytes(file.path()));
    const auto timeline = shardscope::read_memory_timeline(*input, "fuzz");
    if (!is_accounted_for(timeline)) std::abort();
    const auto figures = shardscope::timeline_figures(timeline);
    if (figures.peak < figures.final || figures.peak < shardscope::Bytes{}) std::abort();
    shardscope::memory_curve_figure(shardscope::memory_curve(timeline), "fuzz");
  } catch (const shardscope::Error&) {
  }
  return 0;
}
