#include "sim/planner/answer/nothing_fits.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace shardscope::planner {
namespace {

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

std::string distance(const Outcome& least, const Choice& choice, const TrialInputs& inputs) {
  const Bytes device = inputs.profile.memory;
  if (least.memory <= device)
    return fmt::format(
        "nearest: {} needs {} of {} and leaves less than the margin of "
        "{}; --margin 0 ranks such choices",
        text_of(choice), rounded_text(least.memory), rounded_text(device),
        rounded_text(inputs.margin));
  return fmt::format("nearest: {} needs {} of the {} that a device has: {} too much",
                     text_of(choice), rounded_text(least.memory), rounded_text(device),
                     rounded_text(least.memory - device));
}

const Outcome* fastest_too_slow(const std::vector<Outcome>& outcomes) {
  const Outcome* result = nullptr;
  for (const Outcome& outcome : outcomes)
    if (outcome.reason == Reason::too_slow && (!result || outcome.time < result->time))
      result = &outcome;
  return result;
}

/// Something that fits on `factor` times as many ranks, each with as many sequences as now.
std::optional<std::string> on_more_ranks(const Basis& basis, int factor,
                                         const std::stop_token& stop) {
  Question question = basis.inputs.question;
  question.world *= factor;
  question.tokens_per_batch *= factor;
  question.pipelines = false;  // which keep whole layers
  std::vector<Choice> choices = enumerate(basis.inputs.model, question).choices;
  std::erase_if(choices, [](const Choice& choice) { return !is_frugal(choice); });
  if (choices.empty()) return std::nullopt;
  const SearchResult found =
      search(choices, basis.trials, {.objective = Objective::memory, .places = 1, .stop = stop});
  if (found.ranked.empty()) return std::nullopt;
  const Ranked& best = found.ranked.front();
  return fmt::format("--world {} would do: {} needs {}", question.world,
                     text_of(choices[best.choice]),
                     rounded_text(best.full.reserved + best.full.outside));
}

/// The least ranks that would do, or that none of those looked at do; none after a stop.
std::optional<std::string> on_enough_ranks(const Basis& basis, const std::stop_token& stop) {
  for (int doubling = 1; doubling <= most_doublings; ++doubling)
    if (const auto line = on_more_ranks(basis, 1 << doubling, stop)) return line;
  if (stop.stop_requested()) return std::nullopt;
  return fmt::format(
      "up to --world {} nothing fits: a smaller model, a shorter --seq, or "
      "devices with more memory",
      basis.inputs.question.world << most_doublings);
}

}  // namespace

std::vector<std::string> advice_where_nothing_fits(const Weighed& weighed, const Basis& basis,
                                                   const std::stop_token& stop) {
  const auto is_refused = [](const Outcome& outcome) { return outcome.reason == Reason::refused; };
  if (!weighed.others.empty() && std::ranges::all_of(weighed.others, is_refused))
    return {fmt::format("every strategy is refused. The first refusal: {}",
                        weighed.others.front().text)};
  std::vector<std::string> advice;
  if (const Outcome* fastest = fastest_too_slow(weighed.others)) {
    const Choice& choice = weighed.choices[fastest->choice];
    return {fmt::format("nothing is fast enough: {} takes at least {} a step of the {} allowed",
                        text_of(choice), rounded_text(fastest->time),
                        allowed_step_text(basis.inputs, world_of(choice))),
            "more ranks (--world A..B), or allow more time"};
  }
  if (const Outcome* least = nearest(weighed.others))
    advice.push_back(distance(*least, weighed.choices[least->choice], basis.trials));
  if (std::ranges::none_of(weighed.choices, is_frugal))
    advice.emplace_back(
        "nothing that was asked for shards the parameters: --runtime fsdp2 and deepspeed do");
  else if (auto line = on_enough_ranks(basis, stop))
    advice.push_back(std::move(*line));
  return advice;
}

}  // namespace shardscope::planner
