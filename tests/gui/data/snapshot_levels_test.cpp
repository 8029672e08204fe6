#include "gui/data/snapshot_levels.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>

#include "gui/data/live_set.h"
#include "traces/import/import.h"
#include "traces/import/snapshot_replay.h"

namespace shardscope::gui {
namespace {

ScenarioPointer scenario_of(const std::filesystem::path& file) {
  Imported imported = import_files(file);
  auto scenario = std::make_shared<Scenario>();
  Side side{.kind = SideKind::profiled};
  for (MemorySnapshot& snapshot : imported.snapshots)
    side.snapshots.push_back(std::make_shared<const MemorySnapshot>(std::move(snapshot)));
  scenario->profiled = std::move(side);
  return scenario;
}

/// Recorded by PyTorch, a few hundred events at most each.
std::vector<std::filesystem::path> recorded() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(SOURCE_ROOT "/tests/data/snapshots"))
    if (entry.path().string().find(".pickle") != std::string::npos) files.push_back(entry.path());
  return files;
}

/// Of a recording that was off for a while, two blocks of one address are taken to have been there
/// before the first event.
bool is_complete(const MemorySnapshot& snapshot, std::int64_t device) {
  Bytes before;
  for (const LiveBlock& block : live_blocks(snapshot, device, -1)) before += block.size;
  return before == replay(snapshot, device).baseline.totals.active;
}

TEST(SnapshotLevels, HaveALevelForEveryEventAndOneBefore) {
  for (const auto& file : recorded()) {
    const auto scenario = scenario_of(file);
    for (const MemorySource& source : memory_sources(*scenario->profiled)) {
      const MemorySnapshot& snapshot = *scenario->profiled->snapshots[source.index];
      const SnapshotEvents* events = snapshot.events_of(source.device);
      const MemoryLevels levels = memory_levels(*scenario->profiled, source);
      ASSERT_EQ(levels.levels.size(), 1 + (events == nullptr ? 0 : events->count())) << file;
      for (std::size_t i = 2; i < levels.levels.size(); ++i)
        ASSERT_LT(levels.levels[i - 1].begin, levels.levels[i].begin) << file << ", level " << i;
    }
  }
}

TEST(SnapshotLevels, AddUpToTheActiveBytesOfTheReplay) {
  for (const auto& file : recorded()) {
    const auto scenario = scenario_of(file);
    for (const MemorySource& source : memory_sources(*scenario->profiled)) {
      const SnapshotReplay played =
          replay(*scenario->profiled->snapshots[source.index], source.device);
      const MemoryLevels levels = memory_levels(*scenario->profiled, source);
      for (std::size_t i = 0; i < levels.levels.size(); ++i) {
        const SnapshotTotals totals = played.totals_after(static_cast<std::int64_t>(i) - 1);
        ASSERT_EQ(levels.levels[i].bytes.total(), totals.active) << file << ", level " << i;
        ASSERT_EQ(levels.levels[i].reserved, totals.reserved) << file << ", level " << i;
      }
    }
  }
}

TEST(SnapshotLevels, AreTheBlocksThatAreAliveThen) {
  int complete = 0;
  for (const auto& file : recorded()) {
    const auto scenario = scenario_of(file);
    for (const MemorySource& source : memory_sources(*scenario->profiled)) {
      if (!is_complete(*scenario->profiled->snapshots[source.index], source.device)) continue;
      ++complete;
      const MemoryLevels levels = memory_levels(*scenario->profiled, source);
      const std::size_t step = 1 + levels.levels.size() / 40;
      for (std::size_t i = 0; i < levels.levels.size(); i += step) {
        const LiveSet set = live_set(*scenario, source, levels.levels[i]);
        ASSERT_EQ(set.unlisted, BandBytes{}) << file << ", level " << i;
      }
    }
  }
  EXPECT_GT(complete, 0);
}

TEST(SnapshotLevels, OfATimelineTemporariesAreTwoOfPyTorchsCategories) {
  MemoryTimeline timeline;
  const auto row = [&](std::int64_t time, std::int64_t bytes, TimelineCategory category) {
    timeline.rows.time_ns.push_back(time);
    timeline.rows.bytes.push_back(bytes);
    timeline.rows.action.push_back(TimelineAction::create);
    timeline.rows.category.push_back(category);
  };
  row(-1, 100, TimelineCategory::parameter);
  row(5000, 7, TimelineCategory::temporary);
  row(9000, 5, TimelineCategory::autograd_detail);
  const MemoryLevels levels = timeline_levels(timeline);
  ASSERT_EQ(levels.levels.size(), 3u);
  EXPECT_EQ(levels.levels[2].begin, 4000) << "since the first time";
  EXPECT_EQ(levels.levels[2].bytes[static_cast<std::size_t>(MemoryCategory::temporaries)],
            Bytes{12});
  EXPECT_EQ(levels.levels[2].bytes.total(), Bytes{112});
}

}  // namespace
}  // namespace shardscope::gui
