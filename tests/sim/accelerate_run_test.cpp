// Configuration files of accelerate, played, against what the real library did with them on a CUDA
// device that computes nothing (tests/data/accelerate_runs/record.py).
#include <gtest/gtest.h>

#include <vector>

#include "core/pytorch/runtimes/training/recorded_schedule.h"
#include "sim/engine/program_player.h"
#include "tests/sim/accelerate_run.h"

namespace shardscope {
namespace {

using testing::AllocatorFigures;

/// Largest figures of each iteration.
using Peaks = std::vector<AllocatorFigures>;

Peaks played(const JsonValue& row) {
  const testing::AccelerateRun run = testing::accelerate_run(row);
  const Schedule schedule = eager::recorded_schedule(run.model, run.config, run.setup);
  InstantDevice device;
  CachingAllocator allocator({}, {.total = Bytes{80LL << 30}}, device);
  ProgramPlayer player({.schedule = schedule, .allocator = &allocator, .device = device});
  Peaks peaks;
  for (const Step& step : schedule.steps) {
    player.play_until(step.actions.begin);
    allocator.reset_peaks();
    player.play_until(step.actions.end);
    const AllocatorStatistics& s = allocator.statistics();
    peaks.push_back({s.allocated_bytes.peak, s.active_bytes.peak, s.reserved_bytes.peak});
  }
  return peaks;
}

Peaks expected(const JsonValue& row) {
  Peaks peaks;
  for (const JsonValue& iteration : row.at("recorded").at("iterations").elements())
    peaks.push_back(testing::figures_of(iteration));
  return peaks;
}

TEST(AccelerateRun, AllocatesWhatTheRealLibraryDoes) {
  for (const auto& [name, row] : testing::accelerate_recording("recorded.json").members()) {
    SCOPED_TRACE(name);
    EXPECT_EQ(played(row), expected(row));
  }
}

}  // namespace
}  // namespace shardscope
