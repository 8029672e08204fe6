// A search says the same of every choice with any number of threads, also where pipelines of a kind
// are tried several at a time.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "sim/planner/answer/rounds.h"
#include "sim/planner/bounds.h"
#include "sim/planner/estimate.h"
#include "tests/sim/planner/plan_of_groups.h"

namespace shardscope::planner {
namespace {

std::vector<Choice> pipelines_of(const Inputs& inputs) {
  std::vector<Choice> choices = choices_of(inputs, inputs.question.world).choices;
  std::erase_if(choices, [](const Choice& choice) { return !is_rough(choice); });
  return choices;
}

std::string text_of(const Outcome& outcome) {
  return fmt::format("{} {} {} {} {} {}", name_of(outcome.reason), outcome.time.ns,
                     outcome.memory.count, outcome.is_estimate, outcome.is_least, outcome.text);
}

/// What a search says, a line for each choice.
std::vector<std::string> said(const SearchResult& result) {
  std::vector<std::string> lines;
  for (const Ranked& place : result.ranked)
    lines.push_back(fmt::format("place {} {} {} {}", place.choice, place.trial.time.span.ns,
                                place.trial.needed().count, place.full.reserved.count));
  for (const Outcome& outcome : result.others)
    lines.push_back(fmt::format("{} {}", outcome.choice, text_of(outcome)));
  lines.push_back(fmt::format("{} simulated", result.simulated));
  return lines;
}

SearchResult searched(const Inputs& inputs, const std::vector<Choice>& choices, unsigned threads) {
  const Basis basis(inputs);  // with findings of its own
  return search(choices, basis.trials, {.places = 3, .kind = kind_of, .threads = threads});
}

/// Of the kind that has most of them: pipelines that fit by their bounds, were tried with all
/// blocks, and did not fit.
std::size_t most_lost(const Inputs& inputs, const std::vector<Choice>& choices,
                      const SearchResult& result) {
  const Basis basis(inputs);
  const std::vector<Bounds> bounds = bounds_of(choices, basis.trials, 0);
  std::map<std::string, std::size_t> lost;
  for (const Outcome& outcome : result.others)
    if (outcome.reason == Reason::out_of_memory && !outcome.is_estimate &&
        bounds[outcome.choice].memory <= inputs.profile.memory)
      ++lost[kind_of(choices[outcome.choice])];
  std::size_t most = 0;
  for (const auto& [kind, count] : lost) most = std::max(most, count);
  return most;
}

// After three of a kind that did not fit, four are tried at a time.
TEST(SearchThreads, SayTheSame) {
  const Inputs inputs = tight_pipelines();
  const std::vector<Choice> choices = pipelines_of(inputs);
  const SearchResult alone = searched(inputs, choices, 1);
  EXPECT_GT(most_lost(inputs, choices, alone), 6U);
  ASSERT_FALSE(alone.ranked.empty());
  EXPECT_EQ(said(alone), said(searched(inputs, choices, 2)));
  EXPECT_EQ(said(alone), said(searched(inputs, choices, 8)));
}

}  // namespace
}  // namespace shardscope::planner
