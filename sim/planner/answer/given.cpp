#include "sim/planner/answer/given.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "sim/planner/answer/changes.h"
#include "sim/planner/training_choice.h"
#include "traces/memory_fit.h"

namespace shardscope::planner {
namespace {

Summary summary_of(const Given& given, const Inputs& inputs) {
  const PytorchTraining& training = given.training;
  Summary summary = predict(schedule_of(training, inputs.model, inputs.config), training,
                            inputs.model, inputs.profile)
                        .summary;
  summary.margin = inputs.margin;
  return summary;
}

/// Choices that `changes` settings apart from the given one lead to. Its file has no pipeline.
std::vector<Choice> neighbours(const Choice& given, const std::vector<Choice>& choices,
                               std::size_t changes) {
  std::vector<Choice> result;
  for (const Choice& choice : choices)
    if (runtime_name(choice) == runtime_name(given) && !is_pipelined(choice) &&
        changes_between(given, choice).size() == changes)
      result.push_back(choice);
  return result;
}

/// The fastest of those that fit; by the search, which drops most of them unsimulated.
std::optional<Choice> fastest(const std::vector<Choice>& choices, const TrialInputs& trials,
                              const std::stop_token& stop) {
  if (choices.empty()) return std::nullopt;
  const SearchResult found =
      search(choices, trials, {.places = 1, .stop = stop, .best_after_stop = false});
  if (found.ranked.empty()) return std::nullopt;
  return choices[found.ranked.front().choice];
}

bool is_better(const Summary& changed, const Summary& given) {
  constexpr double worth_a_change = 0.99;
  if (!leaves_margin(changed)) return false;
  return !given.fits || static_cast<double>(changed.step_time.ns) <
                            worth_a_change * static_cast<double>(given.step_time.ns);
}

/// The first choice, of those one and then two settings away, that is better.
void look_for_changes(const Choice& given, const std::vector<Choice>& choices, const Basis& basis,
                      const std::stop_token& stop, GivenPlace& place) {
  for (const std::size_t changes : {std::size_t{1}, std::size_t{2}}) {
    if (stop.stop_requested()) return;
    const auto found = fastest(neighbours(given, choices, changes), basis.trials, stop);
    if (!found) continue;
    Candidate changed = candidate_of(*found, basis);
    if (!is_better(changed.summary, place.summary)) continue;
    place.changes = changes_between(given, *found);
    place.changed = std::move(changed);
    return;
  }
}

}  // namespace

GivenPlace place_of(const Given& given, const std::vector<Choice>& choices, const Basis& basis,
                    const std::stop_token& stop) {
  const Choice choice = choice_of(given.training, basis.inputs.model);
  GivenPlace place{.name = given.name, .strategy = text_of(choice)};
  try {
    place.summary = summary_of(given, basis.inputs);
  } catch (const Error& error) {
    place.refused = error.what();
    return place;
  }
  look_for_changes(choice, choices, basis, stop, place);
  return place;
}

std::size_t faster_than(const GivenPlace& given, std::span<const Candidate> candidates) {
  return static_cast<std::size_t>(
      std::count_if(candidates.begin(), candidates.end(), [&](const Candidate& candidate) {
        return candidate.summary.step_time < given.summary.step_time;
      }));
}

}  // namespace shardscope::planner
