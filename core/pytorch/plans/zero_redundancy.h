// torch.distributed.optim.ZeroRedundancyOptimizer: which rank keeps the states of which parameter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace shardscope {

/// By rank: indices of the parameters that it owns. The largest comes first; each goes to the rank
/// with the fewest elements so far. Example: elements 7, 5, 4 on 2 ranks: {0}, {1, 2}. Source:
/// torch 2.15 distributed/optim/zero_redundancy_optimizer.py, _partition_parameters.
std::vector<std::vector<std::size_t>> zero_redundancy_partition(
    std::span<const std::int64_t> elements, int ranks);

}  // namespace shardscope
