#include "core/native/resolved_strategy.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/native/native_abilities.h"

namespace shardscope {
namespace {

Mesh implied_mesh(ShardingStrategy sharding, int world) {
  return sharding == ShardingStrategy::no_shard ? Mesh{.replicate = world} : Mesh{.shard = world};
}

/// What a hybrid does inside its groups.
std::string_view unreplicated(ShardingStrategy hybrid) {
  return name_of(hybrid == ShardingStrategy::hybrid_shard ? ShardingStrategy::full_shard
                                                          : ShardingStrategy::shard_grad_op);
}

void check_mesh(const Strategy& strategy, int world, std::string_view where) {
  const auto fail = [&](std::string what, std::string way_out) {
    throw Error(
        {.where = std::string(where), .what = std::move(what), .way_out = std::move(way_out)});
  };
  const Mesh& mesh = strategy.mesh;
  if (mesh.pipeline < 1 || mesh.replicate < 1 || mesh.shard < 1)
    fail("a mesh axis must be positive, got " + text_of(mesh),
         "give for example replicate=2,shard=2");
  if (static_cast<std::int64_t>(mesh.pipeline) * mesh.replicate * mesh.shard != world)
    fail("mesh " + text_of(mesh) + " is not " + std::to_string(world) + " ranks",
         "make the axes multiply to the world size");
  const std::string name(name_of(strategy.sharding));
  const bool is_pipelined = mesh.pipeline > 1;
  const int inside = mesh.replicate * mesh.shard;
  if (strategy.sharding == ShardingStrategy::no_shard && mesh.shard != 1)
    fail("no_shard has nothing to shard over " + std::to_string(mesh.shard) + " ranks",
         "give replicate=" + std::to_string(inside) + " instead of shard");
  const bool hybrid = is_hybrid(strategy.sharding);
  if (hybrid && (mesh.shard < 2 || mesh.replicate < 2))
    fail(name + " needs at least 2 replicas of at least 2 shards, got " + text_of(mesh),
         fmt::format("give for example --mesh {}replicate=2,shard=2 on {} ranks, or use {}",
                     is_pipelined ? fmt::format("pipeline={},", mesh.pipeline) : "",
                     4 * mesh.pipeline, unreplicated(strategy.sharding)));
  if (!hybrid && strategy.sharding != ShardingStrategy::no_shard && mesh.replicate != 1)
    fail(fmt::format("{} shards over all ranks{}, got {}", name, is_pipelined ? " of a stage" : "",
                     text_of(mesh)),
         "use hybrid_shard or hybrid_shard_zero2, or drop the replicate axis");
}

void check_offload(const Strategy& strategy, std::string_view where) {
  if (strategy.offload == Offload::none) return;
  const bool shards_parameters = strategy.sharding == ShardingStrategy::full_shard ||
                                 strategy.sharding == ShardingStrategy::hybrid_shard;
  if (strategy.offload == Offload::all && !shards_parameters)
    throw Error({.where = std::string(where),
                 .what = std::string(name_of(strategy.sharding)) +
                         " keeps whole parameters on the device, so that offload all cannot be",
                 .way_out = "use full_shard or hybrid_shard, or offload optimizer"});
  if (strategy.reduce_every_micro_batch)
    throw Error({.where = std::string(where),
                 .what = "offload copies gradients to the host once a step",
                 .way_out = "drop reduce_every_micro_batch or offload"});
}

}  // namespace

Strategy resolved(Strategy strategy, int world, std::string_view where) {
  if (world < 1) {
    throw Error({.where = std::string(where),
                 .what = "a world of " + std::to_string(world) + " ranks cannot be",
                 .way_out = "give at least 1"});
  }
  if (strategy.runtime != Runtime::native) {
    throw Error({.where = std::string(where),
                 .what = "the runtime is " + std::string(name_of(strategy.runtime)) +
                         "; `shardscope simulate` predicts it, but `train` cannot run it",
                 .way_out = "write \"runtime\": \"native\" in the job"});
  }
  const auto& runnable = native_abilities().strategies;
  if (std::find(runnable.begin(), runnable.end(), strategy.sharding) == runnable.end()) {
    throw Error({.where = std::string(where),
                 .what = "the native runtime cannot run " + std::string(name_of(strategy.sharding)),
                 .way_out = "use one of " + names_of(runnable)});
  }
  if (strategy.mesh == Mesh{}) strategy.mesh = implied_mesh(strategy.sharding, world);
  check_mesh(strategy, world, where);
  check_offload(strategy, where);
  if (strategy.wrap.policy == WrapPolicy::by_hand && strategy.mesh.pipeline > 1) {
    throw Error({.where = std::string(where),
                 .what = "units by hand (" + text_of(strategy.wrap) +
                         ") do not go with a pipeline, whose ranks have different blocks",
                 .way_out = "use wrap transformer or size:N, or drop the pipeline axis"});
  }
  const bool keeps_whole_gradients = strategy.sharding == ShardingStrategy::no_shard ||
                                     strategy.sharding == ShardingStrategy::zero1;
  if (strategy.reduce_every_micro_batch && keeps_whole_gradients) {
    throw Error(
        {.where = std::string(where),
         .what = std::string(name_of(strategy.sharding)) +
                 " keeps whole gradients and reduces them once a step",
         .way_out = "drop reduce_every_micro_batch, or use shard_grad_op, full_shard or a hybrid"});
  }
  return strategy;
}

}  // namespace shardscope
