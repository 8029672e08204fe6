// Why a candidate is not the best.
#pragma once

#include <string>
#include <vector>

#include "sim/planner/answer/candidate.h"

namespace shardscope::planner {

/// Why `other` is not the best: by the objective, and where its time goes. "4.2% slower: 3.1 ms
/// more exposed communication".
std::string why_not_best(const Summary& best, const Summary& other, Objective objective);

/// How much longer `other` takes than the best, and whether that can be told: the constants of the
/// machine are the same for both, so that only what they move the one more than the other counts.
/// By memory, which is played to the byte, nothing ties but what takes as much.
void compare_with_best(const Candidate& best, Objective objective, Candidate& other);

/// Numbers the places and says of each but the first why it is not the first.
void explain_places(std::vector<Candidate>& candidates, Objective objective);

}  // namespace shardscope::planner
