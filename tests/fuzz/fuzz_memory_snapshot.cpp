// Any bytes as a memory snapshot: either an Error, or columns that fit together, a replay whose
// live blocks are what it says is active where the history is whole, and a picture.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "core/base/error.h"
#include "tests/fuzz/memory_file.h"
#include "traces/import/memory_curve_figure.h"
#include "traces/import/memory_snapshot_reader.h"
#include "traces/import/snapshot_owners.h"
#include "traces/import/snapshot_replay.h"
#include "traces/import/snapshot_state.h"

namespace {

/// Small, so that a gzip bomb shows itself at once if nothing stops it.
constexpr shardscope::PickleBounds bounds{.max_bytes = 1 << 20, .max_cells = 1 << 20};

bool fits_together(const shardscope::MemorySnapshot& snapshot) {
  for (const auto& events : snapshot.events) {
    for (std::size_t i = 0; i < events.count(); ++i) {
      if (events.stream[i] >= snapshot.streams.size() ||
          events.stack[i] + 1 >= snapshot.stack_begins.size() || events.size[i] < 0)
        return false;
    }
  }
  for (const std::uint32_t frame : snapshot.stack_frames) {
    if (frame >= snapshot.frames.size()) return false;
  }
  std::int64_t kept = static_cast<std::int64_t>(snapshot.host_events.count());
  for (const auto& events : snapshot.events) kept += static_cast<std::int64_t>(events.count());
  return kept == snapshot.report.events_kept;
}

void play(const shardscope::MemorySnapshot& snapshot, std::int64_t device) {
  shardscope::snapshot_state(snapshot, device);
  const auto played = shardscope::replay(snapshot, device);
  if (played.peak_active.bytes < played.end.active) std::abort();
  const auto live = shardscope::live_blocks(snapshot, device, played.peak_active.event);
  shardscope::owners_by_frame(snapshot, live);
  const auto curve = shardscope::memory_curve(snapshot, device);
  shardscope::memory_curve_figure(curve, "fuzz");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const shardscope::fuzz::MemoryFile file(data, size);
  try {
    const auto input = shardscope::decompressed(shardscope::open_bytes(file.path()));
    const auto snapshot = shardscope::read_memory_snapshot(*input, "fuzz", bounds);
    if (!fits_together(snapshot)) std::abort();
    for (const std::int64_t device : snapshot.devices()) play(snapshot, device);
    shardscope::segment_changes(snapshot, snapshot);
  } catch (const shardscope::Error&) {
  }
  return 0;
}
