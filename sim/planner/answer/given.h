// The training that was given: where it stands, and what its smallest mend is.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "sim/planner/answer/candidate.h"

namespace shardscope::planner {

struct GivenPlace {
  std::string name;
  std::string strategy;  ///< "fsdp1 full_shard, batch 8"
  Summary summary;
  std::string refused;             ///< why there is no prediction of it; empty: there is one
  std::size_t faster_choices = 0;  ///< among the places
  /// The fewest changes that make it fit, or make it faster.
  std::vector<std::string> changes;
  std::optional<Candidate> changed;
};

/// Predicts the given run, and looks for the fewest settings (one, then two) that change it into
/// one of `choices` that fits, or that is faster than it by more than a percent.
GivenPlace place_of(const Given& given, const std::vector<Choice>& choices, const Basis& basis,
                    const std::stop_token& stop);

/// How many of the candidates are faster than it.
std::size_t faster_than(const GivenPlace& given, std::span<const Candidate> candidates);

}  // namespace shardscope::planner
