#include "traces/import/memory_curve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/traces/snapshot_text.h"
#include "tests/traces/string_input.h"
#include "traces/import/memory_curve_figure.h"
#include "traces/import/snapshot_replay.h"

namespace shardscope {
namespace {

using samples::event;
using samples::frame;
using testing::HasSubstr;

/// A block in a forward, one that no rule knows, and the end of the first.
MemorySnapshot small_snapshot() {
  return samples::snapshot(
      {}, {event("alloc", 1, 10, {frame("model.py", 5, "forward")}),
           event("alloc", 2, 5, {frame("train.py", 6, "main")}), event("free_requested", 1, 10, {}),
           event("free_completed", 1, 10, {})});
}

Bytes at_peak(const MemoryCurve& curve, std::string_view name) {
  for (const MemoryBand& band : curve.bands) {
    if (band.name == name) return band.at_peak;
  }
  return Bytes{-1};
}

TEST(MemoryCurve, OfASnapshotReachesThePeakOfItsReplay) {
  const MemorySnapshot snapshot = small_snapshot();
  const MemoryCurve curve = memory_curve(snapshot, 0);
  EXPECT_EQ(curve.peak, replay(snapshot, 0).peak_active.bytes);
  EXPECT_EQ(curve.peak, 15_B);
  EXPECT_EQ(at_peak(curve, "activations"), 10_B);
  EXPECT_EQ(at_peak(curve, "unknown"), 5_B);
}

TEST(MemoryCurve, OfATimelineFollowsItsCategories) {
  // Parameters from before, an activation of 300 B, a gradient of 20 B once that is gone.
  const std::string text =
      "[[-1, 1, 100, 0], [1000, 2, 300, 4], [5000, 4, -300, 4], [6000, 2, 20, 5]]";
  samples::StringInput input(text);
  const MemoryCurve curve = memory_curve(read_memory_timeline(input, "t.raw.json"));
  EXPECT_EQ(curve.peak, 400_B);
  EXPECT_EQ(curve.peak_time.ns, 0);  // since the first event that has a time
  EXPECT_EQ(at_peak(curve, "parameter"), 100_B);
  EXPECT_EQ(at_peak(curve, "activation"), 300_B);
  EXPECT_EQ(curve.stack.length.ns, 5001);
  EXPECT_EQ(curve.stack.levels.back().total(), 120_B);
}

TEST(MemoryCurveFigure, FlagsThePeak) {
  const std::string svg = memory_curve_figure(memory_curve(small_snapshot(), 0), "snapshot");
  EXPECT_THAT(svg, HasSubstr("peak 15 B"));
  EXPECT_THAT(svg, HasSubstr("activations"));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
}

}  // namespace
}  // namespace shardscope
