// A choice that may be the answer, with its figures.
#pragma once

#include <string>

#include "sim/planner/answer/basis.h"
#include "sim/planner/choice.h"
#include "traces/summary.h"

namespace shardscope::planner {

struct Candidate {
  Choice choice;
  Summary summary;
  int place = 0;          ///< 1 is the best
  std::string why;        ///< it is not the best: "4.2% slower: 3.1 ms more exposed communication"
  bool ties = false;      ///< its band overlaps the best one's
  bool on_front = false;  ///< no other candidate is both faster and smaller
  double gpu_hours = 0;   ///< per 10^9 tokens
};

/// Predicts the choice. Throws as `summary_of` does.
Candidate candidate_of(const Choice& choice, const Basis& basis);

/// Less of its device stays free than is usual, as --margin may ask.
bool has_small_margin(const Summary& summary);

}  // namespace shardscope::planner
