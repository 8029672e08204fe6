// Strategies that have no place, and why.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sim/planner/answer/candidate.h"
#include "sim/planner/answer/rounds.h"

namespace shardscope::planner {

/// The best of one runtime's strategy, or why there is none.
struct Rejected {
  std::string strategy;  ///< "fsdp2 full_shard"
  std::string why;
};

/// Tells a next search of the candidates that do not fit or leave less than the margin: whether
/// there are any.
bool note_unfit(const std::vector<Candidate>& candidates, Findings& findings);

/// Takes those out.
std::vector<Rejected> take_out_unfit(std::vector<Candidate>& candidates);

/// Kinds of choices that no place shows, in the order of enumeration. `places`: best first.
std::vector<Rejected> rejected_of(const Weighed& weighed, std::span<const Candidate> places,
                                  const Basis& basis);

}  // namespace shardscope::planner
