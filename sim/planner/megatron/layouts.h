// The ways to divide a training of Megatron-LM over ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/config/megatron/settings.h"

namespace shardscope::planner {

/// What a layout says beside its training.
struct MegatronLayout {
  std::int32_t tensor = 1, pipeline = 1, context = 1, expert = 1, stages_per_rank = 1;
  std::int32_t micro_batch = 1;
  std::int32_t first_rank_layers = 0, last_rank_layers = 0;
  bool embedding_and_loss_as_layers = false;
  bool shards = false;    ///< the distributed optimizer
  bool overlaps = false;  ///< its reductions and gathers
  bool overlaps_tensor = false;

  megatron::Settings of(const megatron::Settings& training) const;
};

/// Every layout of `training` on its ranks that has no contradictions, without recomputation:
/// tensor (inside a node, with sequence parallelism, with and without its overlap) x pipeline x
/// virtual stages x context x expert x data parallelism, micro-batches of 1 to 8 sequences, without
/// the distributed optimizer, with it, and with its overlap. Layers that do not divide over stages
/// are dealt out unevenly (embedding and loss as a layer each, else other numbers on the first and
/// last rank). A context rank has 2048 tokens or more. `training` says model, batch of a step,
/// world and precision.
std::vector<MegatronLayout> megatron_layouts(const megatron::Settings& training,
                                             int ranks_per_node);

/// "tensor=4,pipeline=2,context=1,shard=8": what takes one place only; replicate in the place of
/// shard without the distributed optimizer.
std::string megatron_mesh_text(const megatron::Settings& settings);

/// What the mesh does not say: "2 stages a rank, batch 1 x 16, recomputation full".
std::string megatron_settings_text(const megatron::Settings& settings);

}  // namespace shardscope::planner
