// How far apart ranks are that compute the same at the same time.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/schedule/samples.h"

namespace shardscope {

/// Of one step that every rank computed by itself. `seconds` has the compute of its parts, all
/// `parts` of rank 0 first. `compute` is the mean of the parts. `wait` is their median: a rank that
/// is interrupted once for milliseconds says nothing of the other parts.
StragglingSample straggling_of(std::span<const double> seconds, std::size_t parts);

/// Samples of many steps as few, shortest compute first, because one step says little of how late
/// the last rank is: the medians of those down to a quarter of the longest compute, and so on.
std::vector<StragglingSample> pooled(std::vector<StragglingSample> samples);

}  // namespace shardscope
