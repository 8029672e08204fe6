// One search: what is known of every choice so far, and the steps that add to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/planner/closed_layouts.h"
#include "sim/planner/contenders.h"
#include "sim/planner/parallel.h"
#include "sim/planner/pipeline_bounds.h"
#include "sim/planner/search.h"
#include "sim/planner/search_rules.h"

namespace shardscope::planner {

/// Choices that are tried out before the next look at what is the best: the same on every machine,
/// so that the result is. The first looks come soon, for those who wait for an answer.
inline constexpr std::size_t first_batch_size = 4;
inline constexpr std::size_t batch_size = 24;

/// Choices, inputs and options must outlive it.
class SearchRun {
 public:
  SearchRun(const std::vector<Choice>& choices, const TrialInputs& inputs,
            const SearchOptions& options);
  SearchRun(const SearchRun&) = delete;
  SearchRun& operator=(const SearchRun&) = delete;

  SearchResult run();

 private:
  // Bounds: which choice is next (search_bounds.cpp).
  struct Promising {
    std::vector<std::size_t> recorded, by_formula;
  };
  std::size_t kind_number(const Choice& choice);
  void bound();
  void record_bounds(const std::vector<std::size_t>& some);
  bool open_groups();
  void add_choice(const ClosedLayouts::Member& member);
  std::vector<std::size_t> modest_ones() const;
  std::vector<Bounds> first_bounds(const std::vector<std::size_t>& some);
  void try_some_first();
  bool is_lost_by_bounds(std::size_t choice);
  Promising promising(std::size_t most);
  std::vector<std::size_t> next_batch();

  // Trials, with few blocks and with all (search_trials.cpp).
  void explore();
  void explore(const std::vector<std::size_t>& batch);
  std::optional<Contender> estimate(std::size_t choice) const;
  Contender tried(std::size_t choice) const;
  /// work(i) for every i below `count`. Idle cores look ahead.
  template <class Work>
  void on_all_cores(std::size_t count, const Work& work);
  template <class Work>
  void try_batch(const std::vector<std::size_t>& batch, const Work& work);
  void enter(Contender contender);
  std::string family(std::size_t choice) const;
  void correct(std::size_t choice, Trial& estimate) const;
  void learn(const std::map<std::size_t, Contender>& estimates);
  std::size_t tried_at_once(std::size_t kind) const;
  std::vector<std::size_t> estimates_to_try() const;
  std::map<std::size_t, Contender> take_out(const std::vector<std::size_t>& batch);
  bool try_contenders();

  // Places are played with the allocator (search_rehearsals.cpp).
  std::size_t cores() const;
  std::vector<std::size_t> to_look_ahead(std::size_t beside);
  bool rehearse_places();
  std::vector<std::size_t> to_rehearse() const;
  bool drop_places_that_do_not_fit();
  void rehearse_best_so_far();
  template <class Unfit>
  std::size_t drop(const Unfit& unfit);

  // What became of each choice (search.cpp).
  void lose(std::size_t choice, Reason reason, Duration time, Bytes memory,
            bool is_estimate = false);
  void lose_by_bounds(std::size_t choice, Reason reason);
  void settle_bounded(std::size_t choice);
  void settle_the_rest();
  void add_wanted();
  void report() const;

  Choices choices_;
  const TrialInputs& inputs_;
  const SearchOptions& options_;
  const SearchRules rules_{inputs_, options_};
  ClosedLayouts groups_;
  std::map<std::string, std::size_t> kind_numbers_;
  std::vector<std::size_t> kinds_;  // by choice
  std::vector<Bounds> bounds_;
  PipelineBounds pipelines_{inputs_};                     // recorded
  std::vector<bool> is_recorded_;                         // by choice: bounds are from recordings
  std::set<std::pair<std::int64_t, std::size_t>> order_;  // unsettled, the lowest bound first
  Contenders contenders_{rules_, kinds_, choices_};
  std::vector<Outcome> outcomes_;  // by choice
  std::size_t next_batch_size_ = first_batch_size;
  std::map<std::string, double> off_;              // trial over rough estimate, by family
  std::map<std::size_t, std::size_t> lost_rough_;  // that did not fit when tried, by kind
  std::set<std::size_t> kinds_beyond_memory_;      // of which a place did not fit
  std::set<std::size_t> looked_ahead_;             // places that were handed to look_ahead
  std::set<std::size_t> simulated_;                // choices, with some or all of their blocks
  std::vector<bool> settled_;  // by choice: tried out, or known to need too much memory
  SearchResult result_;
};

template <class Work>
void SearchRun::on_all_cores(std::size_t count, const Work& work) {
  const std::vector<std::size_t> ahead = to_look_ahead(count);
  for_each_index(count + ahead.size(), options_.threads, [&](std::size_t i) {
    if (i < count)
      work(i);
    else
      options_.look_ahead(choices_[ahead[i - count]]);
  });
}

}  // namespace shardscope::planner
