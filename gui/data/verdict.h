// What two ways to train come to, in a sentence whose every part follows from the figures.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gui/data/strategy_rows.h"

namespace shardscope::gui {

struct Verdict {
  /// "FULL_SHARD saves 41% of memory and costs 6% of time here, because ..."
  std::string sentence;
  std::vector<std::string> reasons;  ///< the figures that it rests on, one line each
  bool operator==(const Verdict&) const = default;
};

/// Step times that differ by less than this share of the baseline's are the same, or by less than
/// the steps of either side differ among themselves.
inline constexpr double same_time_share = 0.005;
/// Peaks that differ by less than this share of the baseline's are about the same.
inline constexpr double same_memory_share = 0.001;

/// `other` against `baseline`: from profiled figures where both have them, else from predicted
/// ones. Steps of different numbers of tokens are judged by their time per token. Where the two
/// have no such figures in common, or their steps are not known to be of the same work (flops by
/// MFU), it says so and claims nothing.
Verdict compared(const StrategyRow& baseline, const StrategyRow& other);

/// How well the row was predicted; of a row with one side, that the other is missing.
Verdict predicted_against_profiled(const StrategyRow& row);

/// "41%", "6.1%", "0.81%": two significant digits, without sign.
std::string percent_text(double share);

}  // namespace shardscope::gui
