// --expert-load: how many more tokens the busiest rank's experts get than the average.
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace shardscope {

/// Tokens of the busiest of the ranks that share a layer's experts, by the average of these ranks.
struct ExpertLoad {
  double factor = 1;
  std::optional<std::pair<double, double>> range = {};  ///< that it may lie in
};

/// "1.3" or "1.3:1.1-1.8". Throws Error for a factor below 1, or outside of its range.
ExpertLoad parse_expert_load(const std::optional<std::string>& text);
/// Error where one of `expert_ranks` ranks would have more than all tokens.
void check_expert_load(const ExpertLoad& load, int expert_ranks);

}  // namespace shardscope
