#include "gui/data/snapshot_allocations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/gui/scenarios.h"
#include "tests/gui/snapshot_scenarios.h"
#include "traces/import/import.h"

namespace shardscope::gui {
namespace {

using shardscope::testing::small_snapshot;
using shardscope::testing::snapshot_scenario;

SnapshotAllocations allocations_of(const ScenarioPointer& scenario) {
  const auto places = snapshot_places(scenario, nullptr);
  return snapshot_allocations(places.at(0), {.a = scenario});
}

TEST(SnapshotAllocations, LieAtTheirAddressesFromAllocationToFree) {
  const SnapshotAllocations all = allocations_of(snapshot_scenario("one"));
  ASSERT_EQ(all.blocks.size(), 3u);
  EXPECT_EQ(all.height, 4096);
  // The last event is at 40 us; a file of microseconds ends one later.
  EXPECT_EQ(all.time, (TimeRange{.begin = 0, .end = 41'000}));
  EXPECT_EQ(all.blocks[0].size, Bytes{2000}) << "the largest is first";
  EXPECT_EQ(all.blocks[0].bottom, 0x800);
  EXPECT_EQ(all.blocks[0].time, (TimeRange{.begin = 40'000, .end = 41'000}));
  EXPECT_TRUE(all.blocks[0].is_alive_at_end);
  EXPECT_EQ(all.blocks[2].bottom, 0x400);
  EXPECT_EQ(all.blocks[2].time, (TimeRange{.begin = 10'000, .end = 31'000}));
  EXPECT_FALSE(all.blocks[2].is_alive_at_end);
}

TEST(SnapshotAllocations, AreFoundByTimeAndAddress) {
  const SnapshotAllocations all = allocations_of(snapshot_scenario("one"));
  EXPECT_EQ(all.at(20'000, 0x500), 2u);
  EXPECT_EQ(all.at(32'000, 0x500), std::nullopt) << "freed";
  EXPECT_EQ(all.at(40'500, 0x900), 0u);
  EXPECT_EQ(all.at(20'000, 1000), std::nullopt) << "behind what was requested";
}

TEST(SnapshotAllocations, AreCalledByTheirFirstUsefulFrame) {
  const SnapshotAllocations all = allocations_of(snapshot_scenario("one"));
  EXPECT_EQ(all.names[all.blocks[0].stack], "/x/site-packages/torch/nn/functional.py:5:linear");
  const std::size_t own = all.table->place_of("code");
  EXPECT_EQ(all.table->text(own, 0), "/home/me/model.py:12:forward");
  EXPECT_EQ(all_frames(all.place.snapshot(), all.blocks[0].stack),
            "/x/site-packages/torch/nn/functional.py:5:linear\n/home/me/model.py:12:forward\n");
  EXPECT_EQ(short_frame("/home/me/model.py:12:forward"), "forward, model.py:12");
  EXPECT_EQ(short_frame("at::cuda::allocateCUDABlasWorkspace"), "allocateCUDABlasWorkspace");
  EXPECT_EQ(short_frame(""), "");
}

TEST(SnapshotAllocations, SayWhatIsFreeInSegments) {
  const SnapshotAllocations all = allocations_of(snapshot_scenario("one"));
  // 1,024 of 4,096 bytes.
  EXPECT_EQ(fragmentation_text(all.state),
            "4.00 KiB reserved in 1 segment; 1.00 KiB of it (25.0%) is free in 1 block. The "
            "largest free block has 1.00 KiB: a larger request needs a new segment.");
  EXPECT_EQ(all.segments.size(), 1u);
}

TEST(SnapshotAllocations, OfARunWithATraceLieByTheWallClock) {
  // The trace's clock begins at 1 s since 1970, the snapshot at 1,000,000 us: at 0 of the trace,
  // whose step begins at 500 us.
  auto scenario =
      std::make_shared<Scenario>(*shardscope::testing::small_scenario("one", 1.25, 500));
  Trace trace = *scenario->profiled->ranks[0];
  trace.base_ns = 999'400'000;  // 600 us before the snapshot
  scenario->profiled->ranks = {std::make_shared<const Trace>(trace)};
  scenario->profiled->snapshots = {std::make_shared<const MemorySnapshot>(small_snapshot("x"))};
  const SnapshotAllocations all = allocations_of(scenario);
  EXPECT_EQ(all.time, (TimeRange{.begin = 100'000, .end = 141'000})) << "600 us less 500";
}

TEST(SnapshotGrowthTable, ComparesTwoSnapshotsByFrame) {
  const ScenarioPointer one = snapshot_scenario("one", 500), two = snapshot_scenario("two", 2000);
  const auto places = snapshot_places(one, two);
  ASSERT_EQ(places.size(), 2u);
  EXPECT_EQ(places[1].label, "two.pickle, device 0") << "the file says it already";
  const ColumnTable by_frame =
      growth_table(places[0], places[1], ComparedInstant::end, GrowthBy::frame);
  ASSERT_EQ(by_frame.rows, 1u);
  EXPECT_EQ(by_frame.find("growth")->numbers[0], 1500) << "3,000 less 1,500";
  const ColumnTable by_size =
      growth_table(places[0], places[1], ComparedInstant::end, GrowthBy::frame_and_size);
  EXPECT_THAT(by_size.find("growth")->numbers, ::testing::ElementsAre(2000, 0, -500));
  // At its peak the first has 1,000 + 1,000, before 500 come.
  EXPECT_EQ(growth_table(places[0], places[1], ComparedInstant::peak, GrowthBy::frame)
                .find("before")
                ->numbers[0],
            2000);
}

/// A recording of FSDP1 with frames of C++, which is not part of the repository: cuBLAS asks for 32
/// MiB again and again, in forward and in backward.
TEST(SnapshotAllocations, WorkspacesOfCublasAreWorkspaceInARecording) {
  const std::filesystem::path file =
      SOURCE_ROOT "/../shared/data/pytorch/snapshots/fsdp1-gpt2-cpp-frames.pickle.gz";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << file << " is not there";
  Imported imported = import_files(file);
  auto scenario = std::make_shared<Scenario>();
  scenario->profiled = Side{.kind = SideKind::profiled};
  scenario->profiled->snapshots = {
      std::make_shared<const MemorySnapshot>(std::move(imported.snapshots.at(0)))};
  const SnapshotAllocations all = allocations_of(scenario);
  ASSERT_FALSE(all.blocks.empty());
  EXPECT_EQ(all.blocks.front().size, Bytes{32 << 20});
  for (const SnapshotAllocation& block : all.blocks) {
    if (block.size < Bytes{32 << 20}) break;
    EXPECT_EQ(band_name(block.band), "workspace");
  }
}

/// What PyTorch itself recorded: blocks that are alive at the end are those of its segments.
TEST(SnapshotAllocations, OfRecordingsEndWithTheBlocksOfTheirSegments) {
  namespace fs = std::filesystem;
  std::size_t compared = 0;
  for (const auto& entry : fs::directory_iterator(SOURCE_ROOT "/tests/data/snapshots")) {
    if (entry.path().string().find(".pickle") == std::string::npos) continue;
    Imported imported = import_files(entry.path());
    if (imported.snapshots.empty()) continue;
    auto scenario = std::make_shared<Scenario>();
    scenario->profiled = Side{.kind = SideKind::profiled};
    scenario->profiled->snapshots = {
        std::make_shared<const MemorySnapshot>(std::move(imported.snapshots[0]))};
    for (const SnapshotPlace& place : snapshot_places(scenario, nullptr)) {
      const MemorySnapshot& snapshot = place.snapshot();
      if (!replay(snapshot, place.source.device).agrees_with_segments()) continue;
      const SnapshotAllocations all = snapshot_allocations(place, {.a = scenario});
      Bytes alive, in_segments;
      for (const SnapshotAllocation& block : all.blocks)
        if (block.is_alive_at_end) alive += block.size;
      for (const SnapshotSegment& segment : snapshot.segments)
        if (segment.device == place.source.device)
          for (const SnapshotBlock& block : snapshot.blocks_of(segment))
            if (block.state != SnapshotBlockState::inactive) in_segments += block.requested;
      EXPECT_EQ(alive, in_segments) << entry.path();
      ++compared;
    }
  }
  EXPECT_GT(compared, 0u);
}

}  // namespace
}  // namespace shardscope::gui
