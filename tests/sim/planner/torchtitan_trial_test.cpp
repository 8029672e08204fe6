// Trials of torchtitan's pipelines: what is known of a rank is known of every layout that has it,
// and what ends a trial early does not fit when it is played whole.
#include "sim/planner/torchtitan_trial.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "sim/engine/rehearse.h"
#include "sim/planner/estimate.h"
#include "sim/planner/torchtitan_pipeline.h"
#include "sim/prediction/outside_memory.h"
#include "tests/sim/planner/plan_of_groups.h"

namespace shardscope::planner {
namespace {

constexpr std::array first_step{"1"};

/// Pipelines of 8 blocks on 8 devices, so many of each schedule, drawn at random.
std::vector<Choice> drawn_pipelines(const Inputs& inputs, std::size_t of_each) {
  std::vector<Choice> all = choices_of(inputs, inputs.question.world).choices;
  std::mt19937 random(5);
  std::ranges::shuffle(all, random);
  std::map<PipelineScheduleKind, std::size_t> count;
  std::vector<Choice> drawn;
  for (const Choice& choice : all)
    if (is_pipelined(choice) && count[choice.pipeline.schedule]++ < of_each)
      drawn.push_back(choice);
  return drawn;
}

struct Rows {
  Bytes allocated, reserved;
  std::size_t actions = 0;
  bool operator==(const Rows&) const = default;
};

Rows rows_of(Choice choice, std::vector<int> layers, int rank, const TrialInputs& inputs) {
  choice.pipeline.layers = std::move(layers);
  const Schedule schedule =
      schedule_of_rank(torchtitan_pipeline(choice, inputs), rank, {.steps = first_step});
  return {.allocated = allocated_peak(schedule),
          .reserved = rehearse(schedule, inputs.profile).reserved,
          .actions = schedule.program.actions.size()};
}

// Of 8 blocks on 4 ranks rank 1 has 2 both times, the third and fourth block or the second and
// third one.
TEST(RanksOfTorchtitan, NeedWhatTheirOwnStagesNeed) {
  const Inputs inputs = tight_pipelines();
  const Basis basis(inputs);
  int compared = 0;
  for (const Choice& choice : drawn_pipelines(inputs, 60)) {
    if (choice.mesh.pipeline != 4 || choice.pipeline.stages_per_rank != 1) continue;
    const Rows one = rows_of(choice, {2, 2, 2, 2}, 1, basis.trials);
    EXPECT_EQ(one, rows_of(choice, {1, 2, 3, 2}, 1, basis.trials)) << text_of(choice);
    EXPECT_NE(one, rows_of(choice, {1, 3, 2, 2}, 1, basis.trials)) << text_of(choice);
    if (++compared == 12) break;
  }
  EXPECT_EQ(compared, 12);
}

/// With nothing that other trials have found.
Trial tried_alone(const Choice& choice, TrialInputs inputs) {
  Findings none(inputs.model, inputs.config, inputs.training);
  inputs.findings = &none;
  return try_torchtitan(choice, inputs);
}

// Layouts of a group are tried one after the other, with what is known of the ranks of those
// before, and each by itself.
TEST(TorchtitanTrials, SayTheSameWithWhatIsKnownOfRanks) {
  Inputs inputs = tight_pipelines();
  inputs.question.all_layouts = true;
  const Basis basis(inputs);
  std::vector<LayoutGroup> groups = choices_of(inputs, inputs.question.world).groups;
  std::mt19937 random(3);
  std::ranges::shuffle(groups, random);
  int fit = 0, unfit = 0, opened = 0;
  for (const LayoutGroup& group : groups) {
    if (!is_pipelined(group.common) || opened == 6) continue;
    ++opened;
    for (std::size_t i = 0; i < std::min<std::size_t>(6, group.size()); ++i) {
      const Choice choice = group.member(i);
      const Trial with = try_torchtitan(choice, basis.trials);
      const Trial without = tried_alone(choice, basis.trials);
      EXPECT_EQ(with.is_part, without.is_part) << text_of(choice);
      ++(with.is_part ? unfit : fit);
      if (with.is_part) continue;
      EXPECT_EQ(with.time.span, without.time.span) << text_of(choice);
      EXPECT_EQ(with.needed(), without.needed()) << text_of(choice);
    }
  }
  EXPECT_GT(fit, 3);
  EXPECT_GT(unfit, 5);
}

/// Whether a rank does not fit when both steps of all micro-batches are played.
bool is_beyond_memory(const Choice& choice, const TrialInputs& inputs) {
  static constexpr std::array both{"1", "steady"};
  const TorchtitanPipeline pipeline = torchtitan_pipeline(choice, inputs);
  for (int rank = 0; rank < choice.mesh.pipeline; ++rank) {
    const Schedule schedule = schedule_of_rank(pipeline, rank, {.steps = both});
    const Bytes outside = outside_bytes(schedule, inputs.profile);
    const Rehearsal rehearsal =
        rehearse(schedule, inputs.profile,
                 {.settings = inputs.allocator,
                  .memory = DeviceCapacity{.total = inputs.profile.memory, .outside = outside}});
    if (rehearsal.out_of_memory ||
        rehearsal.reserved + outside + inputs.margin > inputs.profile.memory)
      return true;
  }
  return false;
}

// A part of a step is played, a whole step, or few micro-batches.
TEST(TorchtitanTrials, EndEarlyOnlyWhereTheWholeDoesNotFit) {
  const Inputs inputs = tight_pipelines();
  const Basis basis(inputs);
  int unfit = 0;
  for (const Choice& choice : drawn_pipelines(inputs, 8)) {
    const Trial trial = try_torchtitan(choice, basis.trials);
    if (!trial.is_part) continue;
    EXPECT_TRUE(is_beyond_memory(choice, basis.trials)) << text_of(choice);
    ++unfit;
  }
  EXPECT_GT(unfit, 15);
}

}  // namespace
}  // namespace shardscope::planner
