// Layers dealt out to the stages of a pipeline by what its ranks cost.
#pragma once

#include <functional>
#include <vector>

namespace shardscope {

/// What each rank of a pipeline costs (time or memory) where its stages have so many layers.
using RankCosts = std::function<std::vector<double>(const std::vector<int>& layers_of_stages)>;

/// Layers of each stage, from `layers` on: a layer moves from the dearest rank to another as long as
/// the costs, the dearest first, become less. The rank's stage with most layers gives it, the other
/// rank's stage with fewest takes it; a stage between the first and the last keeps one at least.
/// Example: four ranks of 8, 8, 8, 8 layers that cost 1 each, and a head that costs 3: 9, 9, 8, 6.
std::vector<int> balanced_stages(std::vector<int> layers, const std::vector<int>& rank_of_stage,
                                 const RankCosts& costs);

}  // namespace shardscope
