// A choice that may be the answer, with its figures.
#pragma once

#include <string>

#include "sim/planner/answer/basis.h"
#include "sim/planner/choice.h"
#include "sim/prediction/band.h"
#include "traces/summary.h"

namespace shardscope::planner {

struct Candidate {
  Choice choice;
  Summary summary;
  int place = 0;        ///< 1 is the best
  std::string why;      ///< it is not the best: "4.2% slower: 3.1 ms more exposed communication"
  StepTimeMoves moves;  ///< of its step time
  /// How much longer it takes than the best, by the objective's time (cost: GPU-hours), and the
  /// band of that.
  double slower_share = 0, slower_low_share = 0, slower_high_share = 0;
  bool ties = false;      ///< that band has 0 in it: which of the two is faster cannot be told
  bool on_front = false;  ///< no other candidate is both faster and smaller
  double gpu_hours = 0;   ///< per 10^9 tokens
};

/// Predicts the choice. Throws as `summary_of` does.
Candidate candidate_of(const Choice& choice, const Basis& basis, const std::stop_token& stop = {});

/// Less of its device stays free than is usual, as --margin may ask.
bool has_small_margin(const Summary& summary);

}  // namespace shardscope::planner
