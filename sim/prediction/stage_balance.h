// Layers dealt out to the stages of a pipeline by what its ranks cost.
#pragma once

#include <functional>
#include <vector>

namespace shardscope {

/// What a pipeline costs, in time or memory.
struct PipelineCosts {
  double whole = 0;           ///< of all ranks together; 0: the ranks alone count
  std::vector<double> ranks;  ///< of each
};
/// Of a pipeline whose stages have so many layers.
using CostsOfLayers = std::function<PipelineCosts(const std::vector<int>& layers_of_stages)>;

/// Layers of each stage, from `layers` on: a layer moves from the dearest rank to another as long
/// as the whole costs less, or as much while the ranks, the dearest first, cost less. The rank's
/// stage with most layers gives it, the other rank's stage with fewest takes it; a stage between
/// the first and the last keeps one at least. Example: four ranks of 8, 8, 8, 8 layers that cost 1
/// each, and a head that costs 3: 9, 9, 8, 6.
std::vector<int> balanced_stages(std::vector<int> layers, const std::vector<int>& rank_of_stage,
                                 const CostsOfLayers& costs);

}  // namespace shardscope
