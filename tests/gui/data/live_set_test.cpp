#include "gui/data/live_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "gui/data/live_tree.h"
#include "tests/gui/memory_scenarios.h"

namespace shardscope::gui {
namespace {

using shardscope::testing::memory_scenario;
using ::testing::ElementsAre;

MemorySource source_of(const Scenario& scenario, SideKind kind) {
  return memory_sources(*scenario.side(kind)).front();
}

std::vector<std::string> names_of(const std::vector<LiveBuffer>& buffers) {
  std::vector<std::string> names;
  for (const LiveBuffer& buffer : buffers) names.push_back(buffer.name);
  return names;
}

TEST(LiveSet, OfEveryLevelAddsUpToItsBands) {
  const auto scenario = memory_scenario("one");
  for (const SideKind kind : {SideKind::predicted, SideKind::profiled}) {
    const MemorySource source = source_of(*scenario, kind);
    const MemoryLevels levels = memory_levels(*scenario->side(kind), source);
    ASSERT_EQ(levels.levels.size(), 5u);
    for (const MemoryLevel& level : levels.levels) {
      const LiveSet set = live_set(*scenario, source, level);
      EXPECT_EQ(set.unlisted, BandBytes{}) << "at " << level.begin;
      Bytes sum;
      for (const LiveBuffer& buffer : set.buffers) sum += buffer.bytes;
      EXPECT_EQ(sum, level.bytes.total());
    }
  }
}

TEST(LiveSet, ABufferIsAliveFromItsAllocatorToTheEndOfWhatFreesIt) {
  const auto scenario = memory_scenario("one");
  const MemorySource source = source_of(*scenario, SideKind::predicted);
  const MemoryLevels levels = memory_levels(*scenario->predicted, source);
  // Before the step, then operations 0, 1, 2 and the end of the step.
  EXPECT_THAT(names_of(live_set(*scenario, source, levels.levels[0]).buffers),
              ElementsAre("weights"));
  EXPECT_THAT(names_of(live_set(*scenario, source, levels.levels[2]).buffers),
              ElementsAre("activation", "gathered", "weights"))
      << "by falling size";
  EXPECT_THAT(names_of(live_set(*scenario, source, levels.levels[3]).buffers),
              ElementsAre("activation", "gradient", "weights"));
  EXPECT_THAT(names_of(live_set(*scenario, source, levels.levels[4]).buffers),
              ElementsAre("weights"));
}

TEST(LiveSet, SaysWhoAllocatesAndWhoFrees) {
  const auto scenario = memory_scenario("one");
  const MemorySource source = source_of(*scenario, SideKind::predicted);
  const MemoryLevels levels = memory_levels(*scenario->predicted, source);
  const LiveSet set = live_set(*scenario, source, levels.levels[2]);
  EXPECT_EQ(set.buffers[1].allocated_by, "all_gather (0)");
  EXPECT_EQ(set.buffers[1].freed_by, "forward (1)");
  EXPECT_EQ(set.buffers[2].allocated_by, "before the step");
  EXPECT_EQ(set.buffers[2].freed_by, "never");
}

TEST(LiveSet, WhatAnAllocatorRoundsUpIsNotListed) {
  const auto scenario = memory_scenario("one");
  const MemorySource source = source_of(*scenario, SideKind::predicted);
  MemoryLevel level = memory_levels(*scenario->predicted, source).levels[2];
  level.bytes[3] += Bytes{24};  // activations
  const LiveSet set = live_set(*scenario, source, level);
  EXPECT_EQ(set.unlisted.total(), Bytes{24});
  EXPECT_EQ(set.unlisted[3], Bytes{24});
}

TEST(LiveSet, ATurnAfterTheFreeingIsToldFromThatBefore) {
  const auto scenario = memory_scenario("one");
  const MemorySource source = source_of(*scenario, SideKind::predicted);
  MemoryLevel level = memory_levels(*scenario->predicted, source).levels[2];
  level.bytes[0] -= Bytes{2000};  // operation 1 has let go of what was gathered
  const LiveSet set = live_set(*scenario, source, level);
  EXPECT_THAT(names_of(set.buffers), ElementsAre("activation", "weights"));
  EXPECT_EQ(set.unlisted, BandBytes{});
}

TEST(LiveSet, NewFreedAndCommonPartitionBothSets) {
  std::mt19937 random(11);
  for (int round = 0; round < 50; ++round) {
    LiveSet a, b;
    for (std::uint64_t key = 0; key < 40; ++key) {
      const LiveBuffer buffer{.key = key, .bytes = {static_cast<std::int64_t>(random() % 100)}};
      if (random() % 2) a.buffers.push_back(buffer);
      if (random() % 2) b.buffers.push_back(buffer);
    }
    const LiveChange change = change_between(a, b);
    EXPECT_EQ(change.fresh.size() + change.common.size(), b.buffers.size());
    EXPECT_EQ(change.freed.size() + change.common.size(), a.buffers.size());
    std::set<std::uint64_t> keys;
    for (const auto* list : {&change.fresh, &change.freed, &change.common})
      for (const LiveBuffer& buffer : *list) EXPECT_TRUE(keys.insert(buffer.key).second);
    Bytes sum_a, sum_b;
    for (const LiveBuffer& buffer : a.buffers) sum_a += buffer.bytes;
    for (const LiveBuffer& buffer : b.buffers) sum_b += buffer.bytes;
    EXPECT_EQ(change.freed_bytes + change.common_bytes, sum_a);
    EXPECT_EQ(change.fresh_bytes + change.common_bytes, sum_b);
  }
}

TEST(LiveSet, BetweenTwoOperationsTheBuffersThatCameAndWent) {
  const auto scenario = memory_scenario("one");
  const MemorySource source = source_of(*scenario, SideKind::profiled);
  const MemoryLevels levels = memory_levels(*scenario->profiled, source);
  const LiveChange change = change_between(live_set(*scenario, source, levels.levels[2]),
                                           live_set(*scenario, source, levels.levels[3]));
  EXPECT_THAT(names_of(change.fresh), ElementsAre("gradient"));
  EXPECT_THAT(names_of(change.freed), ElementsAre("gathered"));
  EXPECT_THAT(names_of(change.common), ElementsAre("activation", "weights"));
}

TEST(LiveSet, ByUnitTheDifferencesAddUpToThatOfTheTotals) {
  LiveSet a, b;
  a.buffers = {{.band = 0, .bytes = {100}, .unit = "layers.0"},
               {.band = 0, .bytes = {50}, .unit = "layers.0"},
               {.band = 3, .bytes = {7}, .unit = "layers.0"}};
  b.buffers = {{.band = 0, .bytes = {10}, .unit = "layers.1"}};
  b.unlisted[0] = {3};
  const auto rows = held_by_unit(a, b);
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0], (HeldByUnit{.band = 0, .unit = "layers.0", .a = {150}, .b = {0}}));
  EXPECT_EQ(rows[1].unit, "layers.1");
  EXPECT_FALSE(rows[3].is_listed);
  Bytes difference;
  for (const HeldByUnit& row : rows) difference += row.difference();
  EXPECT_EQ(difference, Bytes{13 - 157});
}

TEST(LiveTree, EveryLevelOfItAddsUpToTheSet) {
  const auto scenario = memory_scenario("one");
  const MemorySource source = source_of(*scenario, SideKind::predicted);
  MemoryLevel level = memory_levels(*scenario->predicted, source).levels[2];
  level.bytes[3] += Bytes{24};
  const LiveSet set = live_set(*scenario, source, level);
  const LiveTree tree = live_tree(set);
  EXPECT_EQ(tree.nodes[0].bytes, set.total());
  for (const LiveTree::Node& node : tree.nodes) {
    if (node.child_count == 0) continue;
    Bytes sum;
    for (std::uint32_t i = 0; i < node.child_count; ++i) {
      EXPECT_EQ(tree.nodes[node.first_child + i].row, i);
      sum += tree.nodes[node.first_child + i].bytes;
    }
    EXPECT_EQ(sum, node.bytes) << node.text;
  }
  EXPECT_EQ(tree.nodes[1].text, "activations") << "the largest first";
}

TEST(LiveTree, ASearchLeavesWhatIsWanted) {
  const auto scenario = memory_scenario("one");
  const MemorySource source = source_of(*scenario, SideKind::predicted);
  const LiveSet set =
      live_set(*scenario, source, memory_levels(*scenario->predicted, source).levels[2]);
  EXPECT_EQ(live_tree(set, "GATHERED").nodes[0].bytes, Bytes{2000});
  EXPECT_EQ(live_tree(set, "activations").nodes[0].bytes, Bytes{3000}) << "a category";
  EXPECT_EQ(live_tree(set, "nowhere").nodes.size(), 1u);
}

}  // namespace
}  // namespace shardscope::gui
