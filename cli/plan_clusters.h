// A plan's question answered for several clusters, side by side.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "cli/terminal.h"
#include "sim/planner/answer/answer.h"
#include "sim/planner/answer/inputs.h"

namespace shardscope {

struct ClusterAnswer {
  std::string cluster;  ///< as --cluster names it
  planner::Inputs inputs;
  planner::Answer answer;
};

/// The place that the answer chose; null where nothing fits.
const planner::Candidate* chosen_place(const ClusterAnswer& one);

/// The first of those with the most tokens a second, and of those with the smallest price (without
/// prices: fewest GPU-hours) for the same tokens. None where nothing fits on any.
struct BestClusters {
  std::optional<std::size_t> fastest, cheapest;
};
BestClusters best_of(std::span<const ClusterAnswer> all);

/// A line for each cluster, and which is fastest and cheapest.
std::string clusters_text(std::span<const ClusterAnswer> all, const Painter& painter);
/// "shardscope.plan/1" with `clusters`: figures of the chosen place, and the cluster's whole plan.
std::string clusters_json(std::span<const ClusterAnswer> all);

}  // namespace shardscope
