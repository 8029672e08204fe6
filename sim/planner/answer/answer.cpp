#include "sim/planner/answer/answer.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <span>
#include <utility>

#include "core/base/error.h"
#include "sim/planner/answer/nothing_fits.h"
#include "sim/planner/answer/places.h"
#include "sim/planner/answer/reasons.h"
#include "sim/planner/answer/remarks.h"
#include "sim/planner/answer/rounds.h"
#include "sim/planner/parallel.h"

namespace shardscope::planner {
namespace {

std::span<const Candidate> places_of(const Answer& answer) {
  return std::span(answer.candidates).first(answer.best_few);
}

/// A search plays few micro-batches of a choice, and does not know its memory's band. It starts
/// again where a place does not fit after all; what it has tried out is known then.
Weighed weigh_what_fits(const Basis& basis, const Watcher& watcher,
                        std::vector<Candidate>& candidates) {
  std::size_t simulated = 0;
  for (;;) {
    Weighed weighed = weigh(basis, watcher);
    candidates = ranked_candidates(weighed, basis, watcher.stop);
    weighed.simulated = simulated += weighed.simulated;
    if (!note_unfit(candidates, *basis.trials.findings) || watcher.stop.stop_requested())
      return weighed;
  }
}

/// In the order of what is shown, which knows more than the search: the allocator's retries.
void set_places(const Basis& basis, Answer& answer) {
  const Inputs& inputs = basis.inputs;
  std::vector<Candidate>& candidates = answer.candidates;
  answer.rejected = take_out_unfit(candidates);
  answer.curve = curve_of(candidates);
  keep_best(candidates, inputs.objective, ranked_places(inputs));
  answer.best_few = candidates.size();
  explain_places(candidates, inputs.objective);
}

/// Behind the places.
void add_smaller(Smaller smaller, const Basis& basis, Answer& answer) {
  answer.simulated += smaller.simulated;
  std::ranges::move(smaller.candidates, std::back_inserter(answer.candidates));
  keep_front(answer.candidates, answer.best_few);
  explain_places(answer.candidates, basis.inputs.objective);
}

void set_rejected(const Weighed& weighed, const Basis& basis, Answer& answer) {
  for (Rejected& one : rejected_of(weighed, places_of(answer), basis))
    answer.rejected.push_back(std::move(one));
}

void set_given(const Weighed& weighed, const Basis& basis, const Watcher& watcher, Answer& answer) {
  if (!basis.inputs.given) return;
  GivenPlace given = place_of(*basis.inputs.given, weighed.choices, basis, watcher.stop);
  if (given.refused.empty()) given.faster_choices = faster_than(given, answer.candidates);
  answer.given = std::move(given);
}

/// Of the best choice, each from predictions of its own.
std::vector<std::string> predicted_remarks(std::span<const Candidate> places, const Basis& basis,
                                           const Watcher& watcher) {
  std::vector<std::string> remarks;
  if (watcher.stop.stop_requested()) return remarks;
  if (basis.inputs.weighs_compilation)
    if (std::string remark = compilation_remark(places.front(), basis, watcher.stop);
        !remark.empty())
      remarks.push_back(std::move(remark));
  std::ranges::move(remarks_on(places, basis, watcher.stop), std::back_inserter(remarks));
  return remarks;
}

void set_remarks(const Weighed& weighed, const Basis& basis, const Watcher& watcher,
                 std::vector<std::string> predicted, Answer& answer) {
  if (weighed.offloads) {
    const bool timed = basis.costs.knows_host_time();
    answer.remarks.emplace_back(
        timed ? "nothing fits without offload; the host's update is timed by the bandwidth of the "
                "node's memory"
              : "nothing fits without offload. The step times are too short by the host's own "
                "update: the profile has no host_memory_bandwidth");
  }
  if (watcher.stop.stop_requested()) return;
  if (std::string remark = small_margin_remark(answer.candidates); !remark.empty())
    answer.remarks.push_back(std::move(remark));
  std::ranges::move(predicted, std::back_inserter(answer.remarks));
}

Chosen chosen_among(const Basis& basis, const Answer& answer) {
  const std::span<const Candidate> places = places_of(answer);
  return chosen_of(places.first(std::min(places.size(), places_to_choose_from)),
                   written_from(basis.inputs));
}

/// Of the best few; then only the places stay that were asked for, and those up to the chosen one.
/// It is chosen again, for the reasons to name no other.
void set_chosen(const Basis& basis, Answer& answer) {
  const std::size_t chosen = chosen_among(basis, answer).candidate;
  answer.best_few = std::min(answer.best_few, std::max(basis.inputs.places, chosen + 1));
  answer.candidates.erase(answer.candidates.begin() + static_cast<std::ptrdiff_t>(answer.best_few),
                          answer.candidates.end());
  answer.chosen = chosen_among(basis, answer);
  answer.written = written(answer.candidates[chosen].choice, written_from(basis.inputs));
}

void set_file_alone(const Basis& basis, const Watcher& watcher, Answer& answer) {
  const Choice& chosen = answer.candidates[answer.chosen.candidate].choice;
  const auto alone = as_the_file_alone(chosen, written_from(basis.inputs));
  if (!alone || *alone == chosen || watcher.stop.stop_requested()) return;
  try {
    answer.file_alone = candidate_of(*alone, basis, watcher.stop);
  } catch (const Error&) {
    // The losses say what it lacks.
  }
}

/// What is said beside the places: limits of the one that is chosen, remarks, what needs less
/// memory. Each is recorded and played anew, so they are found side by side.
void set_rest(const Weighed& weighed, const Basis& basis, const Watcher& watcher, Answer& answer) {
  const std::span<const Candidate> places = places_of(answer);
  Smaller smaller;
  std::vector<std::string> remarks;
  for_each_index(4, 0, [&](std::size_t part) {
    if (part == 0 && basis.inputs.objective != Objective::memory)
      smaller = smaller_than(places, weighed.choices, basis, watcher);
    if (part == 1) answer.limits = limits_of(places[answer.chosen.candidate], basis, watcher.stop);
    if (part == 2) remarks = predicted_remarks(places, basis, watcher);
    if (part == 3) set_file_alone(basis, watcher, answer);
  });
  add_smaller(std::move(smaller), basis, answer);
  set_remarks(weighed, basis, watcher, std::move(remarks), answer);
}

}  // namespace

Answer answer(const Inputs& inputs, const Watcher& watcher) {
  const auto start = std::chrono::steady_clock::now();
  const Basis basis(inputs);
  std::vector<Candidate> candidates;
  Weighed weighed = weigh_what_fits(basis, watcher, candidates);
  Answer result{.candidates = std::move(candidates),
                .dropped = std::move(weighed.dropped),
                .choices = weighed.choices.size() + weighed.in_groups,
                .in_groups = weighed.in_groups,
                .simulated = weighed.simulated,
                .interrupted = weighed.interrupted};
  set_places(basis, result);
  if (!result.candidates.empty()) set_chosen(basis, result);
  set_rejected(weighed, basis, result);
  if (!result.candidates.empty()) {
    set_rest(weighed, basis, watcher, result);
  } else if (!result.interrupted) {
    result.advice = advice_where_nothing_fits(weighed, basis, watcher.stop);
  }
  set_given(weighed, basis, watcher, result);
  result.ways = ways_of(weighed, result.candidates, result.best_few, basis);
  result.interrupted = result.interrupted || watcher.stop.stop_requested();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  result.elapsed_s = elapsed.count();
  return result;
}

}  // namespace shardscope::planner
