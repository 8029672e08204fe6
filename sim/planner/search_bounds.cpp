// Of a search: bounds, and which choices they let come next.
#include <algorithm>
#include <iterator>
#include <limits>

#include "sim/planner/search_run.h"

namespace shardscope::planner {
namespace {

/// Choices whose bounds are recorded at a time.
constexpr std::size_t recorded_at_once = 64;
/// Members of groups that become choices at a time.
constexpr std::size_t opened_at_once = 128;
/// Bounds of fewer choices are quick.
constexpr std::size_t worth_a_first_look = 200;

}  // namespace

std::size_t SearchRun::kind_number(const Choice& choice) {
  if (!options_.kind) return kinds_.size();
  return kind_numbers_.try_emplace(options_.kind(choice), kind_numbers_.size()).first->second;
}

/// By formula: what has to be recorded for a bound is recorded of those that may be best.
void SearchRun::bound() {
  bounds_.resize(choices_.size());
  is_recorded_.assign(choices_.size(), !options_.screen);
  if (options_.screen)
    bounds_ = floors_of(choices_.given(), inputs_, options_.threads, options_.stop);
  std::vector<std::size_t> without;
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    if (settled_[i]) continue;
    order_.emplace(rules_.sought(bounds_[i]), i);
    if (options_.screen && !choices_[i].torchtitan) without.push_back(i);
  }
  record_bounds(without);
}

void SearchRun::record_bounds(const std::vector<std::size_t>& some) {
  if (some.empty()) return;
  std::vector<Choice> choices;
  for (const std::size_t i : some) choices.push_back(choices_[i]);
  const std::vector<Bounds> found =
      bounds_of(choices, inputs_, options_.threads, options_.stop, pipelines_);
  for (std::size_t i = 0; i < some.size(); ++i) {
    Bounds& bounds = bounds_[some[i]];
    order_.erase({rules_.sought(bounds), some[i]});
    bounds = {.time = std::max(bounds.time, found[i].time),
              .memory = std::max(bounds.memory, found[i].memory)};
    order_.emplace(rules_.sought(bounds), some[i]);
    is_recorded_[some[i]] = true;
  }
}

/// Makes choices of members of groups that may come to a place; whether there were any.
bool SearchRun::open_groups() {
  if (groups_.empty() || options_.stop.stop_requested()) return false;
  const Marks to_reach = contenders_.marks();
  const std::vector<ClosedLayouts::Member> members = groups_.next(
      options_.screen ? opened_at_once : groups_.members(), inputs_, options_,
      {.sought = [&](const Bounds& bounds) { return rules_.sought(bounds); },
       .may_win =
           [&](std::int64_t value, const Bounds& bounds, std::size_t kind) {
             return !options_.screen ||
                    (to_reach.reached_by(value, kind) && !rules_.exceeds(bounds.memory) &&
                     !rules_.is_too_slow(bounds.time));
           },
       .kind =
           [&](const Choice& choice) {
             return options_.kind ? kind_number(choice) : std::numeric_limits<std::size_t>::max();
           }});
  for (const ClosedLayouts::Member& member : members) add_choice(member);
  return !members.empty();
}

void SearchRun::add_choice(const ClosedLayouts::Member& member) {
  const std::size_t choice = choices_.size();
  choices_.add(groups_.choice_of(member));
  kinds_.push_back(kind_number(choices_[choice]));
  bounds_.push_back(member.bounds);
  is_recorded_.push_back(!options_.screen);
  outcomes_.push_back({.choice = choice});
  settled_.push_back(false);
  order_.emplace(member.sought, choice);
}

/// Of each kind the choice that fits most easily, by its settings.
std::vector<std::size_t> SearchRun::modest_ones() const {
  std::map<std::size_t, std::size_t> of_kind;
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    if (choices_[i].checkpointing != eager::CheckpointChoice{.every = 1}) continue;
    std::size_t& modest = of_kind.try_emplace(kinds_[i], i).first->second;
    if (choices_[i].batch < choices_[modest].batch) modest = i;
  }
  std::vector<std::size_t> result;
  for (const auto& [kind, choice] : of_kind) result.push_back(choice);
  return result;
}

/// Of torchtitan's by formula: recording them takes long.
std::vector<Bounds> SearchRun::first_bounds(const std::vector<std::size_t>& some) {
  std::vector<Choice> all, recorded;
  for (const std::size_t i : some) all.push_back(choices_[i]);
  std::ranges::copy_if(all, std::back_inserter(recorded),
                       [](const Choice& choice) { return !choice.torchtitan; });
  std::vector<Bounds> bounds = floors_of(all, inputs_, options_.threads, options_.stop);
  const std::vector<Bounds> found =
      bounds_of(recorded, inputs_, options_.threads, options_.stop, pipelines_);
  for (std::size_t i = 0, next = 0; i < all.size(); ++i)
    if (!all[i].torchtitan) bounds[i] = found[next++];
  return bounds;
}

/// A few choices that are likely to fit, before all are bounded: who waits sees an answer soon.
void SearchRun::try_some_first() {
  if (!options_.screen || !options_.kind || choices_.size() < worth_a_first_look) return;
  const std::vector<std::size_t> some = modest_ones();
  const std::vector<Bounds> bounds = first_bounds(some);
  std::vector<std::pair<std::int64_t, std::size_t>> order;
  for (std::size_t i = 0; i < some.size(); ++i)
    if (!rules_.exceeds(bounds[i].memory) &&
        !rules_.exceeds_host(rules_.on_host(choices_[some[i]])))
      order.emplace_back(rules_.sought(bounds[i]), some[i]);
  std::sort(order.begin(), order.end());
  if (order.size() > first_batch_size) order.resize(first_batch_size);
  std::vector<std::size_t> batch;
  for (const auto& [value, choice] : order) batch.push_back(choice);
  explore(batch);
}

/// Loses a choice where its bounds alone say so.
bool SearchRun::is_lost_by_bounds(std::size_t choice) {
  const Bounds& bounds = bounds_[choice];
  if (rules_.exceeds(bounds.memory))
    lose_by_bounds(choice, Reason::out_of_memory);
  else if (const Bytes host = rules_.on_host(choices_[choice]); rules_.exceeds_host(host))
    lose(choice, Reason::out_of_host_memory, bounds.time, host);
  else if (rules_.is_too_slow(bounds.time))
    lose_by_bounds(choice, Reason::too_slow);
  else
    return false;
  return true;
}

/// Those that may come to a place, the most promising first.
SearchRun::Promising SearchRun::promising(std::size_t most) {
  const Marks to_reach = contenders_.marks();
  Promising found;
  for (auto at = order_.begin(); at != order_.end();) {
    const auto [value, choice] = *at;
    const bool is_recorded = is_recorded_[choice];
    if (to_reach.last && value > *to_reach.last) break;
    if (found.recorded.size() == most || found.by_formula.size() == recorded_at_once) break;
    if (!to_reach.reached_by(value, kinds_[choice])) {
      ++at;
    } else if (is_lost_by_bounds(choice)) {
      settled_[choice] = true;
      at = order_.erase(at);
    } else {
      (is_recorded ? found.recorded : found.by_formula).push_back(choice);
      ++at;
    }
  }
  return found;
}

/// While there are some with lower bounds by formula, few are tried: what they take excludes
/// others, which then need no recording.
std::vector<std::size_t> SearchRun::next_batch() {
  Promising found = promising(next_batch_size_);
  while (!found.by_formula.empty() && !options_.stop.stop_requested()) {
    record_bounds(found.by_formula);
    found = promising(first_batch_size);
    if (!found.recorded.empty()) break;
  }
  for (const std::size_t choice : found.recorded) {
    settled_[choice] = true;
    order_.erase({rules_.sought(bounds_[choice]), choice});
  }
  next_batch_size_ = std::min(2 * next_batch_size_, batch_size);
  return found.recorded;
}

}  // namespace shardscope::planner
