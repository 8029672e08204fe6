// How far the prediction is off, by unit and by category, over what was matched.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/side_by_side.h"
#include "traces/match/match.h"

namespace shardscope {

/// Times of a step: over several steps and ranks each figure is the median, the lower one of two.
struct UnitErrors {
  std::optional<std::string> unit;  ///< "" is the root; none: what belongs to no unit
  SideBySide<Duration> compute;
  SideBySide<Duration> communication;  ///< only where both sides have a duration
};

struct MatchErrors {
  SideBySide<Duration> step;
  SideBySide<Duration> compute, copy;  ///< matched operators
  SideBySide<Duration> communication;  ///< matched collectives, as they run alone
  SideBySide<Duration> unmatched;      ///< operators without counterpart
  std::vector<UnitErrors> by_unit;     ///< in the order of the units, what has none last
};

/// A match and the predicted trace that it was made with.
struct MatchedRank {
  const Trace* predicted = nullptr;
  const RankMatch* match = nullptr;
};

MatchErrors match_errors(const std::vector<MatchedRank>& ranks);

}  // namespace shardscope
