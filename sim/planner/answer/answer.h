// The answer to a plan's question: the best few choices, why the others lost, and where the given
// training stands.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "sim/planner/answer/candidate.h"
#include "sim/planner/answer/chosen.h"
#include "sim/planner/answer/curve.h"
#include "sim/planner/answer/given.h"
#include "sim/planner/answer/limits.h"
#include "sim/planner/answer/rejected.h"
#include "sim/planner/answer/ways.h"
#include "sim/planner/written_choice.h"

namespace shardscope::planner {

struct Answer {
  std::vector<Candidate> candidates;     ///< by place; those of the front behind the best few
  std::size_t best_few = 0;              ///< of the candidates: the places asked for
  Chosen chosen;                         ///< of the candidates: the one that is written
  Limits limits;                         ///< of the chosen one
  std::optional<WrittenChoice> written;  ///< it as a file; none where nothing fits
  std::optional<Candidate> file_alone;   ///< what the file runs, where that is another choice
  std::vector<Rejected> rejected;        ///< in the order of enumeration
  std::vector<Dropped> dropped;
  std::vector<std::string> remarks;  ///< what turns out other than is usually said
  std::vector<std::string> advice;   ///< where nothing fits: how far off, and what would do
  std::optional<GivenPlace> given;
  std::vector<CurvePoint> curve;  ///< where several numbers of ranks were weighed
  std::vector<Way> ways;          ///< one for each weighed one that is not in_groups
  std::size_t choices = 0;        ///< that were weighed
  std::size_t in_groups = 0;      ///< of them: layouts of torchtitan without an entry in ways
  std::size_t simulated = 0;
  double elapsed_s = 0;
  bool interrupted = false;
};

/// Weighs what the inputs leave open, on all cores. Throws Error where nothing is left to weigh, or
/// the profile lacks a figure.
Answer answer(const Inputs& inputs, const Watcher& watcher);

}  // namespace shardscope::planner
