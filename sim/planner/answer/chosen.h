// Which of the places is written.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "sim/planner/answer/candidate.h"
#include "sim/planner/written_choice.h"

namespace shardscope::planner {

struct Chosen {
  std::size_t candidate = 0;
  std::string why_not_first;  ///< where it is not the first place
};

/// Of the places that cannot be told apart from the first one the first with the least against it:
/// nothing, that its file alone would take more memory, or that next to none is left.
Chosen chosen_of(std::span<const Candidate> places, const WrittenFrom& from);

}  // namespace shardscope::planner
