// Of a search: places played with the allocator.
#include <algorithm>
#include <thread>

#include "core/base/error.h"
#include "sim/planner/estimate.h"
#include "sim/planner/search_run.h"

namespace shardscope::planner {
namespace {

/// Of a stopped search.
constexpr std::size_t played_anyway = 3;

bool is_roomy(const Trial& trial, const SearchRules& rules) {
  const Bytes roomy{rules.capacity().count / 4 * 3};
  return rules.capacity() == Bytes{} || trial.needed() <= roomy;
}

}  // namespace

/// Plays the places with the allocator: whether all of them fit. Those that do not are out.
bool SearchRun::rehearse_places() {
  const std::vector<std::size_t> rehearsed = to_rehearse();
  on_all_cores(rehearsed.size(), [&](std::size_t i) {
    if (options_.stop.stop_requested()) return;
    Contender& contender = contenders_[rehearsed[i]];
    try {
      contender.full.emplace(simulate_fully(choices_[contender.choice], inputs_, options_.stop));
    } catch (const Error& error) {
      if (error.code() != ExitCode::interrupted) throw;
    }
  });
  result_.interrupted = result_.interrupted || options_.stop.stop_requested();
  bool all_fit = true;
  while (drop_places_that_do_not_fit()) all_fit = false;
  return all_fit;
}

std::size_t SearchRun::cores() const {
  return std::max(1U,
                  options_.threads > 0 ? options_.threads : std::thread::hardware_concurrency());
}

/// Places for the cores that have no part in so many pieces of work.
std::vector<std::size_t> SearchRun::to_look_ahead(std::size_t beside) {
  std::vector<std::size_t> result;
  if (!options_.look_ahead || beside == 0 || options_.stop.stop_requested()) return result;
  for (const std::size_t place : contenders_.leaders()) {
    if (beside + result.size() >= cores()) break;
    const Contender& contender = contenders_[place];
    if (!contender.full || !contender.full->fits || is_pipelined(choices_[contender.choice]))
      continue;
    if (looked_ahead_.insert(contender.choice).second) result.push_back(contender.choice);
  }
  return result;
}

/// The places that were not played yet. Where cores are idle, also what stands behind a place
/// of a kind that has lost one already: it is likely to be next.
std::vector<std::size_t> SearchRun::to_rehearse() const {
  std::vector<std::size_t> result;
  for (const std::size_t place : contenders_.leaders())
    if (!contenders_[place].full) result.push_back(place);
  for (std::size_t i = 0; i < contenders_.size() && !result.empty() && result.size() < cores();
       ++i) {
    const Contender& contender = contenders_[i];
    const bool has_lost = options_.kind ? kinds_beyond_memory_.contains(kinds_[contender.choice])
                                        : !kinds_beyond_memory_.empty();
    const bool is_next = has_lost && !contender.full && !contender.is_estimate;
    if (is_next && std::ranges::find(result, i) == result.end()) result.push_back(i);
  }
  return result;
}

/// What was played ahead stays until it comes to a place.
bool SearchRun::drop_places_that_do_not_fit() {
  std::set<std::size_t> unfit;
  for (const std::size_t place : contenders_.leaders()) {
    const Contender& contender = contenders_[place];
    if (!contender.full || contender.full->fits) continue;
    unfit.insert(contender.choice);
    kinds_beyond_memory_.insert(kinds_[contender.choice]);
  }
  return drop([&](const Contender& c) { return unfit.contains(c.choice); }) > 0;
}

/// Of a stopped search: plays from the best on until one fits, as many at a time as there are
/// cores. The user is waiting for the end, so after a few only those that leave the allocator
/// much room are played, and pipelines of torchtitan, which take seconds, only where there is
/// nothing else.
void SearchRun::rehearse_best_so_far() {
  const auto takes_long = [&](const Contender& c) {
    return !c.full && is_rough(choices_[c.choice]);
  };
  const bool all_take_long = std::ranges::all_of(contenders_, takes_long);
  std::size_t played = 0;
  bool one_fits = false;
  for (std::size_t next = 0; next < contenders_.size() && !one_fits;) {
    std::vector<std::size_t> some;
    for (; next < contenders_.size() && some.size() < cores() && !one_fits; ++next) {
      const Contender& contender = contenders_[next];
      if (takes_long(contender) && !all_take_long) continue;
      if (contender.full)
        one_fits = contender.full->fits;
      else if (played + some.size() < played_anyway || is_roomy(contender.trial, rules_))
        some.push_back(next);
    }
    played += some.size();
    for_each_index(some.size(), options_.threads, [&](std::size_t i) {
      Contender& contender = contenders_[some[i]];
      contender.full.emplace(simulate_fully(choices_[contender.choice], inputs_));
    });
    for (const std::size_t i : some) one_fits = one_fits || contenders_[i].full->fits;
  }
  drop([](const Contender& c) { return c.full && !c.full->fits; });
  contenders_.move_to_front([](const Contender& c) { return c.full.has_value(); });
}

/// Contenders for which the allocator has no room.
template <class Unfit>
std::size_t SearchRun::drop(const Unfit& unfit) {
  for (const Contender& contender : contenders_)
    if (unfit(contender)) {
      lose(contender.choice, Reason::out_of_memory, contender.trial.time.span,
           contender.full->reserved + contender.full->outside);
      outcomes_[contender.choice].is_least = contender.full->is_part;
      outcomes_[contender.choice].margin = contender.full->margin;
    }
  return contenders_.erase_if(unfit);
}

}  // namespace shardscope::planner
