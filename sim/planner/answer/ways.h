// Every way that was weighed, and what became of it.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/planner/answer/candidate.h"
#include "sim/planner/answer/rounds.h"

namespace shardscope::planner {

struct Way {
  Choice choice;
  int place = 0;        ///< 0: none
  std::string outcome;  ///< "place", "slower", "bounded", "out_of_memory", ... (search.h)
  Duration time;        ///< of a step; of "bounded" it takes at least that; 0: not known
  Bytes memory;         ///< needed, at least; 0: not known
  std::string why;      ///< it has no place, or is not the first
  std::optional<double> bubble_share = {};  ///< of a pipeline that has a place
};

/// By choice, as they were enumerated. `candidates`: by place, of which the first `best_few` have
/// theirs for the objective, as in Answer; what was left out did not come among those.
std::vector<Way> ways_of(const Weighed& weighed, std::span<const Candidate> candidates,
                         std::size_t best_few, const Basis& basis);

/// A line for each way under a line of names, for spreadsheets (docs/cli.md).
std::string ways_csv(std::span<const Way> ways);

}  // namespace shardscope::planner
