// Choices side by side: why one loses, and what turns out other than is usually said.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/plan_answer.h"

namespace shardscope {

/// Why `other` is not the best: by the objective, and where its time goes. "4.2% slower: 3.1 ms
/// more exposed communication".
std::string why_not_best(const Summary& best, const Summary& other, PlanObjective objective);

/// Their bands overlap: the prediction cannot tell which one is faster.
bool cannot_be_told_apart(const Summary& a, const Summary& b);

/// ZeRO-3 beside ZeRO-2, a hybrid beside full sharding across nodes, DDP beside sharding: each is
/// predicted with the best's other settings.
std::vector<std::string> remarks_on(const Candidate& best, const PlanInputs& inputs,
                                    const planner::TrialInputs& planning);

/// What one has to change to get from one choice to the other, in the words of the runtime's file;
/// another runtime counts as one change.
std::vector<std::string> changes_between(const planner::Choice& from, const planner::Choice& to);

}  // namespace shardscope
