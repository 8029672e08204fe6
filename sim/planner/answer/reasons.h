// Why a candidate is not the best.
#pragma once

#include <string>
#include <vector>

#include "sim/planner/answer/candidate.h"

namespace shardscope::planner {

/// Why `other` is not the best: by the objective, and where its time goes. "4.2% slower: 3.1 ms
/// more exposed communication".
std::string why_not_best(const Summary& best, const Summary& other, Objective objective);

/// Their bands overlap: the prediction cannot tell which one is faster.
bool cannot_be_told_apart(const Summary& a, const Summary& b);

/// Numbers the places and says of each but the first why it is not the first.
void explain_places(std::vector<Candidate>& candidates, Objective objective);

}  // namespace shardscope::planner
