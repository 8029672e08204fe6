#include "gui/data/flame_picture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gui/data/open_imported.h"
#include "tests/gui/scenarios.h"

namespace shardscope::gui {
namespace {

using Amounts = FlameNode::Amounts;
using shardscope::testing::small_scenario;

std::map<std::string, Amounts> amounts_of(const FlameTree& tree) {
  std::map<std::string, Amounts> amounts;
  for (std::uint32_t i = 0; i < tree.nodes.size(); ++i)
    amounts[tree.path_of(i)] = tree.nodes[i].whole;
  return amounts;
}

TEST(FlamePicture, HasTheTimeOfBothSidesByPhaseAndUnit) {
  // Predicted 60 us of compute and 60 of all_gather, profiled 1.25 times as long.
  const FlamePicture picture = flame_picture({.scenario = small_scenario("one", 1.25)});
  EXPECT_EQ(picture.runs[0].title, "predicted");
  EXPECT_EQ(picture.runs[1].title, "profiled");
  EXPECT_THAT(
      amounts_of(picture.tree),
      ::testing::UnorderedElementsAre(
          std::pair("", Amounts{120'000, 150'000}), std::pair("forward", Amounts{120'000, 150'000}),
          std::pair("forward / layers.0", Amounts{60'000, 75'000}),
          std::pair("forward / layers.0 / forward", Amounts{60'000, 75'000}),
          std::pair("forward / layers.1", Amounts{60'000, 75'000}),
          std::pair("forward / layers.1 / all_gather", Amounts{60'000, 75'000})));
  EXPECT_EQ(picture.table->rows, 5u);
  EXPECT_EQ(picture.table->find("difference")->numbers[0], -30'000);
}

TEST(FlamePicture, HasAWhatIfBesideBothSides) {
  const FlamePicture picture =
      flame_picture({.scenario = small_scenario("one", 1.25), .ghost = small_scenario("tried", 1)});
  EXPECT_EQ(picture.runs[2].title, "what-if");
  EXPECT_EQ(picture.tree.nodes[0].whole, (Amounts{120'000, 150'000, 120'000}));
}

TEST(FlamePicture, HasAAndBOfOneSide) {
  const FlamePicture picture =
      flame_picture({.scenario = small_scenario("one", 1.25), .other = small_scenario("two", 2)});
  EXPECT_EQ(picture.runs[0].title, "A: one, profiled");
  EXPECT_EQ(picture.tree.nodes[0].whole, (Amounts{150'000, 240'000}));
}

TEST(FlamePicture, HasTheBuffersAtThePeakByCategoryAndUnit) {
  auto scenario = std::make_shared<Scenario>(*small_scenario("one", 1));
  // At the peak 10 MiB of parameters and 5 of activations are alive; 1 MiB of these has no record.
  scenario->predicted->buffers = {{.name = "layers.0.weight",
                                   .unit = "layers.0",
                                   .category = MemoryCategory::parameters,
                                   .bytes = {10 << 20}},
                                  {.name = "forward layers.0",
                                   .unit = "layers.0",
                                   .category = MemoryCategory::activations,
                                   .bytes = {4 << 20},
                                   .allocated_by = {1}}};
  const FlamePicture picture = flame_picture({.scenario = scenario, .of = FlameOf::memory});
  const auto amounts = amounts_of(picture.tree);
  const std::int64_t mib = 1 << 20;
  EXPECT_EQ(amounts.at(""), (Amounts{15 * mib, 15 * mib}));
  EXPECT_EQ(amounts.at("parameters / layers.0 / weight"), (Amounts{10 * mib, 10 * mib}));
  EXPECT_EQ(amounts.at("activations / layers.0 / forward"), (Amounts{4 * mib, 4 * mib}));
  EXPECT_EQ(amounts.at("activations / rounding, and what has no record"), (Amounts{mib, mib}));
}

TEST(FlamePicture, SaysWhyThereIsNone) {
  EXPECT_EQ(flame_picture({}).problem, "Nothing is open");
  auto empty = std::make_shared<Scenario>();
  EXPECT_EQ(flame_picture({.scenario = empty, .of = FlameOf::memory}).problem,
            "No memory over time is known");
}

TEST(FlamePicture, OfAnImportedTraceHasItsScopes) {
  const auto opened = open_imported(std::string(SOURCE_ROOT) + "/tests/data/kineto/fsdp1_gpt2");
  const FlamePicture picture = flame_picture({.scenario = opened.at(0)});
  EXPECT_FALSE(picture.tree.empty()) << picture.problem;
}

// Whole, the paths would have 4 * 12,000 * 12,000 / 2 = 288 MB of text.
TEST(FlamePicture, CutsThePathsOfItsTableWhereTheyAreVeryLong) {
  constexpr int levels = 12'000;
  auto scenario = std::make_shared<Scenario>(*small_scenario("one", 1));
  Trace trace = *scenario->predicted->ranks[0];
  std::string module = "a";
  for (int i = 1; i < levels; ++i) module += ".a";
  trace.facts[0].module = static_cast<std::uint32_t>(trace.names.size());
  trace.names.push_back(module);
  scenario->predicted->ranks = {std::make_shared<const Trace>(trace)};
  const FlamePicture picture = flame_picture({.scenario = scenario});
  const Column& paths = *picture.table->find("path");
  ASSERT_GT(picture.table->rows, static_cast<std::size_t>(levels));
  std::size_t longest = 0;
  for (const std::string& path : paths.words) longest = std::max(longest, path.size());
  EXPECT_LT(longest, 6'000u) << "64 MiB of 12,000 paths are 5,592 bytes each";
  const std::string& deepest = paths.words[paths.codes.back()];
  EXPECT_TRUE(deepest.starts_with("... ")) << deepest.substr(0, 20);
  EXPECT_TRUE(deepest.ends_with(" / a / forward layers.0"));
}

/// forward 30 of the first run and 60 of the second, in it mm 20 and 60; backward 10 and 0.
FlameTree small_tree() {
  return flame_tree(
      std::vector<FlameStack>{{{"forward", "mm"}, 20}, {{"forward"}, 10}, {{"backward"}, 10}},
      std::vector<FlameStack>{{{"forward", "mm"}, 60}});
}

TEST(FlameBoxes, HaveOneScaleForBothRuns) {
  const FlameTree tree = small_tree();
  // 40 and 60 in all: the second run fills the width.
  EXPECT_EQ(flame_boxes(tree, 1, 0, 0), (std::vector<FlameBox>{{0, 0, 1}, {1, 0, 1}, {3, 0, 1}}));
  const std::vector<FlameBox> first = flame_boxes(tree, 0, 0, 0);
  ASSERT_EQ(first.size(), 4u);
  EXPECT_DOUBLE_EQ(first[0].width, 40. / 60);
  EXPECT_DOUBLE_EQ(first[2].left, 30. / 60) << "backward behind forward";
  EXPECT_DOUBLE_EQ(first[3].width, 20. / 60);
  EXPECT_EQ(flame_boxes(tree, 0, 0, 0.2).size(), 3u) << "backward is 10 / 60 wide";
  EXPECT_DOUBLE_EQ(flame_boxes(tree, 0, 0, 0, FlameScale::own)[0].width, 1);
}

TEST(FlameBoxes, OfAZoomHaveWhatIsAroundItAsWide) {
  const FlameTree tree = small_tree();
  const std::vector<FlameBox> boxes = flame_boxes(tree, 0, 3, 0);
  ASSERT_EQ(boxes.size(), 3u);
  for (const FlameBox& box : boxes) EXPECT_DOUBLE_EQ(box.width, 20. / 60);
  EXPECT_TRUE(flame_boxes(tree, 1, 2, 0).empty()) << "the second run has no backward";
}

TEST(FlameMatches, CountWhatLiesInAnotherOnce) {
  const FlameTree tree = flame_tree(
      std::vector<FlameStack>{{{"h.0", "attn", "h_proj"}, 5}, {{"h.1"}, 7}, {{"loss"}, 100}});
  const FlameMatches matches = flame_matches(tree, "H");
  EXPECT_EQ(matches.nodes.size(), 3u);
  EXPECT_EQ(matches.amounts, (Amounts{12, 0}));
  EXPECT_TRUE(flame_matches(tree, "").nodes.empty());
}

TEST(SameNode, IsTheNearestThatIsThere) {
  const FlameTree from = small_tree();
  const FlameTree to = flame_tree(std::vector<FlameStack>{{{"zero"}, 99}, {{"forward"}, 1}});
  EXPECT_EQ(to.nodes[same_node(from, 3, to)].name, "forward");
  EXPECT_EQ(same_node(from, 2, to), 0u);
}

}  // namespace
}  // namespace shardscope::gui
