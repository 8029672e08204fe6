// Every way that was weighed, and what became of it.
#pragma once

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
};

/// By choice, as they were enumerated. `candidates`: by place.
std::vector<Way> ways_of(const Weighed& weighed, std::span<const Candidate> candidates,
                         const Basis& basis);

/// A line for each way under a line of names, for spreadsheets (docs/cli.md).
std::string ways_csv(std::span<const Way> ways);

}  // namespace shardscope::planner
