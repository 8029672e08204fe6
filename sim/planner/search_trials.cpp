// Of a search: choices tried out, with few of their blocks and with all.
#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "sim/planner/estimate.h"
#include "sim/planner/search_run.h"

namespace shardscope::planner {

/// Tries out in order of bounds until none can come to a place.
void SearchRun::explore() {
  while (true) {
    const std::vector<std::size_t> batch = next_batch();
    if (batch.empty()) return;
    explore(batch);
    if (options_.stop.stop_requested()) {
      result_.interrupted = true;
      return;
    }
  }
}

void SearchRun::explore(const std::vector<std::size_t>& batch) {
  try_batch(batch, [&](std::size_t choice) {
    std::optional<Contender> contender = estimate(choice);
    return contender ? std::move(*contender) : tried(choice);
  });
  report();
}

/// An estimate, where there is one that says enough: not of memory, unless it does not fit by
/// far.
std::optional<Contender> SearchRun::estimate(std::size_t choice) const {
  if (!options_.screen || rules_.by_memory()) return std::nullopt;
  const double slack = estimate_slack(choices_[choice], inputs_.training);
  auto trial = estimated(choices_[choice], inputs_, options_.stop);
  if (trial && rules_.is_out(*trial, 1 + slack)) {
    trial = estimated(choices_[choice], inputs_, options_.stop, settled_periods);
    if (trial && rules_.is_out(*trial, 1 + slack) && !rules_.is_out(*trial, 1 - slack))
      return std::nullopt;
  }
  if (!trial) return std::nullopt;
  if (is_rough(choices_[choice])) correct(choice, *trial);
  return Contender{.choice = choice, .trial = *trial, .is_estimate = true};
}

Contender SearchRun::tried(std::size_t choice) const {
  return {.choice = choice, .trial = try_out(choices_[choice], inputs_, options_.stop)};
}

/// `work` makes a contender of a choice. What a stop comes before is not tried, and stays
/// unsettled.
template <class Work>
void SearchRun::try_batch(const std::vector<std::size_t>& batch, const Work& work) {
  std::vector<std::optional<Contender>> contenders(batch.size());
  on_all_cores(batch.size(), [&](std::size_t i) {
    if (options_.stop.stop_requested()) return;
    try {
      contenders[i] = work(batch[i]);
    } catch (const Error& error) {
      if (error.code() == ExitCode::interrupted) return;
      outcomes_[batch[i]].reason = Reason::refused;
      outcomes_[batch[i]].text = error.what();
    }
  });
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const bool is_refused = outcomes_[batch[i]].reason == Reason::refused;
    if (contenders[i]) enter(std::move(*contenders[i]));
    settled_[batch[i]] = contenders[i] || is_refused;
    if (settled_[batch[i]]) simulated_.insert(batch[i]);
  }
  result_.simulated = simulated_.size();
}

void SearchRun::enter(Contender contender) {
  const Trial& trial = contender.trial;
  const auto lost = [&](Reason reason) {
    lose(contender.choice, reason, trial.time.span, trial.needed(), contender.is_estimate);
  };
  if (trial.is_part || rules_.exceeds(trial.needed())) {
    lost(Reason::out_of_memory);
    outcomes_[contender.choice].is_least = trial.is_part;
    return;
  }
  if (rules_.is_too_slow(trial.time.span)) return lost(Reason::too_slow);
  contenders_.enter(std::move(contender));
}

/// Pipelines of one schedule that let parameters go alike are off alike.
std::string SearchRun::family(std::size_t choice) const {
  const Choice& c = choices_[choice];
  return fmt::format("{} {}", name_of(c.pipeline.schedule), zero_stage(c.sharding));
}

void SearchRun::correct(std::size_t choice, Trial& estimate) const {
  const auto known = off_.find(family(choice));
  if (known != off_.end())
    estimate.time.span.ns = scaled(estimate.time.span.ns, std::max(1.0, known->second));
}

/// Learns how far rough estimates are off from one that was tried out.
void SearchRun::learn(const std::map<std::size_t, Contender>& estimates) {
  for (const Contender& contender : contenders_) {
    const auto estimate = estimates.find(contender.choice);
    if (contender.is_estimate || estimate == estimates.end()) continue;
    const std::string of = family(contender.choice);
    if (off_.contains(of)) continue;
    const double more =
        contender.trial.time.span.seconds() / estimate->second.trial.time.span.seconds();
    off_.emplace(of, more);
    for (Contender& other : contenders_)
      if (other.is_estimate && is_rough(choices_[other.choice]) && family(other.choice) == of)
        correct(other.choice, other.trial);
  }
  contenders_.sort();
}

/// How many rough ones of a kind are tried at once: one, whose trial corrects the others, and one
/// more for each of the kind that did not fit. The same on every machine.
std::size_t SearchRun::tried_at_once(std::size_t kind) const {
  constexpr std::size_t most = 4;
  const auto lost = lost_rough_.find(kind);
  return lost == lost_rough_.end() ? 1 : std::min(most, 1 + lost->second);
}

/// Estimated contenders that may come to a place. Behind a rough one that may, those that are
/// next in its kind come along: it may not fit.
std::vector<std::size_t> SearchRun::estimates_to_try() const {
  const Marks to_reach = contenders_.marks();
  std::vector<std::size_t> batch;
  std::map<std::size_t, std::size_t> left_of_kind;  // rough ones that may come along
  for (const Contender& contender : contenders_) {
    const std::size_t kind = kinds_[contender.choice];
    if (!contender.is_estimate) {
      if (left_of_kind.contains(kind)) left_of_kind[kind] = 0;  // what follows is slower
      continue;
    }
    const bool may_win = to_reach.reached_by(contenders_.least(contender), kind);
    if (is_rough(choices_[contender.choice])) {
      if (may_win) left_of_kind.try_emplace(kind, tried_at_once(kind));
      const auto left = left_of_kind.find(kind);
      if (left == left_of_kind.end() || left->second == 0) continue;
      --left->second;
    } else if (!may_win) {
      continue;
    }
    batch.push_back(contender.choice);
  }
  if (batch.size() > batch_size) batch.resize(batch_size);
  return batch;
}

/// Takes the contenders of a batch out: the rough ones by choice.
std::map<std::size_t, Contender> SearchRun::take_out(const std::vector<std::size_t>& batch) {
  const std::set<std::size_t> again(batch.begin(), batch.end());
  std::map<std::size_t, Contender> rough;
  for (const Contender& contender : contenders_)
    if (again.contains(contender.choice) && is_rough(choices_[contender.choice]))
      rough.emplace(contender.choice, contender);
  contenders_.erase_if([&](const Contender& c) { return again.contains(c.choice); });
  return rough;
}

/// Tries out estimated ones that may come to a place, until none is left. Whether there were any.
bool SearchRun::try_contenders() {
  bool are_any = false;
  while (!options_.stop.stop_requested()) {
    const std::vector<std::size_t> batch = estimates_to_try();
    if (batch.empty()) return are_any;
    are_any = true;
    const std::map<std::size_t, Contender> rough = take_out(batch);
    try_batch(batch, [&](std::size_t choice) { return tried(choice); });
    if (!rough.empty()) learn(rough);
    for (const auto& [choice, contender] : rough)
      if (outcomes_[choice].reason == Reason::out_of_memory) ++lost_rough_[kinds_[choice]];
    report();
  }
  result_.interrupted = true;
  return false;
}

}  // namespace shardscope::planner
