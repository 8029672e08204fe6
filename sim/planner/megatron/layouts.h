// The ways to divide a training of Megatron-LM over ranks.
#pragma once

#include <string>
#include <vector>

#include "core/config/megatron/settings.h"

namespace shardscope::planner {

/// Every layout of `training` on its ranks that has no contradictions, without recomputation:
/// tensor (inside a node, with sequence parallelism) x pipeline x virtual stages x context x
/// expert x data parallelism, micro-batches of 1 to 8 sequences, with and without the distributed
/// optimizer. Layers that do not divide over stages are dealt out unevenly (embedding and loss as a
/// layer each, else other numbers on the first and last rank). A context rank has 2048 tokens or
/// more. `training` says model, batch of a step, world and precision.
std::vector<megatron::Settings> megatron_layouts(const megatron::Settings& training,
                                                 int ranks_per_node);

/// "tensor=4,pipeline=2,context=1,shard=8": what takes one place only; replicate in the place of
/// shard without the distributed optimizer.
std::string megatron_mesh_text(const megatron::Settings& settings);

/// What the mesh does not say: "2 stages a rank, batch 1 x 16, recomputation full".
std::string megatron_settings_text(const megatron::Settings& settings);

}  // namespace shardscope::planner
