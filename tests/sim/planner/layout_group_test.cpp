// Groups of torchtitan's layouts: their members, bounds that no member falls below, and the search
// that opens them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "core/native/pipeline_stages.h"
#include "sim/planner/answer/answer.h"
#include "sim/planner/answer/rounds.h"
#include "sim/planner/estimate.h"
#include "sim/planner/layout_group.h"
#include "tests/sim/planner/plan_of_groups.h"

namespace shardscope::planner {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<int> every(const std::vector<eager::CheckpointChoice>& choices) {
  std::vector<int> result;
  for (const eager::CheckpointChoice& choice : choices) result.push_back(choice.every);
  return result;
}

// Of 5 blocks every second are two, every third, fourth and fifth one.
// Of 6 and of 7 blocks: 3 and 3, 2 and 2, 1 and 1 (4, 5, 6), 0 and 1 (7).
TEST(SparseCheckpointings, AreThoseWithOtherNumbersOfBlocks) {
  EXPECT_THAT(every(sparse_checkpointings(std::vector{5, 5}, 2)), ElementsAre(2, 3));
  EXPECT_THAT(every(sparse_checkpointings(std::vector{6, 7}, 3)), ElementsAre(3, 4, 7));
  EXPECT_THAT(every(sparse_checkpointings(std::vector{1, 1}, 2)), IsEmpty());
}

// torchtitan 01db32e, generate_llm_fqn_per_model_part, of 16 layers and 4 stages. Embedding and
// output as one layer each: 18 over 4 are 5, 5, 4, 4, less one at either end. The output alone: 17
// are 5, 4, 4, 4, less one at the end.
TEST(LayerVariants, HaveEmbeddingAndOutputCountedAsLayers) {
  const Inputs inputs = plan_of_groups(16, 16);
  std::vector<std::vector<int>> lists;
  for (const LayoutVariant& variant : layer_variants(inputs.model, {}, 4)) {
    PipelineChoice dealt;
    dealt.balance = variant.balance;
    dealt.layers = variant.layers;
    lists.push_back(blocks_of_stages(inputs.model, dealt, 4, "--pipeline-stages"));
  }
  EXPECT_EQ(lists.front(), (std::vector{4, 4, 4, 4}));
  EXPECT_THAT(lists, Contains(std::vector{4, 5, 4, 3}));
  EXPECT_THAT(lists, Contains(std::vector{5, 4, 4, 3}));
  EXPECT_EQ(std::set(lists.begin(), lists.end()).size(), lists.size());
}

// No layout is counted twice, neither in two groups nor in a group and among the choices.
TEST(LayoutGroups, HaveWhatTheChoicesHaveNot) {
  const Inputs inputs = plan_of_groups(12, 32);
  const Enumeration all = choices_of(inputs, 8);
  ASSERT_FALSE(all.groups.empty());
  std::set<std::string> texts;
  for (const Choice& choice : all.choices) texts.insert(text_of(choice) + mesh_text(choice));
  std::size_t layouts = all.choices.size();
  for (const LayoutGroup& group : all.groups)
    for (std::size_t i = 0; i < group.size(); ++i, ++layouts)
      texts.insert(text_of(group.member(i)) + mesh_text(group.member(i)));
  EXPECT_EQ(texts.size(), layouts);
}

/// A member of each of so many groups, drawn at random.
std::vector<std::pair<LayoutGroup, Choice>> drawn_members(const Inputs& inputs, std::size_t count) {
  std::mt19937 random(11);
  std::vector<LayoutGroup> groups = choices_of(inputs, inputs.question.world).groups;
  std::ranges::shuffle(groups, random);
  if (groups.size() > count) groups.resize(count);
  std::vector<std::pair<LayoutGroup, Choice>> members;
  for (const LayoutGroup& group : groups)
    members.emplace_back(group, group.member(random() % group.size()));
  return members;
}

void expect_group_bounds_hold(const Inputs& inputs, std::size_t count) {
  const Basis basis(inputs);
  for (const auto& [group, member] : drawn_members(inputs, count)) {
    const Bounds of_group = group_floors(std::vector{group}, basis.trials, 1).front();
    const Bounds floor = floors_of(std::vector{member}, basis.trials, 1).front();
    const Bounds bounds = bounds_of(std::vector{member}, basis.trials, 1).front();
    const Trial trial = try_out(member, basis.trials);
    const std::string text = text_of(member);
    EXPECT_GT(of_group.time, Duration{}) << text;
    EXPECT_LE(of_group.time, floor.time) << text;
    EXPECT_LE(of_group.memory, floor.memory) << text;
    EXPECT_LE(floor.time, trial.time.span) << text;
    EXPECT_LE(floor.memory, trial.needed()) << text;
    EXPECT_LE(bounds.time, trial.time.span) << text;
    EXPECT_LE(bounds.memory, trial.needed()) << text;
  }
}

// By formula alone: of every member of every group, where updates and transfers count, too.
TEST(LayoutGroups, BoundsAreNoHigherThanFloorsOfAnyMember) {
  for (const int length : {128, 512, 4096}) {
    Inputs inputs = plan_of_groups(6, 16);
    inputs.question.precisions = {TrainingPrecision::bf16_mixed, TrainingPrecision::bf16,
                                  TrainingPrecision::fp32};
    inputs.question.training.length = length;
    inputs.question.tokens_per_batch = std::int64_t{16} * length;
    const Basis basis(inputs);
    const std::vector<LayoutGroup> groups = choices_of(inputs, 8).groups;
    ASSERT_FALSE(groups.empty());
    const std::vector<Bounds> of_groups = group_floors(groups, basis.trials, 0);
    for (std::size_t i = 0; i < groups.size(); ++i) {
      std::vector<Choice> members;
      for (std::size_t j = 0; j < groups[i].size(); ++j) members.push_back(groups[i].member(j));
      const std::vector<Bounds> floors = floors_of(members, basis.trials, 1);
      for (std::size_t j = 0; j < members.size(); ++j) {
        EXPECT_LE(of_groups[i].time, floors[j].time) << length << ": " << text_of(members[j]);
        EXPECT_LE(of_groups[i].memory, floors[j].memory) << length << ": " << text_of(members[j]);
      }
    }
  }
}

TEST(LayoutGroups, BoundsAreNoHigherThanTrialsOfMembers) {
  Inputs inputs = plan_of_groups(12, 32);
  inputs.profile.memory = {};
  expect_group_bounds_hold(inputs, 40);
}

// The host decides.
TEST(LayoutGroups, BoundsAreNoHigherThanTrialsOfMembersOnASlowHost) {
  Inputs inputs = plan_of_groups(8, 16);
  inputs.profile.memory = {};
  inputs.profile.host = HostCosts{.operation = Duration{50'000}, .view = {}, .backward = 0.5};
  expect_group_bounds_hold(inputs, 16);
}

/// The two best, by text and in their order, of a search over choices and groups.
std::vector<std::string> winners(const Inputs& inputs, bool screen) {
  const Basis basis(inputs);
  const Enumeration all = choices_of(inputs, inputs.question.world);
  const SearchResult found =
      search(all.choices, basis.trials,
             {.groups = all.groups, .places = 2, .kind = kind_of, .screen = screen});
  std::vector<std::string> texts;
  for (const Ranked& ranked : found.ranked)
    texts.push_back(text_of(ranked.choice < all.choices.size()
                                ? all.choices[ranked.choice]
                                : found.opened[ranked.choice - all.choices.size()]));
  return texts;
}

// Where every member is tried out, the same ones win: none that was left in its group.
TEST(LayoutGroups, TheSearchFindsWhatIsBestOfAll) {
  Inputs inputs = plan_of_groups(6, 8);
  inputs.profile.memory = 12_GiB;
  inputs.pipelines = PipelinesAsked::not_at_all;
  EXPECT_EQ(winners(inputs, true), winners(inputs, false));
}

// In memory in which a layout with every third block checkpointed fits.
TEST(LayoutGroups, AMemberOfAGroupMayWin) {
  Inputs inputs = plan_of_groups(12, 16);
  inputs.pipelines = PipelinesAsked::not_at_all;
  const Basis basis(inputs);
  const Enumeration all = choices_of(inputs, 8);
  // Without any checkpointed it does not.
  Choice none{.runtime = Runtime::fsdp2,
              .sharding = ShardingStrategy::full_shard,
              .mesh = {.shard = 8},
              .prefetch = Prefetch::pre,
              .batch = 2,
              .torchtitan = TorchtitanAxes{}};
  Choice third = none;
  third.checkpointing = {.every = 3};
  const Bytes with = try_out(third, basis.trials).needed();
  const Bytes without = try_out(none, basis.trials).needed();
  ASSERT_LT(with, without);
  inputs.profile.memory = (with + without) / 2;
  const Basis on_less(inputs);
  const auto best = [&](std::span<const LayoutGroup> groups) {
    return search(all.choices, on_less.trials, {.groups = groups, .places = 1, .kind = kind_of})
        .ranked.front()
        .trial.time.span;
  };
  EXPECT_LT(best(all.groups), best({}));
}

// Asked to stop when it first says how far it is, it opens no group, and counts all layouts.
TEST(LayoutGroups, AStoppedSearchOpensNone) {
  const Inputs inputs = plan_of_groups(12, 32);
  const Basis basis(inputs);
  const Enumeration all = choices_of(inputs, 8);
  std::size_t in_groups = 0;
  for (const LayoutGroup& group : all.groups) in_groups += group.size();
  std::stop_source source;
  const SearchResult stopped =
      search(all.choices, basis.trials,
             {.groups = all.groups,
              .kind = kind_of,
              .on_progress = [&](const Progress&) { source.request_stop(); },
              .stop = source.get_token()});
  EXPECT_TRUE(stopped.interrupted);
  EXPECT_THAT(stopped.opened, IsEmpty());
  EXPECT_EQ(stopped.in_groups, in_groups);
}

}  // namespace
}  // namespace shardscope::planner
