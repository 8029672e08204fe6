#include "cli/plan_larger.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace shardscope {
namespace {

using planner::Choice;
using planner::Outcome;
using planner::Reason;

constexpr int most_doublings = 7;

const Outcome* nearest(const std::vector<Outcome>& outcomes) {
  const Outcome* result = nullptr;
  for (const Outcome& outcome : outcomes)
    if (outcome.reason == Reason::out_of_memory && (!result || outcome.memory < result->memory))
      result = &outcome;
  return result;
}

/// What needs least: one sequence at a time, every block run again, all sharded.
bool is_frugal(const Choice& choice) {
  return choice.batch == 1 && choice.checkpointing == eager::CheckpointChoice{.every = 1} &&
         choice.sharding == ShardingStrategy::full_shard;
}

/// Something that fits on `factor` times as many ranks, each with as many sequences as now.
std::optional<std::string> on_more_ranks(const PlanInputs& inputs,
                                         const planner::TrialInputs& planning, int factor) {
  planner::Question question = inputs.question;
  question.world *= factor;
  question.tokens_per_batch *= factor;
  std::vector<Choice> choices = planner::enumerate(inputs.model, question).choices;
  std::erase_if(choices, [](const Choice& choice) { return !is_frugal(choice); });
  if (choices.empty()) return std::nullopt;
  const planner::SearchResult found =
      planner::search(choices, planning, {.objective = planner::Objective::memory, .places = 1});
  if (found.ranked.empty()) return std::nullopt;
  const planner::Ranked& best = found.ranked.front();
  return fmt::format("--world {} would do: {} needs {}", question.world,
                     planner::text_of(choices[best.choice]),
                     rounded_text(best.full.reserved + best.full.outside));
}

}  // namespace

std::vector<std::string> advice_where_nothing_fits(const PlanInputs& inputs,
                                                   const std::vector<Choice>& choices,
                                                   const std::vector<Outcome>& outcomes,
                                                   const planner::TrialInputs& planning) {
  std::vector<std::string> advice;
  if (const Outcome* least = nearest(outcomes)) {
    const Bytes device = inputs.hardware.profile.memory, margin = inputs.margin.value_or(Bytes{});
    if (least->memory <= device) {
      advice.push_back(
          fmt::format("nearest: {} needs {} of {} and leaves less than the margin of "
                      "{}; --margin 0 ranks such choices",
                      planner::text_of(choices[least->choice]), rounded_text(least->memory),
                      rounded_text(device), rounded_text(margin)));
    } else {
      advice.push_back(fmt::format("nearest: {} needs {} of the {} that a device has: {} too much",
                                   planner::text_of(choices[least->choice]),
                                   rounded_text(least->memory), rounded_text(device),
                                   rounded_text(least->memory - device)));
    }
  }
  if (std::none_of(choices.begin(), choices.end(), is_frugal)) {
    advice.emplace_back(
        "nothing that was asked for shards the parameters: --runtime fsdp2 and deepspeed do");
    return advice;
  }
  for (int doubling = 1; doubling <= most_doublings; ++doubling)
    if (const auto line = on_more_ranks(inputs, planning, 1 << doubling)) {
      advice.push_back(*line);
      return advice;
    }
  advice.push_back(
      fmt::format("up to --world {} nothing fits: a smaller model, a shorter --seq, or "
                  "devices with more memory",
                  inputs.question.world << most_doublings));
  return advice;
}

}  // namespace shardscope
