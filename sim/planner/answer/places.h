// Which candidates come to a place, and which of the others lie on the front of time and memory.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "sim/planner/answer/candidate.h"
#include "sim/planner/answer/rounds.h"

namespace shardscope::planner {

/// The ranked choices, predicted on all cores, in their order.
std::vector<Candidate> ranked_candidates(const Weighed& weighed, const Basis& basis,
                                         const std::stop_token& stop);

/// Keeps the best `places` of the candidates by the objective, best first.
void keep_best(std::vector<Candidate>& candidates, Objective objective, std::size_t places);

/// What smaller candidates may need, the most first: what leaves two usual margins, where the best
/// leaves less, and shares of what the best needs. Example: the best needs 79 of 80 GiB: 73.6 GiB
/// (two margins of 3.2 stay free), then 70, 45 and 25% of 79.
std::vector<Bytes> smaller_memories(const Summary& best);

struct Smaller {
  std::vector<Candidate> candidates;  ///< what needs most comes first
  std::size_t simulated = 0;
};

/// The fastest choices of plain settings that do with a part of the best candidate's memory and are
/// not among the candidates.
Smaller smaller_than(std::span<const Candidate> candidates, const std::vector<Choice>& choices,
                     const Basis& basis, const Watcher& watcher);

/// Marks the candidates of which none other is both faster and smaller; behind the best few only
/// those stay.
void keep_front(std::vector<Candidate>& candidates, std::size_t best_few);

}  // namespace shardscope::planner
