#include "sim/planner/search.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "sim/planner/search_run.h"

namespace shardscope::planner {

SearchRun::SearchRun(const std::vector<Choice>& choices, const TrialInputs& inputs,
                     const SearchOptions& options)
    : choices_(choices),
      inputs_(inputs),
      options_(options),
      groups_(options.groups),
      outcomes_(choices.size()),
      settled_(choices.size(), false) {
  for (std::size_t i = 0; i < choices.size(); ++i) outcomes_[i].choice = i;
  for (std::size_t i = 0; i < choices.size(); ++i) kinds_.push_back(kind_number(choices_[i]));
}

SearchResult SearchRun::run() {
  try_some_first();
  bound();
  do {
    // What was estimated too low has let others be passed over.
    do {
      explore();
    } while (try_contenders() || open_groups());
  } while (!rehearse_places() && !result_.interrupted);
  if (result_.interrupted && options_.best_after_stop) rehearse_best_so_far();
  settle_the_rest();
  add_wanted();
  return std::move(result_);
}

void SearchRun::lose(std::size_t choice, Reason reason, Duration time, Bytes memory,
                     bool is_estimate) {
  outcomes_[choice] = {.choice = choice,
                       .reason = reason,
                       .time = time,
                       .memory = memory,
                       .is_estimate = is_estimate};
}

void SearchRun::lose_by_bounds(std::size_t choice, Reason reason) {
  lose(choice, reason, bounds_[choice].time, bounds_[choice].memory);
  outcomes_[choice].is_least = true;
}

void SearchRun::settle_the_rest() {
  std::vector<bool> ranked(choices_.size(), false);
  for (const std::size_t place : contenders_.leaders()) {
    Contender& contender = contenders_[place];
    if (!contender.full) continue;  // stopped before
    ranked[contender.choice] = true;
    result_.ranked.push_back({contender.choice, contender.trial, std::move(*contender.full)});
  }
  // Of a stopped search some that may be better were not played.
  const auto may_be_better = [&](const Contender& contender) {
    return result_.interrupted && !ranked[contender.choice] && !result_.ranked.empty() &&
           rules_.sought(contender.trial) < rules_.sought(result_.ranked.front().trial);
  };
  for (const Contender& contender : contenders_)
    if (!may_be_better(contender))
      lose(contender.choice, rules_.by_memory() ? Reason::larger : Reason::slower,
           contender.trial.time.span, contender.trial.needed(), contender.is_estimate);
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    if (!settled_[i] && !result_.interrupted) settle_bounded(i);
    if (!ranked[i]) result_.others.push_back(std::move(outcomes_[i]));
  }
  result_.opened.assign(choices_.opened().begin(), choices_.opened().end());
  result_.in_groups = groups_.members() - result_.opened.size();
}

void SearchRun::settle_bounded(std::size_t choice) {
  const Bounds& bounds = bounds_[choice];
  const Reason reason = rules_.exceeds(bounds.memory)     ? Reason::out_of_memory
                        : rules_.is_too_slow(bounds.time) ? Reason::too_slow
                                                          : Reason::bounded;
  lose_by_bounds(choice, reason);
}

void SearchRun::add_wanted() {
  for (const std::size_t choice : options_.wanted) {
    try {
      result_.wanted.push_back(
          {choice, try_out(choices_[choice], inputs_), simulate_fully(choices_[choice], inputs_)});
    } catch (const Error&) {
      continue;  // its outcome says why
    }
  }
}

void SearchRun::report() const {
  if (!options_.on_progress) return;
  Progress progress{.choices = choices_.size() + groups_.members() - choices_.opened().size(),
                    .simulated = result_.simulated,
                    .best = {},
                    .best_text = {}};
  progress.settled = static_cast<std::size_t>(std::ranges::count(settled_, true)) +
                     groups_.members() - choices_.opened().size();
  if (!contenders_.empty()) {
    progress.best = contenders_.front().trial.time.span;
    progress.best_text = text_of(choices_[contenders_.front().choice]);
  }
  options_.on_progress(progress);
}

SearchResult search(const std::vector<Choice>& choices, const TrialInputs& inputs,
                    const SearchOptions& options) {
  return SearchRun(choices, inputs, options).run();
}

}  // namespace shardscope::planner
