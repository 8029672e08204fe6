#include "sim/planner/answer/places.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "sim/planner/choice_prediction.h"
#include "sim/planner/parallel.h"
#include "traces/memory_fit.h"

namespace shardscope::planner {
namespace {

/// What is sought is the smallest of these.
double sought(const Candidate& candidate, Objective objective) {
  switch (objective) {
    case Objective::time:
      break;
    case Objective::memory:
      return static_cast<double>(needed_memory(candidate.summary).count);
    case Objective::cost:
      return candidate.gpu_hours;
  }
  return static_cast<double>(candidate.summary.step_time.ns);
}

/// Without settings that save memory by themselves, beside the micro-batch.
bool is_plain(const Choice& choice) {
  const bool prefetches_more = !is_pipelined(choice) && (choice.prefetch == Prefetch::both ||
                                                         choice.prefetch == Prefetch::post);
  return choice.blocks_per_unit == 1 && choice.checkpointing.every <= 1 &&
         !choice.reduces_every_micro_batch && !prefetches_more;
}

/// None after a stop.
std::optional<Candidate> candidate_unless_stopped(const Choice& choice, const Basis& basis,
                                                  const std::stop_token& stop) try {
  if (stop.stop_requested()) return std::nullopt;
  return candidate_of(choice, basis, stop);
} catch (const Error& error) {
  if (error.code() != ExitCode::interrupted) throw;
  return std::nullopt;
}

/// Indices of the ranked: those of which most has to be recorded come first, so that no core is
/// left with one of them at the end.
std::vector<std::size_t> longest_first(const Weighed& weighed) {
  std::vector<std::size_t> order(weighed.ranked.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) {
    return with_played_micro_batches(weighed.choices[weighed.ranked[i]]).micro_batches;
  });
  return order;
}

SearchResult fastest_within(Bytes memory, const std::vector<Choice>& choices, const Basis& basis,
                            unsigned threads, const std::stop_token& stop) {
  HardwareProfile smaller = basis.inputs.profile;
  smaller.memory = memory;
  const TrialInputs& on = basis.trials;
  const TrialInputs trials{on.model,    on.config,        on.training,  smaller,
                           on.costs,    on.native_target, on.allocator, Bytes{},
                           on.findings, on.host_memory};
  return search(choices, trials,
                {.places = 1, .threads = threads, .stop = stop, .best_after_stop = false});
}

/// Each thread holds a recording: as many of all searches as there are cores, and one more of each.
unsigned threads_of_each(std::size_t searches) {
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  return std::min(cores, 1 + cores / static_cast<unsigned>(searches));
}

/// A search for each of the memories, which become less: up to the first in which nothing fits.
/// They run side by side, because each has stretches in which one core is enough. What they find is
/// the same as one after the other.
std::vector<SearchResult> fastest_within_each(const std::vector<Bytes>& memories,
                                              const std::vector<Choice>& choices,
                                              const Basis& basis, const std::stop_token& stop) {
  std::vector<std::stop_source> stops(memories.size());
  const auto stop_from = [&](std::size_t first) {
    for (std::size_t i = first; i < stops.size(); ++i) stops[i].request_stop();
  };
  const std::stop_callback stop_all(stop, [&] { stop_from(0); });
  std::vector<std::optional<SearchResult>> found(memories.size());
  for_each_index(memories.size(), 0, [&](std::size_t i) {
    if (stops[i].stop_requested()) return;
    found[i] = fastest_within(memories[i], choices, basis, threads_of_each(memories.size()),
                              stops[i].get_token());
    if (found[i]->ranked.empty()) stop_from(i + 1);
  });
  std::vector<SearchResult> results;
  for (std::optional<SearchResult>& one : found) {
    if (!one) break;
    results.push_back(std::move(*one));
    if (results.back().ranked.empty()) break;
  }
  return results;
}

bool dominates(const Summary& a, const Summary& b) {
  const Bytes of_a = needed_memory(a), of_b = needed_memory(b);
  return a.step_time <= b.step_time && of_a <= of_b && (a.step_time < b.step_time || of_a < of_b);
}

}  // namespace

std::vector<Candidate> ranked_candidates(const Weighed& weighed, const Basis& basis,
                                         const std::stop_token& stop) {
  std::vector<std::optional<Candidate>> predicted(weighed.ranked.size());
  const std::vector<std::size_t> order = longest_first(weighed);
  for_each_index(predicted.size(), 0, [&](std::size_t next) {
    const std::size_t i = order[next];
    const Choice& choice = weighed.choices[weighed.ranked[i]];
    if (i == 0)
      predicted[i] = candidate_of(choice, basis);
    else
      predicted[i] = candidate_unless_stopped(choice, basis, stop);
  });
  std::vector<Candidate> candidates;
  for (std::optional<Candidate>& candidate : predicted)
    if (candidate) candidates.push_back(std::move(*candidate));
  return candidates;
}

void keep_best(std::vector<Candidate>& candidates, Objective objective, std::size_t places) {
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](const Candidate& a, const Candidate& b) {
                     return sought(a, objective) < sought(b, objective);
                   });
  if (candidates.size() > places) candidates.resize(places);
}

std::vector<Bytes> smaller_memories(const Summary& best) {
  std::vector<Bytes> memories;
  const Bytes needed = needed_memory(best);
  if (best.device_memory) {
    const Bytes roomy = *best.device_memory - 2 * usual_margin(*best.device_memory);
    if (roomy > Bytes{} && roomy < needed) memories.push_back(roomy);
  }
  for (const double share : {0.7, 0.45, 0.25})
    memories.push_back({static_cast<std::int64_t>(share * static_cast<double>(needed.count))});
  return memories;
}

Smaller smaller_than(std::span<const Candidate> candidates, const std::vector<Choice>& choices,
                     const Basis& basis, const Watcher& watcher) {
  std::vector<Choice> plain = choices;
  // Of torchtitan's pipelines each takes seconds to play.
  std::erase_if(plain, [](const Choice& choice) { return !is_plain(choice) || is_rough(choice); });
  const std::vector<SearchResult> searches =
      fastest_within_each(smaller_memories(candidates.front().summary), plain, basis, watcher.stop);
  std::vector<Choice> fastest;  // one a search, but for the last where nothing fits
  for (const SearchResult& found : searches)
    if (!found.ranked.empty()) fastest.push_back(plain[found.ranked.front().choice]);
  const auto is_among = [](std::span<const Candidate> known, const Choice& choice) {
    return std::ranges::find(known, choice, &Candidate::choice) != known.end();
  };
  const auto is_repeated = [&](std::size_t i) {
    return is_among(candidates, fastest[i]) ||
           std::find(fastest.begin(), fastest.begin() + std::ptrdiff_t(i), fastest[i]) !=
               fastest.begin() + std::ptrdiff_t(i);
  };
  std::vector<std::optional<Candidate>> predicted(fastest.size());
  for_each_index(fastest.size(), 0, [&](std::size_t i) {
    if (!is_repeated(i)) predicted[i] = candidate_unless_stopped(fastest[i], basis, watcher.stop);
  });
  Smaller smaller;
  for (std::size_t i = 0; i < searches.size(); ++i) {
    smaller.simulated += searches[i].simulated;
    if (i == fastest.size()) break;
    if (is_repeated(i)) continue;
    if (!predicted[i]) break;
    const Summary& summary = predicted[i]->summary;
    const auto slowest = slowest_step(basis.inputs, world_of(fastest[i]));
    if (slowest && summary.step_time > slowest->time) break;
    if (leaves_margin(summary)) smaller.candidates.push_back(std::move(*predicted[i]));
  }
  return smaller;
}

void keep_front(std::vector<Candidate>& candidates, std::size_t best_few) {
  for (Candidate& candidate : candidates)
    candidate.on_front =
        candidate.summary.fits &&
        std::none_of(candidates.begin(), candidates.end(), [&](const Candidate& other) {
          return other.summary.fits && dominates(other.summary, candidate.summary);
        });
  std::vector<Candidate> kept;
  for (std::size_t i = 0; i < candidates.size(); ++i)
    if (i < best_few || candidates[i].on_front) kept.push_back(std::move(candidates[i]));
  candidates = std::move(kept);
}

}  // namespace shardscope::planner
